"""Encoders of time series: the trunks that policies stand on. They know nothing of reinforcement learning."""
