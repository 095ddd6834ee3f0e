"""What the ledger is told of recorded steps once they are in their tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alphaswarm_rl.lake.segments import Segment
    from alphaswarm_rl.ledger import Ledger


def account_to(ledger: Ledger) -> Callable[[Sequence[Segment]], None]:
    """What a delivery tells of its segments: each becomes one ref in the ledger, however often it is told."""

    def account(segments: Sequence[Segment]) -> None:
        ledger.add_refs([_ref(segment) for segment in segments])

    return account


def _ref(segment: Segment) -> dict[str, Any]:
    facts = segment.facts
    namespace, _, table = facts.table.rpartition(".")
    if facts.kind == "equity_curves":
        own: dict[str, Any] = {
            "initial_value": facts.initial_value,
            "final_value": facts.final_value,
            "max_drawdown": facts.max_drawdown,
        }
    else:
        own = {"first_step": facts.first_step, "last_step": facts.last_step}
    return {
        "kind": facts.kind,
        "run_id": facts.run_id,
        "phase": facts.phase,
        "first_episode": facts.first_episode,
        "last_episode": facts.last_episode,
        "timesteps": facts.timesteps,
        "iceberg_namespace": namespace,
        "iceberg_table": table,
        "row_count": facts.rows,
        "checksum": facts.checksum,
        "first_segment": segment.name.first,
        "last_segment": segment.name.last,
        **own,
    }
