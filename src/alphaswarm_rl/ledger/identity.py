"""Which ledger a home works with: a ledger has an id of its own, and a home adopts it when it first meets it.

    <home>/ledger.json         {"adopted": [{"id": ..., "at": ..., "by": ..., "reason": ..., "empty": ...}, ...]}
    <home>/ledger.json.lock    held while the file is read and written anew

The last adoption counts. From then on another ledger is refused, and so is an empty one beside what only runs leave
behind (checkpoints, logs, recorded steps, models in the registry): there the kill switch would say that nothing is
halted. Models that somebody added are none of a run: they may lie beside the ledger that the home adopted and that
never had a run. Whoever adds one adopts the ledger first, so beside any other empty ledger they are a trace too. The
operator may say that such a ledger is right (`adopt`, which needs a reason), or rebuild what is lost.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import re
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sqlalchemy import Connection, Engine, exists, select, update
from sqlalchemy.engine import make_url

from alphaswarm_rl.core.control_characters import refuse_control_characters, refuse_long_reason
from alphaswarm_rl.core.errors import LedgerError
from alphaswarm_rl.core.files import read_regular, replace_synced
from alphaswarm_rl.core.json import load_json
from alphaswarm_rl.db.engine import read, sqlite_file
from alphaswarm_rl.db.read_only import is_only_readable
from alphaswarm_rl.db.redaction import redact
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.ledger import tables
from alphaswarm_rl.settings import Settings

_FILE = Path("ledger.json")
_LOCK = Path("ledger.json.lock")
#: A file of more bytes is none of ours.
_MOST_BYTES = 1 << 20
#: How the name of a run is written.
RUN_ID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
#: How the folder of a model is called that somebody added (`inference.checkpoints.ADDED`).
_ADDED = r"added-[0-9a-f]{12}"
_FIRST_CONTACT = "first contact"
_PUT_BACK = "Put the right database back, or name it with --db-url. Is it lost? rl db rebuild."
_REMEDY = f"{_PUT_BACK} Is this one right? rl db adopt --reason WHY."


@dataclass(frozen=True)
class Adoption:
    """A ledger that a home works with.

    Attributes:
        id: The ledger's id.
        at: When it was adopted, in UTC.
        by: Who adopted it.
        reason: Why.
        empty: Whether it had no runs, and that was right; until it has some.
        unfinished: Whether it is being rebuilt.
    """

    id: str
    at: str
    by: str
    reason: str
    empty: bool = False
    unfinished: bool = False


def ledger_id(connection: Connection) -> str:
    """The id of this very ledger, the same in every copy of its database."""
    found = connection.execute(select(tables.ledger.c.id)).scalar_one_or_none()
    if found is None:
        raise LedgerError(
            f"the database {redact(connection.engine.url.render_as_string(hide_password=True))}",
            "its table rl_ledger, which has the ledger's id, is empty",
            "Put the database back from a copy, or move it away and rebuild it: rl db rebuild.",
        )
    return str(found)


def next_number(connection: Connection) -> int:
    """The number of a run that is made now; on PostgreSQL others wait here until this transaction ends."""
    counted = update(tables.ledger).values(runs=tables.ledger.c.runs + 1).returning(tables.ledger.c.runs)
    number: int = connection.execute(counted).scalar_one()
    return number


def has_runs(connection: Connection) -> bool:
    """Whether the ledger has a run, removed ones included."""
    return bool(connection.execute(select(exists().select_from(tables.runs))).scalar_one())


def _had_runs(connection: Connection) -> bool:
    """Whether the ledger ever numbered a run, also where its rows are gone."""
    return bool(connection.execute(select(tables.ledger.c.runs)).scalar_one())


def refuse_absent(settings: Settings) -> None:
    """Refuses a ledger file that is not there or has no byte, where the home had one: opening it would make a new one.

    Raises:
        LedgerError: It is not there.
    """
    url = make_url(settings.database_url)
    if url.get_backend_name() != "sqlite":
        return
    file = Path(url.database or "").expanduser()
    if file.exists() and (not file.is_file() or file.stat().st_size > 0):
        return
    adopted, left = adoption(settings), _left_behind(settings, is_new=False)
    if adopted is None and left is None:
        return
    known = f"the home adopted the ledger {adopted.id}" if adopted is not None else left
    state = "is an empty file" if file.exists() else "is not there"
    raise LedgerError(_name(settings), f"it {state}, and {known}", _PUT_BACK)


def recognise(engine: Engine, settings: Settings) -> None:
    """Adopts the ledger on first contact, and refuses one that is another than the home's, or was emptied.

    Raises:
        LedgerError: It is not the ledger of this home, or has no runs beside what runs left.
    """
    adopted = adoption(settings)
    with read(engine) as connection:
        found, used = ledger_id(connection), has_runs(connection)
    if adopted is not None:
        _refuse_another(settings, adopted, found)
    if not used and not (adopted is not None and adopted.empty):
        _refuse_emptied(engine, settings, adopted)
    file = sqlite_file(engine)
    if file is not None and is_only_readable(file):
        return  # whoever may not change the ledger does not adopt it either
    if adopted is None:
        _change(settings, lambda met: met or [_adoption_now(found, _FIRST_CONTACT)])
        recognise(engine, settings)  # another process may have met another one meanwhile
    elif used and adopted.empty:
        _change(settings, lambda met: [replace(entry, empty=entry.empty and entry.id != found) for entry in met])


def _refuse_another(settings: Settings, adopted: Adoption, found: str) -> None:
    if adopted.id != found:
        why = f"it is another ledger ({found}) than the one that the home {settings.home} adopted ({adopted.id})"
        raise LedgerError(_name(settings), why, _REMEDY)
    if adopted.unfinished:
        raise LedgerError(_name(settings), "its rebuild was cut short, or goes on", "Finish it: rl db rebuild.")


def adopt(
    engine: Engine, settings: Settings, reason: str, actor: str | None = None, *, unfinished: bool = False
) -> Adoption:
    """Makes this ledger the home's, whichever it had before and even where it has no runs.

    Args:
        engine: The ledger's database.
        settings: Whose home.
        reason: Why; kept for good.
        actor: Who says so; None: the user of this process.
        unfinished: Whether nobody may use it yet, because it is being rebuilt.
    """
    if not reason.strip():
        raise LedgerError("the reason of an adoption", "it is empty", "Say why this ledger is right: it is kept.")
    refuse_long_reason("the reason of an adoption", reason, LedgerError)
    refuse_control_characters("the reason of an adoption", reason, LedgerError)
    refuse_control_characters("the actor of an adoption", actor or "", LedgerError)
    with read(engine) as connection:
        made = _adoption_now(ledger_id(connection), reason)
        made = replace(made, empty=not has_runs(connection), unfinished=unfinished)
    if actor is not None:
        made = replace(made, by=actor)
    # One that was never finished is no part of the story.
    _change(settings, lambda met: [*(entry for entry in met if not entry.unfinished), made])
    return made


def adoption(settings: Settings) -> Adoption | None:
    """The ledger that the home works with; None before the first contact."""
    return next(reversed(_adoptions(settings)), None)


def runs_with_files(settings: Settings) -> dict[str, Path]:
    """Every run that left checkpoints, a log or steps beside the tables, with the first thing that was found of it."""
    found: dict[str, Path] = {}
    for folder, pattern in _places(settings):
        for path in _entries(folder, pattern):
            found.setdefault(re.findall(f"({RUN_ID})", path.name)[0][0], path)
    return found


def trace_of_runs(settings: Settings) -> Path | None:
    """Something that only a run leaves behind, below these settings' folders; None where there is nothing."""
    return next(_traces(settings), None)


