"""Replay buffers for off-policy learning: transitions as NumPy arrays, batched over environments, saved exactly."""
