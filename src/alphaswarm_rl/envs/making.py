"""make_env: an environment from an alias and a panel, without a spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from alphaswarm_rl.core.contracts import AnyVectorEnv, EnvRequest, Phase
from alphaswarm_rl.core.errors import EnvError, nearest
from alphaswarm_rl.core.refs import ComponentRef, build_from_config, reference

Part = Mapping[str, Any] | ComponentRef | None


def make_env(
    alias: str,
    *,
    panel: Any = None,
    num_envs: int = 1,
    seed: int = 0,
    device: str = "cpu",
    backend: Literal["numpy", "torch"] | None = None,
    phase: Phase = "train",
    single: bool = False,
    observation: Part = None,
    action: Part = None,
    reward: Part = None,
    terminations: Sequence[Mapping[str, Any] | ComponentRef] | None = None,
    **kwargs: Any,
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
    backend = backend or ("numpy" if device == "cpu" else "torch")
    _one_of("phase", phase, get_args(Phase))
    _one_of("backend", backend, ("numpy", "torch"))
    if backend == "numpy" and device != "cpu":
        raise EnvError(f"device {device!r}", "NumPy's arrays are on the CPU", "Leave the backend out, or the device.")
    if single and (num_envs != 1 or backend != "numpy"):
        raise EnvError(
            "single=True",
            f"it is one NumPy environment, not {num_envs} of {backend}",
            "Leave single or the others out.",
        )
    component = build_from_config({"class": alias, "kwargs": kwargs}, kind="env")
    given = {"observation": observation, "action": action, "reward": reward}
    parts = {slot: reference(ref, slot).build() for slot, ref in given.items() if ref is not None}
    if terminations is not None:
        parts["terminations"] = tuple(reference(ref, "termination").build() for ref in terminations)
    if panel is not None:
        parts["panel"] = panel
    for slot in parts:
        if ("data_pipeline" if slot == "panel" else slot) not in component.slots():
            raise EnvError(f"{slot}=...", f"the env {alias!r} takes none", "Leave it out.")
    request = EnvRequest(
        num_envs=num_envs,
        seed=seed,
        phase=phase,
        parts=parts,
        backend=backend,
        device=device,
    )
    env: AnyVectorEnv = component.build(request)
    if not single:
        return env
    from alphaswarm_rl.envs.single import SingleEnv

    return SingleEnv(env)


def _one_of(what: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise EnvError(f"{what} {value!r}", f"it is one of {', '.join(known)}", nearest(str(value), known))
