"""Removing runs: those that are named, or those that conditions choose."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta

from alphaswarm_rl.core.errors import AlphaSwarmError, RunError
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.freeing import Freed, free
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.operations.data import Count, Data
from alphaswarm_rl.operations.operation import RequestError, operation
from alphaswarm_rl.operations.removals import finish_removals, removals
from alphaswarm_rl.operations.run_removal import (
    Confirm,
    RemovedRun,
    RemoveRun,
    ask_before,
    is_sure,
    plan_removal,
    remove_run,
)
from alphaswarm_rl.settings import Settings

#: What a score is compared by: runs that differ in any of these were not judged alike.
_ALIKE = ("judged_start", "judged_end", "episodes")
#: How many runs a question names.
_MOST_NAMED = 5


class RemoveRuns(Data):
    """Which runs lose their files: those that are named, or those that all conditions choose.

    Attributes:
        runs: Ids, beginnings of them, or latest.
        where: Conditions on columns, as lists of runs take them; all must hold.
        older_than: Only runs that began longer ago.
        keep_best: All but so many of the best of each spec, by mean reward, among those that were judged alike.
        force: Whether runs that stand on their checkpoints, and deployed models, do not count.
        now: Whether the lake gives the files of all removed runs back at once, also of those that were removed
            before, and forgets its old snapshots for that.
        dry_run: Whether it is only said what would go, and what would stay and why.
    """

    runs: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    older_than: timedelta | None = None
    keep_best: Count | None = None
    force: bool = False
    now: bool = False
    dry_run: bool = False


class KeptRun(Data):
    """A run that was chosen and stays, and why."""

    run_id: str
    why: str


class RemovedRuns(Data, unless_null=("lake",)):
    """What was removed; after a dry run, what would be.

    Attributes:
        removed: The runs, the newest first.
        kept: Those that were chosen and are needed, live, or among the best.
        freed_bytes: The bytes that files of the removed runs take.
        lake: What the lake gave back at once; null where that was not asked for.
        dry_run: Whether nothing was removed.
    """

    removed: tuple[RemovedRun, ...]
    kept: tuple[KeptRun, ...]
    freed_bytes: int
    lake: Freed | None = None
    dry_run: bool = False


@operation("runs.rm", changes=True)
def remove_runs(settings: Settings, request: RemoveRuns, *, confirm: Confirm = is_sure) -> RemovedRuns:
    """Removes runs' files and recorded steps; their rows stay, marked removed.

    Raises:
        RunError: The one run that is named is live or removed already, or it is needed.
    """
    _refuse_unclear(request)
    if request.dry_run:
        return _planned(settings, request)
    if request.now:
        finish_removals(settings)
    if len(request.runs) == 1:
        if request.now and _is_removed(settings, request.runs[0]):
            # A removal that was cut short before the lake gave anything back is finished by the same command.
            return _result(settings, request, [], [])
        removed = [remove_run(settings, RemoveRun(request.runs[0], request.force), confirm=confirm)]
        return _result(settings, request, removed, [])
    chosen, kept = _chosen(settings, request)
    if not chosen:
        return _result(settings, request, [], kept)
    ask_before(confirm, _question(chosen))
    removed = []
    # The newest first: what stands on another run goes before it.
    for run_id in chosen:
        try:
            removed.append(remove_run(settings, RemoveRun(run_id, request.force)))
        except RunError as error:
            kept.append(KeptRun(run_id, error.why))
        except AlphaSwarmError as error:
            # What is removed already is said; the rest would fail alike.
            error.add_note(f"{len(removed)} of {len(chosen)} runs were removed before: {', '.join(_ids(removed))}")
            raise
    return _result(settings, request, removed, kept)


def _refuse_unclear(request: RemoveRuns) -> None:
    """Refuses a request that does not say which runs, or what it asks for."""
    chooses = bool(request.where) or request.older_than is not None or request.keep_best is not None
    if chooses == bool(request.runs):
        both = "not both" if chooses else "such as --where 'status = failed', --older-than 30d or --keep-best 3"
        raise RequestError(f"name runs, or choose them by conditions: {both}")
    if request.dry_run and request.now:
        raise RequestError("--dry-run says nothing of --now: what the lake can give back shows once runs are removed")


def _planned(settings: Settings, request: RemoveRuns) -> RemovedRuns:
    """What would be removed: in the same order and refused alike, each as if those before it had gone."""
    if len(request.runs) == 1:
        planned = (plan_removal(settings, RemoveRun(request.runs[0], request.force)),)
        return RemovedRuns(planned, (), planned[0].freed_bytes, dry_run=True)
    chosen, kept = _chosen(settings, request)
    going: list[RemovedRun] = []
    for run_id in chosen:
        try:
            going.append(plan_removal(settings, RemoveRun(run_id, request.force), [each.run_id for each in going]))
        except RunError as error:
            kept.append(KeptRun(run_id, error.why))
    return RemovedRuns(tuple(going), tuple(kept), sum(each.freed_bytes for each in going), dry_run=True)


def _chosen(settings: Settings, request: RemoveRuns) -> tuple[list[str], list[KeptRun]]:
    """The runs that are to go, the newest first, and those that stay for being the best."""
    with Ledger.open(settings) as ledger:
        if request.runs:
            named = {run.id: run for run in map(ledger.run, request.runs)}
            return [run.id for run in sorted(named.values(), key=lambda run: -run.number)], []
        where = list(request.where)
        if request.older_than is not None:
            where.append(f"created_at < {(datetime.now(UTC) - request.older_than).isoformat()}")
        found = ledger.listed_runs([*_ALIKE, "mean_reward"], where=where, limit=None)
    best = _best(found, request.keep_best or 0)
    kept = [KeptRun(run_id, f"one of the {request.keep_best} best of its spec") for run_id in best]
    rows = sorted((row for row, _ in found), key=lambda row: -row.number)
    return [row.id for row in rows if row.id not in best], kept


def _best(found: list[tuple[RunRow, dict[str, object]]], count: int) -> list[str]:
    """The best runs of each spec and verb among those that were judged alike; of equal ones the older."""
    groups: dict[tuple[object, ...], list[RunRow]] = defaultdict(list)
    for row, shown in found:
        if row.mean_reward is not None:
            groups[row.family, row.target, row.data_fingerprint, *(shown[name] for name in _ALIKE)].append(row)
    ranked = (sorted(rows, key=lambda row: (-(row.mean_reward or 0.0), row.number)) for rows in groups.values())
    return [row.id for rows in ranked for row in rows[:count]]


def _question(chosen: list[str]) -> str:
    more = f" and {len(chosen) - _MOST_NAMED} more" if len(chosen) > _MOST_NAMED else ""
    return f"Remove the files of {len(chosen)} run{'s' * (len(chosen) != 1)}: {', '.join(chosen[:_MOST_NAMED])}{more}?"


def _ids(removed: list[RemovedRun]) -> list[str]:
    return [each.run_id for each in removed] or ["none"]


def _result(settings: Settings, request: RemoveRuns, removed: list[RemovedRun], kept: list[KeptRun]) -> RemovedRuns:
    freed = _freed(settings) if request.now else None
    return RemovedRuns(tuple(removed), tuple(kept), sum(each.freed_bytes for each in removed), freed)


def _freed(settings: Settings) -> Freed:
    """What the lake gives back of all removed runs but those that are being removed at this moment."""
    under_way = {removal.run_id for removal in removals(settings)}
    with Ledger.open(settings) as ledger, Lake(settings) as lake:
        known = ledger.runs(limit=None, include_removed=True)
        gone = {run.id for run in known if run.removed_at is not None} - under_way
        return free(lake, gone, ledger.pinned_data())


def _is_removed(settings: Settings, name: str) -> bool:
    """Whether nothing of a run is left to be removed."""
    with Ledger.open(settings) as ledger:
        run = ledger.run(name)
    return run.removed_at is not None and all(removal.run_id != run.id for removal in removals(settings))
