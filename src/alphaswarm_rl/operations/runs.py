"""Looking at runs: the list, one run with everything about it, its events, and a folder with all of that."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, cast

from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.db.types import finite

# Those under their own names are part of the results: faces may name them.
from alphaswarm_rl.ledger import EpisodeRow, Ledger
from alphaswarm_rl.ledger import EvaluationRow as EvaluationRow
from alphaswarm_rl.ledger import EventRow as EventRow
from alphaswarm_rl.ledger import RunRow as RunRow
from alphaswarm_rl.ledger.liveness import LIVE
from alphaswarm_rl.operations.data import Count, Data, Index
from alphaswarm_rl.operations.operation import NamedRun, operation
from alphaswarm_rl.operations.removals import finish_removals
from alphaswarm_rl.settings import Settings

RunStatus = Literal["pending", "running", "completed", "failed", "halted", "interrupted"]

_SECONDS_BETWEEN_LOOKS = 0.5


class ListRuns(Data):
    """Which runs are listed.

    Attributes:
        status: Only runs in that state.
        target: Only runs of that verb.
        slug: Only runs of that spec.
        limit: At most that many.
        removed: Whether removed runs are listed too.
        where: Conditions on columns, such as `sharpe > 1 and agent = ppo`; all must hold.
        sort: The column that orders them: the largest and the newest first, text from A to Z; a leading `-` turns it
            round. Runs without a value are last. None: the newest first.
        columns: The columns that are given of each; none: all of them.
    """

    status: RunStatus | None = None
    target: str | None = None
    slug: str | None = None
    limit: Count = 20
    removed: bool = False
    where: tuple[str, ...] = ()
    sort: str | None = None
    columns: tuple[str, ...] = ()


class ListedRun(RunRow, Data):
    """A run, and what its agent is called: one that runs a policy has the policy's name."""

    agent: str | None


class RunList(Data, only="runs"):
    """Runs, in the order that was asked for.

    Attributes:
        runs: The runs; of each the columns that were asked for, where some were.
    """

    runs: tuple[ListedRun, ...] | tuple[dict[str, Any], ...]


class SpecOfRun(Data):
    """The stored version that a run is of."""

    slug: str
    version: int
    version_id: str
    spec_hash: str


class KeptCheckpoint(Data):
    """A checkpoint that is still on the disk."""

    timesteps: int
    path: Path


class RunDetails(Data):
    """Everything about one run.

    Attributes:
        run: Its row.
        spec: The version that it is of.
        evaluations: The evaluations of its policy.
        checkpoints: Its checkpoints, the oldest first.
        children: The ids of the runs whose parent it is.
    """

    run: RunRow
    spec: SpecOfRun
    evaluations: tuple[EvaluationRow, ...]
    checkpoints: tuple[KeptCheckpoint, ...]
    children: tuple[str, ...]


class RunEvents(NamedRun):
    """Which events of a run.

    Attributes:
        run: The run's id, the beginning of it, or latest.
        after: Only events behind that number.
        follow: Whether to wait for more until the run ends.
    """

    after: Index = 0
    follow: bool = False


class ExportRun(NamedRun):
    """A run, and the new or empty folder that it is written into."""

    folder: Path


class ExportedRun(Data):
    """The files that were written."""

    run_id: str
    folder: Path
    files: tuple[str, ...]


@operation("runs.list")
def list_runs(settings: Settings, request: ListRuns) -> RunList:
    """Runs that meet conditions, the newest first unless another order is asked for."""
    finish_removals(settings)
    with Ledger.open(settings) as ledger:
        found = ledger.listed_runs(
            request.columns or ("agent",),
            where=request.where,
            sort=request.sort,
            status=request.status,
            target=request.target,
            slug=request.slug,
            limit=request.limit,
            include_removed=request.removed,
        )
    if request.columns:
        return RunList(tuple(shown for _, shown in found))
    return RunList(tuple(ListedRun(**vars(row), agent=cast("str | None", shown["agent"])) for row, shown in found))


@operation("runs.show")
def show_run(settings: Settings, request: NamedRun) -> RunDetails:
    """Everything about one run."""
    from alphaswarm_rl.inference.checkpoints import CheckpointStore

    finish_removals(settings)
    with Ledger.open(settings) as ledger:
        run = ledger.run(request.run)
        version = ledger.version(run.version_id)
        evaluations = ledger.evaluations(run.id)
        children = ledger.children(run.id)
    kept = CheckpointStore(settings.models_path).steps(run.id)
    return RunDetails(
        run,
        SpecOfRun(run.family, version.version, version.id, version.spec_hash),
        tuple(evaluations),
        tuple(KeptCheckpoint(timesteps, path) for timesteps, path in kept.items()),
        tuple(child.id for child in children),
    )


@operation("runs.events")
def run_events(settings: Settings, request: RunEvents) -> Iterator[EventRow]:
    """A run's events in their order, each as soon as it is there."""
    with Ledger.open(settings) as ledger:
        run_id = ledger.run(request.run).id
    return _events(settings, run_id, request.after, follow=request.follow)


@operation("runs.export", changes=True)
def export_run(settings: Settings, request: ExportRun) -> ExportedRun:
    """Writes everything the ledger knows of a run into a folder.

    The files are run.json, spec.yaml, events.jsonl, evaluations.json and episodes.csv.
    """
    from alphaswarm_rl.core.yaml import dump_yaml

    with Ledger.open(settings) as ledger:
        run = ledger.run(request.run)
        version = ledger.version(run.version_id)
        events = ledger.events(run.id)
        evaluations = ledger.evaluations(run.id)
        episodes = ledger.episodes(run.id)
    folder = request.folder
    _make_empty(folder)
    texts = {
        "run.json": _json(run.as_dict(), indent=2) + "\n",
        "spec.yaml": dump_yaml(version.payload),
        "events.jsonl": "".join(f"{_json(event.as_dict())}\n" for event in events),
        "evaluations.json": _json([evaluation.as_dict() for evaluation in evaluations], indent=2) + "\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    _write_episodes(folder / "episodes.csv", episodes)
    return ExportedRun(run.id, folder, (*texts, "episodes.csv"))


def _events(settings: Settings, run_id: str, after: int, *, follow: bool) -> Iterator[EventRow]:
    with Ledger.open(settings) as ledger:
        while True:
            # The state is asked for before the events: what a run writes before it ends is then never missed.
            live = follow and ledger.run(run_id).status in LIVE
            for event in ledger.events(run_id, after):
                after = event.seq
                yield event
            if not live:
                return
            time.sleep(_SECONDS_BETWEEN_LOOKS)


def _make_empty(folder: Path) -> None:
    what = f"folder {str(folder)!r}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        occupied = any(folder.iterdir())
    except OSError as error:
        raise OptionError(
            what, f"it cannot be used: {error.strerror}", "Choose a folder that you may write to."
        ) from error
    if occupied:
        raise OptionError(what, "it is not empty", "Choose a new folder: nothing is overwritten.")


def _json(document: JsonObject | list[JsonObject], indent: int | None = None) -> str:
    return json.dumps(finite(document), indent=indent, ensure_ascii=False, allow_nan=False)


def _write_episodes(path: Path, episodes: list[EpisodeRow]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(EpisodeRow)])
        writer.writeheader()
        writer.writerows(episode.as_dict() for episode in episodes)
