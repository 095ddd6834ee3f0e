"""Where market data comes from, and what is computed from it before an agent sees it."""
