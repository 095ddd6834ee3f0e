"""The trading environments under Gymnasium's names: `gymnasium.make("alphaswarm/stock_trading-v0", panel=panel)`."""

from __future__ import annotations

from typing import Any

import gymnasium

from alphaswarm_rl.core.contracts import AnyVectorEnv
from alphaswarm_rl.envs.making import make_env

#: Aliases that Gymnasium knows; those of the trading environments.
REGISTERED = (
    "anytrading",
    "cash_penalty",
    "crypto_trading",
    "stock_portfolio",
    "stock_trading",
    "stop_loss",
    "tradesim_algotrading",
    "tradesim_portfolio",
)


def make_single(alias: str, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """One environment; the parameters are those of `make_env`."""
    env: gymnasium.Env[Any, Any] = make_env(alias, single=True, **kwargs)
    return env


def make_vector(alias: str, num_envs: int = 1, **kwargs: Any) -> AnyVectorEnv:
    """A batch of them."""
    env: AnyVectorEnv = make_env(alias, num_envs=num_envs, **kwargs)
    return env


def register() -> None:
    """Tells Gymnasium about them, once."""
    for alias in REGISTERED:
        name = f"alphaswarm/{alias}-v0"
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point=f"{__name__}:make_single",
                vector_entry_point=f"{__name__}:make_vector",
                kwargs={"alias": alias},
            )