def _left_behind(settings: Settings, *, is_new: bool) -> str | None:
    """What a home has that it got with a ledger, in words; None where it has nothing of that kind.

    Args:
        settings: Whose home.
        is_new: Whether it adopted the ledger at hand, which never had a run: then models may have been added before.
    """
    left = trace_of_runs(settings)
    if left is not None:
        return f"a run left {left}"
    added = None if is_new else next(_entries(settings.models_path, _ADDED), None)
    return None if added is None else f"somebody added the model {added}"


def _places(settings: Settings) -> list[tuple[Path, str]]:
    """The folders in which runs leave something under their own name, and the pattern of such names; no tables."""
    steps = f"{settings.trajectory.namespace}.{settings.trajectory.table}"
    return [
        (settings.models_path, RUN_ID),
        (settings.logs_path, rf"{RUN_ID}\.jsonl"),
        (settings.lake_path / "spool", RUN_ID),
        (settings.below_home(Path("trajectories")) / steps, f"run_id={RUN_ID}"),
    ]


def _traces(settings: Settings) -> Iterator[Path]:
    places = _places(settings)
    warehouse = settings.lake.warehouse
    if warehouse is None or "://" not in warehouse:  # those elsewhere are shared by homes
        folder = settings.lake_path / "warehouse" if warehouse is None else settings.below_home(Path(warehouse))
        table = folder / settings.trajectory.namespace / settings.trajectory.table
        places.append((table / "data", f"run_id={RUN_ID}"))
    for folder, pattern in places:
        yield from _entries(folder, pattern)
    registry = settings.registry_file
    if registry is not None and registry.is_file() and _has_models_of_runs(registry):
        yield registry


