"""Every environment that Gymnasium can make, by its id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field, JsonValue, field_validator
from pydantic_core import PydanticCustomError

from alphaswarm_rl.core import slots
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.kinds import EnvComponent

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from alphaswarm_rl.core.contracts import EnvRequest, Window
    from alphaswarm_rl.core.types import JsonMapping, JsonObject
    from alphaswarm_rl.envs.anytrading import Bars

#: Names of gym-anytrading's environments, the ones with dates.
DATED_NAMES = ("forex", "stocks")

#: What `gymnasium.make` would take out of kwargs although it is decided elsewhere.
_RESERVED = {
    "id": "write it beside kwargs",
    "max_episode_steps": "write it beside kwargs",
    "disable_env_checker": "it is off",
    "render_mode": "pictures are asked for when the environment is shown",
    "vectorization_mode": "environments are always batched in one process",
    "vector_kwargs": "environments are always batched in one process",
    "wrappers": "a spec cannot name code",
    "df": "a spec cannot hold a data frame",
}


class GymnasiumEnv(EnvComponent):
    """Any environment registered with Gymnasium, batched; `forex-v0` and `stocks-v0` of gym-anytrading by dates too.

    An id that the installed Gymnasium has retired stands for the newest version of its name, and a notice says so. The
    two-dimensional observations of gym-anytrading are flattened to one dimension; all others stay as they are.
    """

    rl_alias = "gymnasium"
    rl_category = "gymnasium"
    rl_source = "gymnasium"

    class Config(ComponentConfig):
        """Parameters of a Gymnasium environment."""

        id: str = Field(min_length=1, description="Id that gymnasium.make knows, such as CartPole-v1.")
        kwargs: dict[str, JsonValue] = Field(default_factory=dict, description="Parameters of the environment itself.")
        max_episode_steps: int | None = Field(
            None, ge=1, description="Steps after which an episode is truncated; null leaves the id's own limit."
        )

        @field_validator("id")
        @classmethod
        def _refuse_imports(cls, value: str) -> str:
            if ":" in value:
                raise PydanticCustomError(
                    "env_id", "'module:Id' would import code. Write the id alone and load the module as a plug-in"
                )
            return value

        @field_validator("kwargs")
        @classmethod
        def _refuse_reserved(cls, value: JsonObject) -> JsonObject:
            for key in value:
                if key in _RESERVED:
                    raise PydanticCustomError(
                        "env_kwargs", "'{key}' is not for kwargs: {why}", {"key": key, "why": _RESERVED[key]}
                    )
            return value

    @classmethod
    def rl_expand(cls, name: str, kwargs: JsonMapping) -> tuple[str, dict[str, Any]]:
        """An id in place of the alias: its parameters are those that `gymnasium.make` takes beside it."""
        own = dict(kwargs)
        beside = {key: own.pop(key) for key in ("max_episode_steps",) if key in own}
        return cls.rl_alias, {"id": name, **beside, **({"kwargs": own} if own else {})}

    def slots(self) -> frozenset[str]:
        """A window for the ids with dates, nothing for all others."""
        return frozenset({slots.WINDOW}) if self._has_dates else frozenset()

    def flat_observations(self) -> bool:
        """Whether the environment of that id shows one row of numbers; it is made to find out."""
        if self._has_dates:
            return True
        from alphaswarm_rl.envs.gym_ids import make_all, resolve

        config = self.config
        spec = resolve(config.id).spec
        (env,) = make_all(
            spec, num_envs=1, kwargs=config.kwargs, max_episode_steps=config.max_episode_steps, render=False
        )
        shape = env.observation_space.shape
        env.close()  # type: ignore[no-untyped-call]
        return shape is not None and len(shape) == 1

    def notices(self) -> tuple[str, ...]:
        """Which id is used where it is not the one that was asked for."""
        from alphaswarm_rl.envs.gym_ids import resolve

        notice = resolve(self.config.id).notice
        return (notice,) if notice else ()

    def build(self, request: EnvRequest) -> VectorEnv[Any, Any, Any]:
        """The batched environment."""
        from alphaswarm_rl.envs.batched_gym import BatchedGym
        from alphaswarm_rl.envs.episodes import checked_request, refuse_window
        from alphaswarm_rl.envs.gym_ids import make_all, resolve

        checked_request(request)
        spec = resolve(self.config.id).spec
        kwargs = dict(self.config.kwargs)
        if self._has_dates:
            kwargs |= self._bars(request.window).arguments()
        else:
            refuse_window(spec.id, request.window)
        envs = make_all(
            spec,
            num_envs=request.num_envs,
            kwargs=kwargs,
            max_episode_steps=self.config.max_episode_steps,
            render=request.render,
        )
        return BatchedGym(envs, request, flatten=self._has_dates)

    def data_fingerprint(self, window: Window) -> str | None:
        """SHA-256 of the bars of that window and of those that its first observation shows."""
        return self._bars(window).fingerprint() if self._has_dates else None

    def in_sample(self, evaluated: Window, trained: tuple[Window, ...]) -> bool | None:
        """Whether any bar of the evaluation is one of training or validation; None without dates."""
        if not self._has_dates:
            return None
        bars = self._bars(evaluated)
        return any(bars.overlaps(self._bars(window)) for window in trained)

    @property
    def _has_dates(self) -> bool:
        return name_of(self.config.id) in DATED_NAMES

    def _bars(self, window: Window) -> Bars:
        from alphaswarm_rl.envs.anytrading import bars

        return bars(name_of(self.config.id), window, self.config.kwargs)


def name_of(env_id: str) -> str:
    """The id without its version."""
    return env_id.rpartition("-v")[0] or env_id
