"""Agents: Stable-Baselines3's algorithms behind one adapter, our own, and an agent that runs a fixed policy."""
