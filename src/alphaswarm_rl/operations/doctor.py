"""What is wrong with this installation. Each check gives findings, and none stops another."""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import field
from importlib.metadata import Distribution, PackageNotFoundError, entry_points, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.errors import AlphaSwarmError
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.core.wording import size
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.operation import LazySettings, operation
from alphaswarm_rl.options.settings import SETTINGS_FILE
from alphaswarm_rl.options.table import OPTIONS
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import waiting_fields

if TYPE_CHECKING:
    from alphaswarm_rl.ledger import RunRow

_LIBRARIES = ("torch", "gymnasium", "stable-baselines3", "sb3-contrib", "numpy", "pydantic", "SQLAlchemy", "alembic")
_COMPILERS = ("c++", "g++", "clang++", "cc", "gcc", "clang")
#: Less free space than this and the next checkpoints may not fit.
_LITTLE_SPACE = 1024**3
_DISTRIBUTION = "alphaswarm-rl"
_REQUIREMENT = re.compile(r"""(?P<name>[A-Za-z0-9._-]+).*\bextra\s*==\s*["'](?P<extra>[^"']+)["']""")
#: For those who work on this project itself, or made of the other extras.
_NOT_SHOWN = ("dev", "all")
#: How many modules of one distribution are named; of more only their number is said, but in JSON.
_MOST_NAMED = 12


class DoctorRequest(Data):
    """What was named on the way here: the settings file, and modules of components."""

    settings_file: str | None = None
    plugins: tuple[str, ...] = ()


class Finding(Data):
    """One thing that was looked at.

    Attributes:
        state: `ok`; `missing` for what can be had but is not needed; `waits` for what a later part brings; `broken`.
        name: What was looked at.
        text: What was found.
        data: The same for programs.
    """

    state: Literal["ok", "missing", "waits", "broken"]
    name: str
    text: str
    data: JsonObject = field(default_factory=dict)


class Diagnosis(Data):
    """Every finding, in the order in which they are shown; healthy means that none is broken."""

    healthy: bool
    findings: tuple[Finding, ...]


@operation("doctor")
def doctor(settings: LazySettings, request: DoctorRequest) -> Diagnosis:
    """Checks this installation; what is only missing (an extra, a compiler) breaks nothing."""
    findings = [*_versions(), *_guarded("device", _device), *_compiler()]
    try:
        loaded = settings()
    except AlphaSwarmError as error:
        findings.append(_broken("settings", error))
    else:
        findings += _settings_file(loaded, request.settings_file)
        findings += _guarded("home", lambda: _home(loaded))
        findings += _disk(loaded)
        findings += _guarded("database", lambda: _database(loaded))
        findings += _guarded("lake", lambda: _lake(loaded))
    findings += [*_extras(), *_guarded("components", lambda: _components(request.plugins)), *_waiting()]
    return Diagnosis(all(finding.state != "broken" for finding in findings), tuple(findings))


