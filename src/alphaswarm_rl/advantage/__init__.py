"""From rewards and values to advantages: pure functions for NumPy and torch, and the components around them."""
