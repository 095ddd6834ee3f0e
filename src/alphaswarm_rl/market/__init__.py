"""The market as arrays: the panel of bars, the book of cash and positions, costs and fills."""
