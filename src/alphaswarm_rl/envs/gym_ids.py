"""From an id to Gymnasium environments: retired versions, missing libraries, wrong parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, parse_env_id, registry
from gymnasium.error import DependencyNotInstalled, Error

from alphaswarm_rl.core.errors import EnvError, MissingExtra, nearest, require
from alphaswarm_rl.envs.gymnasium_env import DATED_NAMES, name_of

#: Our extra that installs the library; others are named by their own name.
_EXTRAS = {
    "Box2D": "box2d",
    "pygame": "render",
    "PIL": "render",
    "mujoco": "mujoco",
    "imageio": "mujoco",
    "gym_anytrading": "anytrading",
}

AnyEnv = gymnasium.Env[Any, Any]


@dataclass(frozen=True)
class Resolved:
    """What an id stands for.

    Attributes:
        spec: The registered environment.
        notice: What the user should know where it is another one than was asked for.
    """

    spec: EnvSpec
    notice: str | None = None


def resolve(env_id: str) -> Resolved:
    """The registered environment that an id stands for.

    An id that is registered is used as it is. One whose version is gone, or is there only to say that it moved, stands
    for the newest version of its name.
    """
    _import_family(env_id)
    spec = registry.get(env_id)
    if spec is not None and not _is_tombstone(spec):
        return Resolved(spec)
    try:
        namespace, name, asked = parse_env_id(env_id)
    except Error as error:
        raise EnvError(f"environment {env_id!r}", "it is not an id such as Name-v1", _nearest(env_id)) from error
    versions = [
        known
        for known in registry.values()
        if (known.namespace, known.name) == (namespace, name) and known.version is not None and not _is_tombstone(known)
    ]
    if not versions:
        raise EnvError(f"environment {env_id!r}", "Gymnasium knows no such id", _nearest(env_id))
    newest = max(versions, key=lambda known: known.version or 0)
    if asked is not None and asked > (newest.version or 0):
        raise EnvError(f"environment {env_id!r}", "there is no such version yet", f"The newest is {newest.id}.")
    return Resolved(newest, f"{env_id} is not in Gymnasium {version('gymnasium')}; {newest.id} is used")


def _nearest(env_id: str) -> str:
    known = {spec.id for spec in registry.values() if not _is_tombstone(spec)}
    suggestion = nearest(env_id, known | {f"{name}-v0" for name in DATED_NAMES})
    return f"{suggestion} One of your own is registered by a module named with --plugin."


def _import_family(env_id: str) -> None:
    # These two libraries register their ids only when imported. The names are ours: a spec never imports anything.
    if name_of(env_id) in DATED_NAMES:
        require("gym_anytrading", extra="anytrading")
    elif env_id.startswith("ALE/"):
        try:
            import ale_py  # noqa: F401
        except ModuleNotFoundError as error:
            raise _missing(error) from error


def _is_tombstone(spec: EnvSpec) -> bool:
    """Whether the id is registered only to say that it moved, such as Ant-v3."""
    entry_point = spec.entry_point
    return callable(entry_point) and getattr(entry_point, "__module__", "") == "gymnasium.envs"


def make_all(
    spec: EnvSpec, *, num_envs: int, kwargs: Mapping[str, object], max_episode_steps: int | None, render: bool
) -> list[AnyEnv]:
    """`num_envs` environments of their own; only the first draws, where pictures are wanted."""
    first = _make(spec, kwargs, max_episode_steps)
    if render:
        modes = first.metadata.get("render_modes") or []
        first.close()  # type: ignore[no-untyped-call]
        if "rgb_array" not in modes:
            raise EnvError(f"{spec.id}'s picture", "it offers no rgb_array rendering", "Run it without rendering.")
        first = _make(spec, {**kwargs, "render_mode": "rgb_array"}, max_episode_steps)
    return [first, *(_make(spec, kwargs, max_episode_steps) for _ in range(num_envs - 1))]


def _make(spec: EnvSpec, kwargs: Mapping[str, object], max_episode_steps: int | None) -> AnyEnv:
    try:
        # The checker costs a call per step; it checks one step and never again.
        return gymnasium.make(spec, max_episode_steps=max_episode_steps, disable_env_checker=True, **kwargs)
    except (DependencyNotInstalled, ModuleNotFoundError) as error:
        raise _missing(error) from error
    except TypeError as error:
        if not kwargs:
            raise
        raise EnvError(
            f"environment {spec.id!r}",
            f"it does not take its kwargs: {str(error)[:200]}",
            "Correct the environment's kwargs.",
        ) from error


def _missing(error: BaseException) -> Exception:
    """The error for a library that is not installed: by our extra where there is one."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ModuleNotFoundError):
        cause = cause.__cause__ or cause.__context__
    library = (cause.name or "").partition(".")[0] if isinstance(cause, ModuleNotFoundError) else ""
    if not library:
        return MissingExtra("a library of the environment", str(error), "Install what it names.")
    extra = _EXTRAS.get(library)
    package = f"'alphaswarm-rl[{extra}]'" if extra else library.replace("_", "-")
    return MissingExtra(f"the library {library!r}", "it is not installed", f"Run: pip install {package}.")


def picture(env: AnyEnv) -> Any:
    """One frame of an environment that was made to draw."""
    try:
        return env.render()
    except DependencyNotInstalled as error:
        raise _missing(error) from error
