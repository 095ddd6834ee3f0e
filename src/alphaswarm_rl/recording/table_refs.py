"""References from the ledger to recorded steps: one for each file of steps that is in its table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from alphaswarm_rl.core.claims import Claim
from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.segments import Segment
from alphaswarm_rl.lake.tables import KINDS, identifier
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.settings import Settings


def refs_writer(ledger: Ledger) -> Callable[[Sequence[Segment]], None]:
    """What a delivery calls with its segments: each becomes one ref in the ledger, however often it is called."""
    return lambda segments: ledger.add_refs([_ref(segment) for segment in segments])


def refuse_removed(ledger: Ledger) -> Callable[[Collection[Claim]], None]:
    """What a delivery calls with its claims: refuses them where one of their runs was removed.

    What it calls raises:
        StaleClaim: A run was removed.
    """

    def check(claims: Collection[Claim]) -> None:
        for claim in claims:
            if ledger.run(claim.run_id).removed_at is not None:
                raise claim.stale(None)

    return check


def _ref(segment: Segment) -> JsonObject:
    facts = segment.facts
    namespace, _, table = facts.table.rpartition(".")
    if facts.kind == "equity_curves":
        extent: JsonObject = {
            "initial_value": facts.initial_value,
            "final_value": facts.final_value,
            # Rows and files have distances below the peak, the ledger has falls: 0 or less.
            "max_drawdown": None if facts.max_drawdown is None else 0.0 - facts.max_drawdown,
        }
    else:
        extent = {"first_step": facts.first_step, "last_step": facts.last_step}
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
        **extent,
    }


def refuse_other_tables(settings: Settings, ledger: Ledger, run: RunRow) -> None:
    """Refuses to change a run whose steps are in other tables than those of these settings: they would not be found.

    Raises:
        RunError: They have other names.
        LakeError: Their files are in another warehouse: the home was copied or moved.
    """
    names = {identifier(kind, settings.trajectory) for kind in KINDS}
    elsewhere = {f"{ref.iceberg_namespace}.{ref.iceberg_table}" for ref in ledger.refs(run.id)} - names
    kept = run.recording.get("store") in ("iceberg", "parquet") and not settings.trajectory.persist
    if elsewhere or kept:
        where = ", ".join(sorted(elsewhere)) or "tables, and these settings keep steps in memory"
        raise RunError(f"run {run.id}", f"its steps are in {where}", "Use the settings that it was recorded with.")
    if run.recording.get("store") == "iceberg":
        with Lake(settings) as lake:
            lake.refuse_moved()
