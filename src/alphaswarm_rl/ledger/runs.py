"""Runs: rows that are opened, kept alive and closed by the process that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select, update

from alphaswarm_rl.core.errors import RunError, nearest
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.db.engine import read, write
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.ledger.claims import ClaimedDatabase
from alphaswarm_rl.ledger.identity import next_number
from alphaswarm_rl.ledger.liveness import LIVE, SILENCE, Holder, reconcile, this_process
from alphaswarm_rl.ledger.rows import FamilyCount, RunRow
from alphaswarm_rl.ledger.specs import find_version, spec_ids
from alphaswarm_rl.ledger.statements import checked, database_now, nearest_id, new_id
from alphaswarm_rl.ledger.tables import runs, specs, versions
from alphaswarm_rl.ledger.trials import count_trials

RESUMABLE = ("interrupted", "halted", "failed")
ENDED = ("completed", *RESUMABLE)
#: How the halt reason of a trial begins that its study gave up.
PRUNED = "pruned:"
SHORTEST_PREFIX = 4

_HOLDER = ("host", "pid", "process_start", "heartbeat_at")
_IDENTITY = ("id", "spec_id", "version_id", "spec_hash", "created_at", "number")


class RunTables(ClaimedDatabase):
    """Runs: opened, kept alive and closed by the process that holds them."""

    #: How long a process that cannot be seen from here may be silent before it counts as dead.
    silence = SILENCE

    def create_run(self, *, version_id: str, target: str, seed: int, **columns: object) -> RunRow:
        """Opens a run that this process holds, with status `running`.

        Args:
            version_id: The version that is run; spec id, hashes and family come from it unless given.
            target: The verb: train, evaluate, replay or backtest.
            seed: The run's seed.
            **columns: Any other column of the row; its `id` too, if the caller has made one.
        """
        given = checked(runs, columns, fixed=(*_HOLDER, "created_at", "ended_at", "removed_at", "number"))
        with write(self.engine) as connection:
            version = find_version(connection, version_id)
            slug = connection.execute(select(specs.c.slug).where(specs.c.id == version.spec_id)).scalar_one()
            now = utc_now()
            values = {
                "id": new_id(),
                "number": next_number(connection),
                "spec_id": version.spec_id,
                "family": slug,
                "status": "running",
                "spec_hash": version.spec_hash,
                "exec_hash": version.exec_hash,
                "created_at": now,
                "started_at": now,
                **_held(connection),
                **given,
            }
            connection.execute(runs.insert().values(version_id=version_id, target=target, seed=seed, **values))
            return _by_id(connection, values["id"])

    def run(self, ref: str) -> RunRow:
        """The run with this id, or a unique beginning of one (4 characters or more), or `latest`."""
        reconcile(self.engine, self.silence)
        return self._read(find, ref)

    def runs(
        self,
        status: str | None = None,
        target: str | None = None,
        slug: str | None = None,
        limit: int | None = 100,
        *,
        include_removed: bool = False,
    ) -> list[RunRow]:
        """Runs, the newest first."""
        clauses = _chosen(status, target, include_removed=include_removed)
        reconcile(self.engine, self.silence)
        statement = select(runs).where(*clauses).order_by(runs.c.number.desc()).limit(limit)
        with read(self.engine) as connection:
            if slug is not None:
                statement = statement.where(runs.c.spec_id.in_(spec_ids(connection, slug)))
            return [RunRow.of(row) for row in connection.execute(statement).mappings()]

    def listed_runs(
        self,
        shown: Sequence[str],
        *,
        where: Sequence[str] = (),
        sort: str | None = None,
        status: str | None = None,
        target: str | None = None,
        slug: str | None = None,
        limit: int | None = 100,
        include_removed: bool = False,
    ) -> list[tuple[RunRow, dict[str, object]]]:
        """Runs that meet conditions, in an order, each with the columns that are shown of it; see `run_queries`.

        Args:
            shown: The columns.
            where: Conditions such as `sharpe > 1`; all must hold.
            sort: The column that orders them; None: the newest first, as where it says nothing.
            status: Only runs in that state.
            target: Only runs of that verb.
            slug: Only runs of that spec.
            limit: At most that many; None: all.
            include_removed: Whether removed ones are taken too.
        """
        from alphaswarm_rl.ledger.run_queries import conditions, order, run_column

        chosen = {name: run_column(name).expression.label(f"shown_{name}") for name in shown}
        clauses = [*conditions(where), *_chosen(status, target, include_removed=include_removed)]
        ordered = (*(() if sort is None else (order(sort),)), runs.c.number.desc())
        statement = select(runs, *chosen.values()).join(versions, versions.c.id == runs.c.version_id)
        statement = statement.where(*clauses).order_by(*ordered).limit(limit)
        reconcile(self.engine, self.silence)
        with read(self.engine) as connection:
            if slug is not None:
                statement = statement.where(runs.c.spec_id.in_(spec_ids(connection, slug)))
            found = connection.execute(statement).mappings().all()
        return [(RunRow.of(row), {name: row[f"shown_{name}"] for name in shown}) for row in found]

    def runs_by_spec_hash(self) -> dict[str, list[str]]:
        """The ids of the runs of each spec hash, the oldest first, without removed ones."""
        kept = select(runs.c.spec_hash, runs.c.id).where(runs.c.removed_at.is_(None))
        found: dict[str, list[str]] = {}
        with read(self.engine) as connection:
            for spec_hash, run_id in connection.execute(kept.order_by(runs.c.number)):
                found.setdefault(spec_hash, []).append(run_id)
        return found

    def recordings(self, run_id: str | None = None) -> dict[str, JsonObject]:
        """What is recorded of a run and how, by its id; of all that are not removed without one."""
        chosen = runs.c.removed_at.is_(None) if run_id is None else runs.c.id == run_id
        with read(self.engine) as connection:
            found = connection.execute(select(runs.c.id, runs.c.recording).where(chosen).order_by(runs.c.number))
            return {row.id: row.recording for row in found}

    def count_family(self, family: str) -> FamilyCount:
        """How many training runs a family has, removed ones included, of how many specs, and how many trials."""
        trained = and_(runs.c.family == family, runs.c.target == "train")
        statement = select(func.count(), func.count(runs.c.exec_hash.distinct())).where(trained)
        stored = select(versions.c.spec_hash, versions.c.payload).where(
            versions.c.id.in_(select(runs.c.version_id).where(trained))
        )
        with read(self.engine) as connection:
            total, different = connection.execute(statement).one()
            tried = [(row.spec_hash, row.payload) for row in connection.execute(stored)]
        return FamilyCount(family, total, different, count_trials(tried))

    def children(self, run_id: str) -> list[RunRow]:
        """The runs whose parent is this one, the oldest first."""
        statement = select(runs).where(runs.c.parent_run_id == run_id).order_by(runs.c.number)
        return self._rows(RunRow, statement)

    def standing_on(self, folder: str) -> list[RunRow]:
        """The runs that judged a policy by a checkpoint below that folder, whoever their parent is."""
        # A checkpoint may have been named by another way that leads there.
        ways = {folder.rstrip("/"), str(Path(folder).resolve())}
        below = or_(*(runs.c.checkpoint.startswith(f"{way}/", autoescape=True) for way in sorted(ways)))
        statement = select(runs).where(below, runs.c.target != "train").order_by(runs.c.number)
        return self._rows(RunRow, statement)

    def update_run(self, run_id: str, **columns: object) -> None:
        """Sets columns of a run; not its status, its identity or its holder."""
        values = checked(runs, columns, fixed=(*_IDENTITY, *_HOLDER, "status", "removed_at"))
        with self._write() as connection:
            _by_id(connection, run_id)
            if values:
                connection.execute(update(runs).where(runs.c.id == run_id).values(values))

    def finish_run(self, run_id: str, status: str, **columns: object) -> RunRow:
        """Closes a run that this process holds; a RunError when it has ended already or another process holds it."""
        if status not in ENDED:
            raise ValueError(f"a run ends as one of {', '.join(ENDED)}, not as {status!r}")
        values = checked(runs, columns, fixed=(*_IDENTITY, *_HOLDER, "status", "removed_at"))
        values = {"ended_at": utc_now(), **values, "status": status}
        # `interrupted` is what others call a process that was silent too long, for example in a suspended machine.
        open_states = runs.c.status.in_((*LIVE, "interrupted"))
        with self._write() as connection:
            done = connection.execute(update(runs).where(_is_ours(run_id), open_states).values(values))
            row = _by_id(connection, run_id)
            if not done.rowcount:
                raise _not_ours(row)
            return row

    def heartbeat(self, run_id: str) -> None:
        """Says that this process still works on the run; a RunError when it is not its run any more."""
        with self._write() as connection:
            now = database_now(connection)
            alive: JsonObject = {"heartbeat_at": now}
            running = update(runs).where(_is_ours(run_id), runs.c.status.in_(LIVE)).values(alive)
            if connection.execute(running).rowcount:
                return
            revived = {**alive, "status": "running", "ended_at": None}
            silent = update(runs).where(_is_ours(run_id), runs.c.status == "interrupted").values(revived)
            if not connection.execute(silent).rowcount:
                raise _not_ours(_by_id(connection, run_id))

    def claim_for_resume(self, run_id: str, *, at_least: int = 1, seen: RunRow | None = None) -> RunRow:
        """Takes an interrupted, halted or failed run over; anything else is a RunError that says who holds it.

        Args:
            run_id: The run.
            at_least: The smallest number that the claim may have: files and tables know of claims that a ledger which
                was put back from a copy does not.
            seen: The row by which the caller chose where to go on: a RunError where the run was claimed, or has another
                checkpoint, since then. None takes it over as it is.
        """
        reconcile(self.engine, self.silence)
        with write(self.engine) as connection:
            values: JsonObject = {
                **_held(connection),
                "status": "running",
                "resumed": case((runs.c.resumed + 2 < at_least, at_least - 1), else_=runs.c.resumed + 1),
                "ended_at": None,
                # Those told how the row ended; the events keep the story.
                "error": None,
                "halt_reason": None,
            }
            before = _by_id(connection, run_id, lock=True)
            if before.status not in RESUMABLE or before.removed_at is not None:
                raise not_resumable(before)
            if seen is not None and (before.resumed, before.checkpoint) != (seen.resumed, seen.checkpoint):
                why = "another process went on with it meanwhile"
                raise RunError(f"the run {run_id}", why, f"Look at it, and resume it again: rl resume {run_id}.")
            connection.execute(update(runs).where(runs.c.id == run_id).values(values))
            return _by_id(connection, run_id)

    def mark_removed(self, run_id: str) -> RunRow:
        """Marks a run whose files were removed; a live one is a RunError."""
        reconcile(self.engine, self.silence)
        with write(self.engine) as connection:
            gone = and_(runs.c.id == run_id, runs.c.status.not_in(LIVE), runs.c.removed_at.is_(None))
            connection.execute(update(runs).where(gone).values(removed_at=utc_now()))
            row = _by_id(connection, run_id)
            if row.status in LIVE:
                raise RunError(f"the run {run_id}", f"it is {row.status}: {_holder(row)} holds it", "Stop it first.")
            return row

    def reconcile(self) -> list[str]:
        """Marks runs of dead processes as interrupted and returns their ids; looks at runs do so by themselves."""
        return reconcile(self.engine, self.silence)


def _chosen(status: str | None, target: str | None, *, include_removed: bool) -> list[ColumnElement[bool]]:
    """The conditions that a list of runs asks for."""
    if status is not None and status not in (*LIVE, *ENDED):
        raise RunError(f"the run status {status!r}", "there is no such status", nearest(status, (*LIVE, *ENDED)))
    clauses = [] if status is None else [runs.c.status == status]
    if target is not None:
        clauses.append(runs.c.target == target)
    if not include_removed:
        clauses.append(runs.c.removed_at.is_(None))
    return clauses


def find(connection: Connection, ref: str) -> RunRow:
    """The run with this id or unique beginning of one; for `latest` the newest that is no baseline beside another."""
    newest = select(runs).order_by(runs.c.number.desc())
    if ref == "latest":
        own = (runs.c.removed_at.is_(None), runs.c.arguments["beside"].as_string().is_(None))
        found = connection.execute(newest.where(*own).limit(1)).mappings().all()
        if not found:
            why = "the ledger has no run, beside baselines and those whose files were removed"
            raise RunError("the latest run", why, "Train one first: rl train SPEC.")
        return RunRow.of(found[0])
    if len(ref) < SHORTEST_PREFIX:
        raise RunError(
            f"the run {ref!r}", f"a run is named by at least {SHORTEST_PREFIX} characters of its id", "Give more of it."
        )
    matches = newest.where(runs.c.id.startswith(ref.lower(), autoescape=True)).limit(5)
    found = connection.execute(matches).mappings().all()
    if not found:
        raise _unknown(connection, ref)
    if len(found) > 1:
        some = ", ".join(row["id"] for row in found)
        raise RunError(f"the run {ref!r}", f"several ids begin like this ({some})", "Give more of it.")
    return RunRow.of(found[0])


def _by_id(connection: Connection, run_id: str, *, lock: bool = False) -> RunRow:
    """The row of a run; `lock` lets nobody else change it until the transaction is over."""
    statement = select(runs).where(runs.c.id == run_id)
    found = connection.execute(statement.with_for_update() if lock else statement).mappings().one_or_none()
    if found is None:
        raise _unknown(connection, run_id)
    return RunRow.of(found)


def _unknown(connection: Connection, ref: str) -> RunError:
    ids = connection.execute(select(runs.c.id).order_by(runs.c.number.desc())).scalars().all()
    return RunError(f"the run {ref!r}", "the ledger has none with this id", nearest_id(ref, ids))


def _held(connection: Connection) -> JsonObject:
    me = this_process()
    now = database_now(connection)
    return {"host": me.host, "pid": me.pid, "process_start": me.process_start, "heartbeat_at": now}


def _is_ours(run_id: str) -> ColumnElement[bool]:
    me = this_process()
    same = and_(runs.c.host == me.host, runs.c.pid == me.pid, runs.c.process_start == me.process_start)
    return and_(runs.c.id == run_id, runs.c.removed_at.is_(None), same)


def _holder(row: RunRow) -> Holder:
    return Holder(row.host, row.pid, row.process_start)


def _not_ours(row: RunRow) -> RunError:
    why = f"{_holder(row)} holds it" if row.status in LIVE else f"it is {row.status} already"
    return RunError(f"the run {row.id}", why, "Another process ended it or took it over; stop this one.")


def not_resumable(row: RunRow) -> RunError:
    """The error of a run that cannot go on: who holds it, or that nothing is left to do."""
    what = f"the run {row.id}"
    if row.removed_at is not None:
        return RunError(what, f"its files were removed at {row.removed_at.isoformat()}", "Train it again.")
    if row.status in LIVE:
        seen = row.heartbeat_at.isoformat(timespec="seconds")
        why = f"it is {row.status}: {_holder(row)} holds it (last heartbeat {seen})"
        remedy = "Wait until it ends, or halt it with the kill switch. One that stands still must go on, or be killed."
        return RunError(what, why, remedy)
    return RunError(what, f"it is {row.status}, nothing is left to do", "Replay or evaluate it, or train a new run.")