def _entries(folder: Path, pattern: str) -> Iterator[Path]:
    """What is in a folder, where there is one, under names of a pattern."""
    if folder.is_dir():
        with os.scandir(folder) as entries:
            yield from (Path(entry.path) for entry in entries if re.fullmatch(pattern, entry.name))


def _has_models_of_runs(registry: Path) -> bool:
    """Whether a model registry knows a model that a run trained; one that cannot be read may."""
    try:
        with closing(sqlite3.connect(f"{registry.as_uri()}?mode=ro", uri=True)) as connection:
            # Registries of the original SQL have no such column.
            of_runs = "SELECT 1 FROM pragma_table_info('models') WHERE name = 'run_id'"
            found = connection.execute(of_runs).fetchone() is not None
            trained = "SELECT 1 FROM models WHERE run_id IS NOT NULL LIMIT 1"
            return found and connection.execute(trained).fetchone() is not None
    except sqlite3.DatabaseError:
        return True


def _refuse_emptied(engine: Engine, settings: Settings, adopted: Adoption | None) -> None:
    with read(engine) as connection:
        had = _had_runs(connection)
    left = _left_behind(settings, is_new=adopted is not None and not had)
    if left is None:
        return
    with read(engine) as connection:
        if has_runs(connection):  # the first one was made meanwhile
            return
    raise LedgerError(_name(settings), f"it has no runs, and {left}", _REMEDY)


def _adoption_now(found: str, reason: str) -> Adoption:
    return Adoption(found, utc_now().isoformat(), f"{getpass.getuser()}@{socket.gethostname()}", reason)


def _adoptions(settings: Settings) -> list[Adoption]:
    path = settings.below_home(_FILE)
    try:
        found = load_json(read_regular(path, most_bytes=_MOST_BYTES))
        return [Adoption(**entry) for entry in found["adopted"]]
    except FileNotFoundError:
        return []
    except NotADirectoryError as error:
        remedy = "Choose another home folder: --home FOLDER."
        raise LedgerError(f"the home {settings.home}", "it is no folder", remedy) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LedgerError(
            f"the file {path}",
            f"it says which ledger the home works with, and cannot be read: {error!r}",
            "Put it back from a copy, or delete it: the next ledger that is opened is adopted then.",
        ) from error


def _change(settings: Settings, change: Callable[[list[Adoption]], list[Adoption]]) -> None:
    """Writes the adoptions anew, from what they are once nobody else changes them."""
    path = settings.below_home(_FILE)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(settings.below_home(_LOCK)):
            before = _adoptions(settings)
            after = change(before)
            if after != before:
                document = {"adopted": [asdict(entry) for entry in after]}
                replace_synced(path, (json.dumps(document, indent=1) + "\n").encode())
    except OSError as error:
        raise LedgerError(
            f"the file {path}",
            f"it says which ledger the home works with, and cannot be written: {error.strerror or error}",
            "Choose a home folder that you may write to.",
        ) from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Waits until no other process holds the lock; it ends with its process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _name(settings: Settings) -> str:
    return f"the ledger {redact(settings.database_url)}"
