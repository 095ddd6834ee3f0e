"""Tuning documents that take a moment."""

PPO = {
    "name": "Tuned",
    "env": {"class": "cartpole"},
    "agent": {"class": "ppo", "kwargs": {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "net_arch": [8]}},
    "training": {"total_timesteps": 256, "n_envs": 4, "eval_during_training": True, "seed": 3},
    "evaluation": {"episodes": 4},
}
TRADING = {
    "name": "Traded",
    "data_pipeline": {"class": "synthetic", "kwargs": {"n_assets": 2, "n_bars": 300}},
    "env": {"class": "stock_trading"},
    "agent": {"class": "random"},
    "reward": {"class": "drawdown_penalty"},
    "training": {
        "eval_during_training": True,
        "end": "2020-06-01",
        "validation_start": "2020-06-01",
        "validation_end": "2020-08-03",
    },
}
RATE = {"agent.kwargs.learning_rate": {"type": "float", "low": 1e-4, "high": 1e-2, "log": True}}
#: Random actions balance the pole for about 22 steps, always the same action for about 9.
POLICIES = {"agent": {"type": "categorical", "choices": [{"class": "random"}, {"class": "constant"}]}}


def base(**changes):
    """The base spec with sections merged in."""
    data = {key: dict(value) if isinstance(value, dict) else value for key, value in PPO.items()}
    for key, value in changes.items():
        data[key] = {**data[key], **value} if key in ("training", "evaluation") else value
    return data


def document(space=None, spec=None, **study):
    """A document as data; `study` has two trials unless it says otherwise."""
    return {"base": spec or base(), "space": space or RATE, "study": {"trials": 2, **study}}
