"""What a verb of the runtime returns. It stands alone, so that whoever shows a result need not load the runtime."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.core.types import JsonObject

if TYPE_CHECKING:
    from alphaswarm_rl.ledger import RunRow


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


def judged_model(row: RunRow) -> str | None:
    """Which model the metrics of a training run are about; evaluations and replays say it by their checkpoint."""
    return "last checkpoint" if row.target == "train" and "episodes" in (row.result_summary or {}) else None
