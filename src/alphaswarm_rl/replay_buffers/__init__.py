"""Memories of transitions for off-policy learning: NumPy arrays, batched over environments, saved exactly."""
