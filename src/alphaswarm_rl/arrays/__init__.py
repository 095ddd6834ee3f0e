"""Arrays below everything: NumPy and torch backends, jit, compiled functions, counter-based randomness."""
