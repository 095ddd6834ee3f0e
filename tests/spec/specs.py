"""Specs that tests share."""

MINIMAL = """
name: Minimal
env: {class: gymnasium, kwargs: {id: CartPole-v1}}
agent: {class: ppo, kwargs: {learning_rate: 3e-4}}
"""

TINY = """
name: Tiny
env: {class: cartpole}
agent: {class: ppo, kwargs: {n_steps: 32, batch_size: 32, n_epochs: 1, net_arch: [8]}}
training: {total_timesteps: 512, n_envs: 4, log_interval: 1, seed: 3}
evaluation: {episodes: 4}
"""
