"""Our own agents: PPO and A2C in NumPy, torch or wholly on a device, and a double DQN."""
