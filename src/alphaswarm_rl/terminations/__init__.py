"""Why an episode ends: one file per reason."""
