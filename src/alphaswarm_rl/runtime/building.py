"""From a spec to built things: environments with their preprocessing, and the learner."""

from __future__ import annotations

from typing import Any

from alphaswarm_rl.core.contracts import AgentRequest, AnyVectorEnv, EnvRequest, Learner, Phase, State
from alphaswarm_rl.core.errors import SpecError
from alphaswarm_rl.core.kinds import Agent, EnvComponent
from alphaswarm_rl.core.seeding import derived_seed
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.envs.observation_transform import ObservationSettings
from alphaswarm_rl.envs.preprocessing import PreprocessedEnv
from alphaswarm_rl.spec import RLExperimentSpec

#: Vector steps of random actions that `obs.normalize: fixed` takes its statistics from.
FIT_STEPS = 1000


class Builder:
    """Builds what one spec describes, for one seed.

    Args:
        spec: The validated spec.
        seed: The run's seed, from which every consumer's stream is derived by name.
        device: Device of the learner's tensors.
    """

    def __init__(self, spec: RLExperimentSpec, *, seed: int, device: str) -> None:
        assert spec.env is not None
        assert spec.agent is not None
        self.spec = spec
        self.seed = seed
        self.device = device
        self.env: EnvComponent = spec.env.build()
        self.agent: Agent = spec.agent.build()
        self._check_windows()

    def _check_windows(self) -> None:
        if "window" in self.env.slots():
            return
        training, evaluation = self.spec.training, self.spec.evaluation
        for name, window in (
            ("training.start/end", training.window),
            ("training.validation_start/validation_end", training.validation_window),
            ("evaluation.start/end", evaluation.window),
        ):
            if window:
                raise SpecError(
                    f"spec fields {name}", f"the env {self.env.rl_alias!r} has no dates", "Leave the dates out."
                )

    def build_env(
        self, stream: str, *, num_envs: int, phase: Phase, window: Window, render: bool = False
    ) -> AnyVectorEnv:
        """An environment whose randomness is the stream of that name; preprocessed as the spec says."""
        self.refuse_window(window)
        env = self._raw_env(stream, num_envs=num_envs, phase=phase, window=window, render=render)
        obs = self.spec.obs
        if obs.normalize == "none" and obs.clip_range is None and obs.stack_frames is None:
            return env
        asked = ObservationSettings(normalize=obs.normalize, clip_range=obs.clip_range, stack_frames=obs.stack_frames)
        return PreprocessedEnv(env, asked, training=phase == "train")

    def refuse_window(self, window: Window) -> None:
        """Refuses dates for an environment that has none."""
        if window and "window" not in self.env.slots():
            raise SpecError(
                f"window {window}",
                f"the env {self.env.rl_alias!r} has no dates",
                "Replay it with another seed instead.",
            )

    def in_sample(self, window: Window) -> bool | None:
        """Whether an evaluation on those dates sees what training or validation saw; None where nobody can know."""
        if not self.agent.trains:
            return False
        training = self.spec.training
        seen = (training.window, training.validation_window) if training.validation_window else (training.window,)
        return self.env.in_sample(window, seen)

    def fit_preprocessing(self, env: AnyVectorEnv) -> None:
        """Fits what must be fitted before training, on an environment of its own."""
        if isinstance(env, PreprocessedEnv) and self.spec.obs.normalize == "fixed":
            warm_up = self._raw_env(
                "fit", num_envs=env.num_envs, phase="train", window=self.spec.training.window, render=False
            )
            try:
                env.fit(warm_up, seed=self.seed, steps=FIT_STEPS)
            finally:
                warm_up.close()

    def _raw_env(self, stream: str, *, num_envs: int, phase: Phase, window: Window, render: bool) -> AnyVectorEnv:
        seed = derived_seed(self.seed, stream)
        return self.env.build(EnvRequest(num_envs=num_envs, seed=seed, phase=phase, window=window, render=render))

    def build_learner(self, env: AnyVectorEnv, *, training: bool) -> Learner:
        """The agent, built for that environment's spaces; to be trained, or only to be asked for actions."""
        seed = derived_seed(self.seed, "agent")
        return self.agent.build(AgentRequest(env=env, seed=seed, device=self.device, training=training))


def preprocessing_state(env: AnyVectorEnv) -> State | None:
    """The fitted statistics of an environment's preprocessing, if it has any."""
    return env.statistics() if isinstance(env, PreprocessedEnv) else None


def load_preprocessing(env: AnyVectorEnv, state: State | None) -> None:
    """Hands fitted statistics to an environment; they are loaded, never fitted again."""
    if isinstance(env, PreprocessedEnv) and state is not None:
        env.load_statistics(state)


def is_stateful(env: Any) -> bool:
    """Whether an environment can be put back into any state."""
    if isinstance(env, PreprocessedEnv):
        return bool(env.inner_stateful)
    return hasattr(env, "get_state") and hasattr(env, "set_state")
