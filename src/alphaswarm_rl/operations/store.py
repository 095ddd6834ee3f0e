"""What the trackers of runs do not have yet, and its delivery.

Every tracked run has a journal of records; a tracker that was down, or slow, lacks the last of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from alphaswarm_rl.core.errors import OptionError, TrackingError
from alphaswarm_rl.core.run_listener import EvaluationMetrics, RunFacts
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.liveness import LIVE
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.operation import NamedRuns, operation
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.tracking.courier import deliver_now
from alphaswarm_rl.tracking.listener import delivery_columns, journal_folder
from alphaswarm_rl.tracking.run_end import EndedRun, complete
from alphaswarm_rl.tracking.waiting import Standing, journals, move, standing


class JournalStatus(Data, merged="journal"):
    """How a run's journal stands, and the state of the run; null where the ledger does not know it."""

    journal: Standing
    status: str | None

    @property
    def why(self) -> str:
        """Why the tracker does not have everything."""
        return _why(self.journal)


class StoreStatus(Data, only="journals"):
    """Journals of runs.

    Attributes:
        journals: Those of the named runs, or all that are not delivered whole.
        tracked: Whether any run is tracked at all.
    """

    journals: tuple[JournalStatus, ...]
    tracked: bool


class SyncStore(NamedRuns):
    """What is delivered.

    Attributes:
        runs: The runs: ids, beginnings of them, or latest; none means all of them.
        to: Another address of the tracker, which gets everything from the beginning.
    """

    to: str | None = None


class Delivery(Data):
    """Which runs had something to deliver, how many records went, and what could not be delivered."""

    runs: tuple[str, ...]
    delivered: int
    problems: tuple[str, ...]


@operation("store.status")
def store_status(settings: Settings, request: NamedRuns) -> StoreStatus:
    """What trackers do not have yet, and why."""
    folder = journal_folder(settings)
    with Ledger.open(settings) as ledger:
        found = _standings(folder, [ledger.run(reference).id for reference in request.runs])
        states = {row.id: row.status for row in ledger.runs(limit=None, include_removed=True)}
    chosen = found if request.runs else [journal for journal in found if _is_incomplete(journal)]
    return StoreStatus(tuple(JournalStatus(item, states.get(item.run_id)) for item in chosen), tracked=bool(found))


@operation("store.sync", changes=True)
def sync_store(settings: Settings, request: SyncStore) -> Delivery:
    """Delivers to trackers what they do not have yet; what could not be delivered is kept."""
    if request.to is not None and not request.runs:
        raise OptionError("option --to", "it moves single runs, and none is named", "Name them: rl store sync RUN.")
    folder = journal_folder(settings)
    with Ledger.open(settings) as ledger:
        named = [ledger.run(reference).id for reference in request.runs]
        known = {row.id for row in ledger.runs(limit=None, include_removed=True)}
        if request.to is not None:
            for run_id in named:
                move(folder, run_id, request.to)
        for run_id in known & set(named or journals(folder)):
            # A run whose process was killed could not say its end: the ledger knows it.
            complete(folder, run_id, partial(_ended_run, ledger, run_id))
        before = {journal.run_id: journal for journal in _standings(folder, named) if journal.waiting}
        deliver_now(folder, list(before), request.to or settings.store.tracking_uri)
        after = _standings(folder, list(before)) if before else []
        _note_deliveries(ledger, [journal for journal in after if journal.run_id in known])
    return _delivery(before, after)


def _delivery(before: Mapping[str, Standing], after: Sequence[Standing]) -> Delivery:
    delivered = sum(before[journal.run_id].waiting - journal.waiting for journal in after)
    problems = tuple(f"run {journal.run_id}: {_why(journal)}" for journal in after if _is_incomplete(journal))
    return Delivery(tuple(before), delivered, problems)


def _note_deliveries(ledger: Ledger, delivered: Sequence[Standing]) -> None:
    """Notes in the runs' rows what their trackers have now; the process of a run that goes on does so itself."""
    for journal in delivered:
        run = RunFacts.of(ledger.run(journal.run_id))
        if run.status not in LIVE:
            columns = delivery_columns(run, journal)
            if columns:
                ledger.update_run(journal.run_id, **columns)


def _standings(folder: Path, run_ids: Sequence[str]) -> list[Standing]:
    """How the journals of these runs stand, or of all."""
    found = {run_id: standing(folder, run_id) for run_id in run_ids or journals(folder)}
    for run_id in run_ids:
        if found[run_id] is None:
            raise TrackingError(f"run {run_id}", "it has no journal: it was not tracked here", "See: rl store status.")
    return [journal for journal in found.values() if journal is not None]


def _is_incomplete(journal: Standing) -> bool:
    return bool(journal.waiting or journal.set_aside)


def _ended_run(ledger: Ledger, run_id: str) -> EndedRun | None:
    """A run as it ended, as the ledger knows it now; None while it goes on."""
    row = ledger.run(run_id)
    if row.status in LIVE:
        return None
    evaluations = [EvaluationMetrics.of(each) for each in ledger.evaluations(run_id)]
    # Not as a spec: its components may not be installed here.
    mlflow = ledger.version(row.version_id).payload.get("mlflow") or {}
    return EndedRun(RunFacts.of(row), evaluations, mlflow.get("register_model_as"))


def _why(journal: Standing) -> str:
    return "; ".join([*([journal.problem] if journal.problem else []), *journal.set_aside])
