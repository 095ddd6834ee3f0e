"""Rules that choose the assets of a run from what was known when it began."""
