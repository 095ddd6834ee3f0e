"""What a verb of the runtime returns. It stands alone, so that whoever shows a result need not load the runtime."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.core.wording import PORTFOLIO_METRICS, window_text

if TYPE_CHECKING:
    from alphaswarm_rl.ledger import RunRow

_METRICS = (
    "episodes",
    "mean_reward",
    "std_reward",
    "min_reward",
    "max_reward",
    "mean_length",
    "best_reward",
    *PORTFOLIO_METRICS,
    "in_sample",
)


class RunFailed(RunError):
    """A run that ended in an error which is not the user's."""

    exit_code = 1


@dataclass(frozen=True)
class RunResult:
    """What training, evaluating or replaying comes to: the run as it ended, its metrics and its checkpoints."""

    run_id: str
    parent_run_id: str | None
    version_id: str
    spec_hash: str
    exec_hash: str
    target: str
    status: str
    seed: int
    timesteps: int
    metrics: JsonObject
    checkpoint: str | None
    checkpoint_sha256: str | None
    best_checkpoint: str | None
    judged: str | None
    halt_reason: str | None
    notices: list[str] = field(default_factory=list)
    overrides: JsonObject = field(default_factory=dict)

    @classmethod
    def of(cls, row: RunRow) -> RunResult:
        """The result that a run's row holds."""
        renamed: JsonObject = {
            "run_id": row.id,
            "metrics": row.result_summary or {},
            "judged": judged_model(row),
            "notices": list(row.notices or []),
            "overrides": dict(row.overrides or {}),
        }
        same = {column.name: getattr(row, column.name) for column in fields(cls) if column.name not in renamed}
        return cls(**same, **renamed)

    def as_dict(self) -> JsonObject:
        """The result as JSON."""
        return asdict(self)

    @property
    def summary(self) -> JsonObject:
        """What there is to say of the run, in order; null where there is nothing."""
        from alphaswarm_rl.runtime.events import SPREAD

        hidden = SPREAD if self.metrics.get("episodes") == 1 else ()
        return {
            "run": self.run_id,
            "parent": self.parent_run_id,
            "version": self.version_id,
            "spec_hash": self.spec_hash,
            "status": self.status if self.halt_reason is None else f"{self.status} ({self.halt_reason})",
            "seed": self.seed,
            "timesteps": self.timesteps,
            "judged": self._judged(),
            "judged_on": window_text(self.metrics),
            **{name: self.metrics[name] for name in _METRICS if name in self.metrics and name not in hidden},
            "undefined": self.metrics.get("undefined"),
            "recording": self.metrics.get("recording"),
            "checkpoint": self.checkpoint,
            "sha256": self.checkpoint_sha256,
            "best": self.best_checkpoint,
        }

    def _judged(self) -> str | None:
        """Which model the metrics are of, and where there is a better one."""
        best = self.best_checkpoint
        if self.judged is None or best is None:
            return self.judged
        if best == self.checkpoint:
            return f"{self.judged}, the best by validation"
        step = int(Path(best).name)
        return f"{self.judged}; best by validation: step {step} (rl evaluate {self.run_id[:8]} --checkpoint best)"


def judged_model(row: RunRow) -> str | None:
    """Which model the metrics of a training run are about; evaluations and replays say it by their checkpoint."""
    return "last checkpoint" if row.target == "train" and "episodes" in (row.result_summary or {}) else None
