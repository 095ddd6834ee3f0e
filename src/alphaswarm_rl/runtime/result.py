"""What a verb of the runtime answers. It stands alone, so that whoever shows a result need not load the runtime."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from alphaswarm_rl.core.types import JsonObject


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

    def as_dict(self) -> JsonObject:
        """The answer as JSON."""
        return asdict(self)
