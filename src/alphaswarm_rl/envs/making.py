"""Environments without a spec: `make_env` by an alias and a panel, and the same by Gymnasium's names.

`gymnasium.make("alphaswarm/stock_trading-v0", panel=panel)` gives one, `gymnasium.make_vec` a batch of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import gymnasium

from alphaswarm_rl.core import slots
from alphaswarm_rl.core.contracts import AnyVectorEnv, EnvRequest, Phase
from alphaswarm_rl.core.errors import EnvError, nearest
from alphaswarm_rl.core.kinds import EnvComponent
from alphaswarm_rl.core.refs import ComponentRef, build_from_config
from alphaswarm_rl.core.types import JsonMapping

if TYPE_CHECKING:
    from alphaswarm_rl.market.panel import MarketPanel

Backend = Literal["numpy", "torch"]
PartRef = JsonMapping | ComponentRef

#: Aliases that Gymnasium knows; those of the trading environments.
REGISTERED = (
    "anytrading",
    "cash_penalty",
    "crypto_trading",
    "rl_backtest",
    "stock_portfolio",
    "stock_trading",
    "stop_loss",
    "tradesim_algotrading",
    "tradesim_portfolio",
)


def make_env(
    alias: str,
    *,
    panel: MarketPanel | None = None,
    num_envs: int = 1,
    seed: int = 0,
    device: str = "cpu",
    backend: Backend | None = None,
    phase: Phase = "train",
    single: bool = False,
    observation: PartRef | None = None,
    action: PartRef | None = None,
    reward: PartRef | None = None,
    terminations: Sequence[PartRef] | None = None,
    **kwargs: object,
) -> Any:
    """An environment of the catalogue.

    Args:
        alias: Its alias, such as `stock_trading`.
        panel: The market, for trading environments.
        num_envs: How many are stepped together.
        seed: Seed of all their randomness.
        device: `cpu`, or a device of torch such as `cuda`.
        backend: Whose arrays; None: NumPy's on the CPU, torch's elsewhere.
        phase: `train`: episodes start at random bars. `evaluate`: each is the whole window.
        single: Whether to give a `gymnasium.Env` of one environment.
        observation: Reference to what the agent sees; None: the environment's own.
        action: Reference to what the agent may do.
        reward: Reference to what is rewarded.
        terminations: References to why an episode ends.
        kwargs: Parameters of the environment.
    """
    library = _library(backend, device, phase)
    if single and (num_envs != 1 or library != "numpy"):
        raise EnvError(
            "single=True",
            f"it is one NumPy environment, not {num_envs} of {library}",
            "Leave single or the others out.",
        )
    component = build_from_config({"class": alias, "kwargs": kwargs}, kind="env")
    references = {"observation": observation, "action": action, "reward": reward, "terminations": terminations}
    parts = _parts(alias, component, references, panel)
    request = EnvRequest(num_envs=num_envs, seed=seed, phase=phase, parts=parts, backend=library, device=device)
    env: AnyVectorEnv = component.build(request)
    if not single:
        return env
    from alphaswarm_rl.envs.single import SingleEnv

    return SingleEnv(env)


def _library(backend: Backend | None, device: str, phase: str) -> Backend:
    """Whose arrays it is to be; phase, backend and device are refused where they do not fit."""
    library: Backend = backend or ("numpy" if device == "cpu" else "torch")
    for name, value, known in (("phase", phase, get_args(Phase)), ("backend", library, get_args(Backend))):
        if value not in known:
            raise EnvError(f"{name} {value!r}", f"it is one of {', '.join(known)}", nearest(str(value), known))
    if library == "numpy" and device != "cpu":
        raise EnvError(f"device {device!r}", "NumPy's arrays are on the CPU", "Leave the backend out, or the device.")
    return library


def _parts(
    alias: str, component: EnvComponent, references: Mapping[str, object], panel: MarketPanel | None
) -> dict[str, Any]:
    """The built parts and the panel by slot, refused where the environment takes none."""
    parts = slots.build_parts(references)
    if panel is not None:
        parts[slots.PANEL] = panel
    for name in parts:
        if (slots.DATA_PIPELINE if name == slots.PANEL else name) not in component.slots():
            raise EnvError(f"{name}=...", f"the env {alias!r} takes none", "Leave it out.")
    return parts


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
