"""What a trial is judged by: a metric of the run's validations or of its evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from alphaswarm_rl.core.errors import SpecError, nearest
from alphaswarm_rl.core.study_context import StudyRun
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.statistics.performance import ACCOUNT_MEASURES, EPISODE_MEASURES

Window = Literal["validation", "evaluation"]
_WINDOWS: tuple[Window, ...] = get_args(Window)


@dataclass(frozen=True)
class Metric:
    """One metric of one phase.

    Attributes:
        window: The validations during training, or the evaluation at the end.
        name: The measure, as `statistics.performance` names it.
    """

    window: Window
    name: str

    @classmethod
    def read(cls, text: str) -> Metric:
        """The metric that `validation.NAME` or `evaluation.NAME` means; any other text is a ValueError."""
        window, _, name = text.partition(".")
        found = next((known for known in _WINDOWS if known == window), None)
        if found is None:
            raise ValueError(f"{text!r} is not validation.NAME or evaluation.NAME, such as validation.mean_reward")
        known = (*EPISODE_MEASURES, *ACCOUNT_MEASURES)
        if name not in known:
            raise ValueError(f"there is no metric {name!r}. {nearest(name, known)}".rstrip("."))
        return cls(found, name)

    def __str__(self) -> str:
        return f"{self.window}.{self.name}"

    def of(self, run: StudyRun) -> float | None:
        """Its value in a run; None where the run has none.

        Of validations the last one counts, that of the model that training ends with: the best of a run's validations
        would be one more maximum over noise.
        """
        value = (run.validation if self.window == "validation" else run.evaluation).get(self.name)
        return None if value is None else float(value)

    def refuse_absent(self, spec: RLExperimentSpec, *, pruning: bool) -> None:
        """Refuses a metric that no run of the spec would have, and pruning that would have nothing to look at."""
        what = f"study.metric {str(self)!r}"
        validates = spec.training.eval_during_training
        if self.window == "validation" and not validates:
            raise SpecError(
                what,
                "the base spec makes no validations",
                f"Write training: {{eval_during_training: true}} in it, or take evaluation.{self.name}.",
            )
        if self.window == "evaluation" and spec.evaluation.episodes == 0:
            raise SpecError(what, "the base spec makes no evaluation", "Give it evaluation.episodes of 1 or more.")
        if self.name in ACCOUNT_MEASURES and not _trades(spec):
            assert spec.env is not None
            raise SpecError(
                what, f"the env {spec.env.name!r} has no account", f"Take one of {', '.join(EPISODE_MEASURES)}."
            )
        if pruning and not validates:
            raise SpecError(
                "study.pruning",
                "the base spec makes no validations that a trial could be pruned by",
                "Write training: {eval_during_training: true} in it, or study: {pruning: false}.",
            )


def _trades(spec: RLExperimentSpec) -> bool:
    from alphaswarm_rl.envs.trading import TradingComponent

    assert spec.env is not None
    return issubclass(spec.env.resolved[0], TradingComponent)
