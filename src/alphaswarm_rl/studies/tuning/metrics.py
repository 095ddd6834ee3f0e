"""What a trial is judged by: a metric of the run's validations or of its evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from alphaswarm_rl.core.errors import SpecError, nearest
from alphaswarm_rl.core.slots import WINDOW
from alphaswarm_rl.core.study_context import StudyRun
from alphaswarm_rl.core.types import JsonMapping
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
        """Its value in a run; None where the run has none, or it is undefined.

        Of validations the last one counts, that of the model that training ends with: the best of a run's validations
        would be one more maximum over noise.
        """
        value = self._metrics(run).get(self.name)
        return None if value is None else float(value)

    def why_none(self, run: StudyRun) -> str:
        """Why a run has no value."""
        reason = (self._metrics(run).get("undefined") or {}).get(self.name)
        lacking = f"run {run.run_id} has no {self}"
        return lacking if reason is None else f"{lacking}, which is undefined: {reason}"

    def _metrics(self, run: StudyRun) -> JsonMapping:
        return run.validation if self.window == "validation" else run.evaluation

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
        if _has_dates(spec):
            self._refuse_windows_that_choose_nothing(spec)
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

    def _refuse_windows_that_choose_nothing(self, spec: RLExperimentSpec) -> None:
        """Refuses to choose by dates that only report: those of the evaluation, or all bars."""
        what, names = f"study.metric {str(self)!r}", "training.validation_start and validation_end"
        if self.window == "evaluation":
            raise SpecError(
                what,
                "the evaluation window is reported and chooses nothing",
                f"Take validation.{self.name}; it needs training.eval_during_training: true, and {names}.",
            )
        if not spec.training.validation_window:
            raise SpecError(
                what,
                "the base spec has no validation window: its validations play all bars, those of training and "
                "evaluation among them",
                f"Write {names} in it.",
            )


def _has_dates(spec: RLExperimentSpec) -> bool:
    assert spec.env is not None
    return WINDOW in spec.env.build().slots()


def _trades(spec: RLExperimentSpec) -> bool:
    from alphaswarm_rl.envs.trading import TradingComponent

    assert spec.env is not None
    return issubclass(spec.env.resolved[0], TradingComponent)
