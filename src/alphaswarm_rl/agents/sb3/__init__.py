"""Stable-Baselines3 under the runtime: its algorithms as agents, their models as state without a pickle."""