def _guarded(name: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(check())
    except (AlphaSwarmError, ImportError, OSError) as error:
        return [_broken(name, error)]


def _broken(name: str, error: Exception) -> Finding:
    data = error.as_dict() if isinstance(error, AlphaSwarmError) else {"type": type(error).__name__}
    return Finding("broken", name, str(error), data)


def _versions() -> Iterator[Finding]:
    yield Finding("ok", "python", platform.python_version())
    yield Finding("ok", "alphaswarm-rl", version("alphaswarm-rl"))
    for library in _LIBRARIES:
        if _is_installed(library):
            yield Finding("ok", library, version(library))
        else:
            yield Finding("broken", library, "not installed. Run: pip install alphaswarm-rl.")


def _device() -> Iterator[Finding]:
    from alphaswarm_rl.arrays.backend import resolve_device
    from alphaswarm_rl.runtime.fingerprints import device_name, processor

    found = {**processor(), "device": device_name(resolve_device("auto"))}
    yield Finding("ok", "device", f"{found['device']} ({found['cpu']}, {found['cores']} cores)", found)


def _compiler() -> Iterator[Finding]:
    path = next((path for path in map(shutil.which, _COMPILERS) if path is not None), None)
    if path is None:
        yield Finding("missing", "compiler", "no C or C++ compiler; torch.compile is not used without one")
    else:
        yield Finding("ok", "compiler", path)


def _settings_file(settings: Settings, named: str | None) -> Iterator[Finding]:
    path = settings.home / SETTINGS_FILE if named is None else Path(named)
    yield Finding("ok", "settings file", str(path) if path.exists() else f"none ({path} does not exist)")


def _home(settings: Settings) -> Iterator[Finding]:
    home = settings.home.absolute()
    # The folder is not made here; what counts is whether it could be.
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    if place == home and not os.access(home, os.W_OK):
        text = f"{home} can be read, and not written to: whatever trains, judges or removes is refused"
        yield Finding("missing", "home", text)
        return
    with tempfile.TemporaryFile(dir=place):
        yield Finding("ok", "home", str(home) if place == home else f"{home} (not there yet, can be made)")
    free = shutil.disk_usage(place).free
    yield Finding("ok" if free >= _LITTLE_SPACE else "broken", "free space", size(free), {"bytes": free})


def _disk(settings: Settings) -> Iterator[Finding]:
    parts = {
        "checkpoints": settings.models_path,
        "event logs": settings.logs_path,
        "recordings": settings.below_home(Path("media")),
        "ledger file": settings.below_home(Path("ledger.db")),
    }
    for name, path in parts.items():
        used = _size(path)
        yield Finding("ok", f"disk: {name}", size(used), {"path": str(path), "bytes": used})


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    # Not Path.rglob: a file that another process deletes meanwhile must not end the walk.
    return sum(
        entry.stat().st_size
        for folder, _, names in os.walk(path)
        for name in names
        if (entry := Path(folder, name)).exists()
    )


def _database(settings: Settings) -> Iterator[Finding]:
    from alphaswarm_rl.operations.db import database_state

    found = database_state(settings)
    revision = f"revision {found.revision}, needs {found.head}"
    at = "no tables yet, made on first use" if found.revision is None else revision
    state: Literal["ok", "broken"] = "ok" if found.usable else "broken"
    yield Finding(state, "database", f"{found.url} ({at})", vars(found))
    if found.state in ("current", "empty"):
        yield from _guarded("ledger", lambda: _ledger(settings, is_made=found.state == "current"))


def _ledger(settings: Settings, *, is_made: bool) -> Iterator[Finding]:
    """Whether it is the home's ledger and whole, and whether it and the files of runs know of each other."""
    from alphaswarm_rl.ledger import Ledger
    from alphaswarm_rl.ledger.identity import refuse_absent, runs_with_files

    refuse_absent(settings)
    if not is_made:
        return
    left = runs_with_files(settings)  # before the ledger, which knows of a run before it leaves anything
    with Ledger.open(settings) as ledger:
        damage = ledger.damage()
        if damage is not None:
            yield Finding("broken", "ledger", damage)
            return
        known = ledger.runs(limit=None, include_removed=True)
    runs = [run for run in known if run.removed_at is None]
    yield from _removals(settings)
    problems = [*_checkpoints(settings, runs), *_unknown_runs(left, known)]
    yield from problems or [Finding("ok", "ledger", f"{len(runs)} runs, every checkpoint in its place")]


def _checkpoints(settings: Settings, runs: list[RunRow]) -> Iterator[Finding]:
    """Checkpoints that are not where runs name them, and those that cannot be whole."""
    named = [run for run in runs if run.checkpoint is not None]
    copied = [run for run in named if _is_copied(settings, run)]
    if copied:
        text = f"{copied[0].checkpoint} is named by its run, and this home has it too: it was copied or moved"
        yield Finding("broken", "home", f"{text}. Put it back, or use the old one", {"runs": _ids(copied)})
    gone = [run for run in named if run not in copied and not Path(run.checkpoint or "").is_dir()]
    if gone:
        text = f"{len(gone)} of {len(runs)} runs name a checkpoint that is not there: {gone[0].id}"
        yield Finding("broken", "ledger", text, {"runs": _ids(gone)})
    flaws = _flaws(settings, runs)
    if flaws:
        path, why = next(iter(flaws.items()))
        text = f"{len(flaws)} damaged: {path}: {why}. rl resume goes on from an intact one"
        yield Finding("broken", "checkpoints", text, {"damaged": flaws})


def _is_copied(settings: Settings, run: RunRow) -> bool:
    """Whether a run's checkpoint is here, and its row names the same one in another place."""
    from alphaswarm_rl.core.claims import run_folder

    path = Path(run.checkpoint or "")
    here = settings.models_path / run.id / path.relative_to(run_folder(path))
    return run.target == "train" and here.is_dir() and here.resolve() != path.resolve()


def _flaws(settings: Settings, runs: list[RunRow]) -> dict[str, str]:
    """What is wrong with kept checkpoints of runs that nobody works on, by the sizes of their files."""
    from alphaswarm_rl.inference.checkpoints import CheckpointStore, flaw_at_a_glance
    from alphaswarm_rl.ledger.liveness import LIVE

    store = CheckpointStore(settings.models_path)
    flaws: dict[str, str] = {}
    for run in runs:
        if run.target == "train" and run.status not in LIVE:  # else they come and go
            kept: dict[Path, str | None] = dict.fromkeys(store.steps(run.id).values())
            if run.checkpoint is not None and Path(run.checkpoint).is_dir():
                kept[Path(run.checkpoint)] = run.checkpoint_sha256
            found = {str(path): flaw_at_a_glance(path, expected_sha256=sha256) for path, sha256 in kept.items()}
            flaws |= {path: why for path, why in found.items() if why is not None}
    return flaws


def _unknown_runs(left: dict[str, Path], known: list[RunRow]) -> Iterator[Finding]:
    """Runs that left files, and that the ledger does not know."""
    unknown = {run_id: str(left[run_id]) for run_id in sorted({*left} - {run.id for run in known})}
    if unknown:
        remedy = "rl db rebuild brings back those that can be, rl runs gc deletes checkpoints of the others"
        text = f"the ledger does not know {len(unknown)} runs that left files: {next(iter(unknown.values()))}. {remedy}"
        yield Finding("broken", "files of runs", text, {"runs": unknown})


def _ids(runs: list[RunRow]) -> list[str]:
    return [run.id for run in runs]


def _lake(settings: Settings) -> Iterator[Finding]:
    """What is in the lake, and whether its tables are in the place that these settings say."""
    from alphaswarm_rl.lake.catalog import Lake, explained
    from alphaswarm_rl.lake.counting import count

    with Lake(settings) as lake, explained("the lake", "Check its folder and --lake-catalog-url."):
        found = count(lake)
        yield Finding("ok", "lake", f"{found} ({lake.warehouse})", {**vars(found), "warehouse": lake.warehouse})


def _removals(settings: Settings) -> Iterator[Finding]:
    from alphaswarm_rl.operations.removals import finish_removals, removals

    finish_removals(settings)
    for removal in removals(settings):
        data = {"run_id": removal.run_id}
        if removal.is_abandoned(settings):
            text = f"that of run {removal.run_id} was cut short and cannot be finished now; see the warning above"
            yield Finding("broken", "removal", text, data)
        else:
            text = f"that of run {removal.run_id} is under way: {removal.holder}, since {removal.age:.0f} s"
            yield Finding("ok", "removal", f"{text}. Should it be dead: rl runs rm {removal.run_id}", data)


def _extras() -> Iterator[Finding]:
    for name, missing in extras().items():
        if missing:
            remedy = f"Run: pip install '{_DISTRIBUTION}[{name}]'"
            yield Finding("missing", f"extra {name}", remedy, {"needs": missing})
        else:
            yield Finding("ok", f"extra {name}", "installed")


def extras() -> dict[str, list[str]]:
    """Every extra that a user may want, by name, with those of its distributions that are not installed."""
    found: dict[str, list[str]] = {}
    for line in requires(_DISTRIBUTION) or ():
        match = _REQUIREMENT.match(line)
        if match is not None and match["extra"] not in _NOT_SHOWN:
            found.setdefault(match["extra"], []).extend([] if _is_installed(match["name"]) else [match["name"]])
    return dict(sorted(found.items()))


def _is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


def _components(plugins: tuple[str, ...]) -> Iterator[Finding]:
    found = catalogue.listing()
    yield Finding("ok", "components", f"{len(found)} in {len({cls.rl_kind for cls in found})} kinds")
    owners: dict[str, set[str]] = {}
    # By distribution first: each look at its name reads all of its metadata.
    by_distribution: dict[Distribution | None, set[str]] = {}
    for point in entry_points(group=catalogue.ENTRY_POINT_GROUP):
        by_distribution.setdefault(point.dist, set()).add(point.module)
    for distribution, modules in by_distribution.items():
        # A distribution that pip is replacing at this moment has no name.
        name = None if distribution is None else distribution.name
        owners.setdefault(name or "unknown", set()).update(modules)
    for owner, modules in sorted(owners.items()):
        listed = sorted(modules)
        named = ", ".join(listed) if len(listed) <= _MOST_NAMED else f"{len(listed)} modules"
        yield Finding("ok", f"entry points of {owner}", named, {"modules": listed})
    if plugins:
        yield Finding("ok", "plug-ins", ", ".join(plugins), {"modules": list(plugins)})


def _waiting() -> Iterator[Finding]:
    parts: dict[str, dict[str, list[str]]] = {}
    for spec_field in waiting_fields():
        parts.setdefault(spec_field.part, {}).setdefault("spec fields", []).append(spec_field.path)
    for option in OPTIONS:
        if option.part is not None:
            parts.setdefault(option.part, {}).setdefault("options", []).append(option.key)
    for part, names in sorted(parts.items()):
        text = "; ".join(f"{kind} {', '.join(listed)}" for kind, listed in names.items())
        yield Finding("waits", part, text, dict(names))
