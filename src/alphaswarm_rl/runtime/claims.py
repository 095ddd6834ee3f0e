"""Which claims of a run its files know of: a ledger that was put back from a copy, or rebuilt, may know of fewer."""

from __future__ import annotations

from alphaswarm_rl.core.claims import newest_folder, number_of
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.claims import newest_in_tables
from alphaswarm_rl.lake.segments import folder_of
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.models import ModelRegistry
from alphaswarm_rl.runtime.events import EventLog
from alphaswarm_rl.settings import Settings


def newest_claim(settings: Settings, run_id: str, *, in_tables: bool) -> int:
    """The number of a run's newest claim by what it left: no later claim may have a number that was given before.

    Args:
        settings: Where everything is.
        run_id: The run.
        in_tables: Whether its steps are in the lake's tables, which are asked then.
    """
    roots = [settings.models_path / run_id, settings.lake_path / "spool" / run_id]
    roots += [folder_of(settings, kind, run_id) for kind in KINDS]
    known = [number_of(newest_folder(root)) for root in roots]
    known.append(EventLog.read(settings.logs_path / f"{run_id}.jsonl").newest_claim)
    if in_tables:
        with Lake(settings) as lake:
            known.append(newest_in_tables(lake, run_id))
    if settings.registry_file is not None and settings.registry_file.exists():
        with ModelRegistry.open(settings) as registry:
            known.append(registry.newest_claim(run_id))
    return max(known)
