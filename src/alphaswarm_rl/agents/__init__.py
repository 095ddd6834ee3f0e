"""Agents: Stable-Baselines3's algorithms behind one adapter, and an agent that runs a fixed policy."""
