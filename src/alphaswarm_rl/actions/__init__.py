"""What the agent's output means: one file per way."""
