"""What a trial is judged by: a metric of the run's validations or of its evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from alphaswarm_rl.core.errors import SpecError, nearest
from alphaswarm_rl.spec import RLExperimentSpec

if TYPE_CHECKING:
    from alphaswarm_rl.ledger import EvaluationPhase

#: What every evaluation has; the first ones are made of rewards.
OF_REWARDS = ("mean_reward", "std_reward", "min_reward", "max_reward", "total_reward")
OF_EPISODES = (*OF_REWARDS, "mean_length")
#: What those of trading environments have beside them.
OF_ACCOUNTS = (
    "total_return",
    "annual_return",
    "volatility",
    "sharpe",
    "sortino",
    "max_drawdown",
    "final_value",
    "turnover",
    "cost",
)
_PHASES: dict[str, EvaluationPhase] = {"validation": "validation", "evaluation": "evaluate"}


@dataclass(frozen=True)
class Metric:
    """One metric of one phase.

    Attributes:
        window: Whose it is: the validations during training, or the evaluation at the end.
        name: Which it is.
    """

    window: Literal["validation", "evaluation"]
    name: str

    @classmethod
    def read(cls, text: str) -> Metric:
        """The metric that `validation.NAME` or `evaluation.NAME` means; any other text is a ValueError."""
        window, _, name = text.partition(".")
        if window not in _PHASES:
            raise ValueError(f"{text!r} is not validation.NAME or evaluation.NAME, such as validation.mean_reward")
        known = (*OF_EPISODES, *OF_ACCOUNTS)
        if name not in known:
            raise ValueError(f"there is no metric {name!r}. {nearest(name, known)}".rstrip("."))
        return cls("validation" if window == "validation" else "evaluation", name)

    def __str__(self) -> str:
        return f"{self.window}.{self.name}"

    @property
    def phase(self) -> EvaluationPhase:
        """What rows of evaluations call its phase."""
        return _PHASES[self.window]

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
        if self.name in OF_ACCOUNTS and not _trades(spec):
            assert spec.env is not None
            raise SpecError(what, f"the env {spec.env.name!r} has no account", f"Take one of {', '.join(OF_EPISODES)}.")
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
