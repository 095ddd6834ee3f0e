"""What the agent sees: one file per builder."""
