"""Rebuilding a ledger that was lost, from what event logs, checkpoints and tables still know of its runs.

A run is told by its log, `<logs>/<run>.jsonl`: the line of its start has its row and its spec as they were then, and
the other lines what came of it. A log of an earlier version has neither; then the spec is that of the run's checkpoint.
A run without a log is what its newest checkpoint says. Rows in the tables give refs, episodes and returns.

Each run comes back whole, in one transaction, so that a rebuild which was cut short can be repeated; until then the
ledger is refused.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from alphaswarm_rl.core.errors import AlphaSwarmError, LakeError, LedgerError, RunError
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.inference.checkpoints import CheckpointStore, LoadedCheckpoint, first_intact
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.contents import RecordedEpisode, delivered, recorded_episodes
from alphaswarm_rl.lake.segments import Segment, spooled
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.identity import RUN_ID, adopt, adoption
from alphaswarm_rl.ledger.restoring import NOTES, LostRun
from alphaswarm_rl.ledger.tables import runs as runs_table
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.operation import NO_ARGUMENTS, NoArguments, operation
from alphaswarm_rl.recording.table_refs import refs_writer
from alphaswarm_rl.runtime.claims import newest_claim
from alphaswarm_rl.runtime.events import EventLog
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec

#: What no file tells of.
_NEVER_KNOWN = (
    "the kill switch and its log: whether anything was halted is not known; halt it again with: rl halt --reason WHY",
    "notes and authors of versions, projects, and runs whose files were removed",
)
_ENDS = {"done": "completed", "halted": "halted", "error": "failed"}
_JUDGED = ("eval.step", "done")
_TIMES = ("heartbeat_at", "created_at", "started_at", "ended_at", "removed_at")
_PORTFOLIO = ("sharpe", "max_drawdown", "final_value", "total_return")
_RESULTS = ("mean_reward", "total_reward", *_PORTFOLIO)
_HEAD = ("run_id", "seq", "stage", "ts", "trace_id", "pinned", "claim")


class Rebuilt(Data):
    """What a rebuild brought back.

    Attributes:
        ledger_id: The ledger, which is the home's from now on.
        runs: Runs that were brought back, the oldest first.
        events: How many events came with them.
        evaluations: How many evaluations.
        episodes: How many rows of training episodes.
        segments: How many files of recorded steps were accounted for.
        lost: What could not be brought back, and why.
    """

    ledger_id: str
    runs: tuple[str, ...]
    events: int
    evaluations: int
    episodes: int
    segments: int
    lost: tuple[str, ...]


@operation("db.rebuild", changes=True)
def rebuild_ledger(settings: Settings, request: NoArguments = NO_ARGUMENTS) -> Rebuilt:
    """Brings back runs that the ledger has lost, from event logs, checkpoints and tables; changes none that it has.

    Raises:
        LedgerError: The ledger is another one than the home's, and has runs of its own.
    """
    with Ledger.open_any(settings) as ledger, Lake(settings) as lake:
        _refuse_foreign(ledger, settings)
        adopt(ledger.engine, settings, "rl db rebuild", unfinished=True)
        done = _Rebuild(settings, ledger, lake)
        result = done.run()
        adopt(ledger.engine, settings, "rl db rebuild")
    return result


def _refuse_foreign(ledger: Ledger, settings: Settings) -> None:
    adopted = adoption(settings)
    if adopted is not None and adopted.id != ledger.id and ledger.runs(limit=1, include_removed=True):
        raise LedgerError(
            f"the ledger {ledger.id}",
            f"it has runs, and the home adopted another one ({adopted.id})",
            "Put that one back, or name a new database with --db-url. Is this one right? rl db adopt --reason WHY.",
        )


class _Rebuild:
    """One rebuild.

    Args:
        settings: Where everything is.
        ledger: The ledger that gets the runs.
        lake: Whose tables are read.
    """

    def __init__(self, settings: Settings, ledger: Ledger, lake: Lake) -> None:
        self._settings = settings
        self._ledger = ledger
        self._lake = lake
        self._store = CheckpointStore(settings.models_path)
        self._lost: list[str] = []
        self._specs: dict[str, RLExperimentSpec] = {}
        self._segments: dict[str, list[Segment]] = defaultdict(list)
        for found in delivered(lake):
            if isinstance(found, LakeError):
                self._lost.append(str(found))
            else:
                self._segments[found.facts.run_id].append(found)

    def run(self) -> Rebuilt:
        """Brings back every run that the ledger has not, and the refs of those that have none."""
        known = {run.id for run in self._ledger.runs(limit=None, include_removed=True)}
        found = {}
        # Those with a checkpoint first: theirs may be the spec of others too.
        for run_id in sorted(self._names() - known, key=lambda run_id: (not self._store.steps(run_id), run_id)):
            try:
                found[run_id] = self._lost_run(run_id)
            except AlphaSwarmError as error:
                self._lost.append(f"run {run_id}: {error}")
        restored = [run_id for run_id in _parents_first(found) if self._ledger.restore_run(found[run_id])]
        for run_id in restored:
            parent = found[run_id].row.get("parent_run_id")
            if parent is not None and parent not in found and parent not in known:
                self._lost.append(f"run {run_id}: its parent {parent}")
        segments = self._add_refs({*known, *restored})
        back = [found[run_id] for run_id in restored]
        return Rebuilt(
            self._ledger.id,
            tuple(restored),
            sum(len(run.events) for run in back),
            sum(len(run.evaluations) for run in back),
            sum(len(run.episodes) for run in back),
            segments,
            (*self._lost, *_NEVER_KNOWN),
        )

    def _names(self) -> set[str]:
        """The ids of all runs that left something."""
        folders = [self._settings.models_path, self._settings.logs_path, self._lake.spool]
        names = {path.name.removesuffix(".jsonl") for folder in folders if folder.is_dir() for path in folder.iterdir()}
        return {name for name in (*names, *self._segments) if re.fullmatch(RUN_ID, name)}

    def _add_refs(self, known: set[str]) -> int:
        """Accounts for the files in the tables of runs that have no refs; says how many."""
        accounted = {ref.run_id for ref in self._ledger.refs()}
        added = [segment for run_id in known - accounted for segment in self._segments.get(run_id, ())]
        refs_writer(self._ledger)(added)
        return len(added)

    def _lost_run(self, run_id: str) -> LostRun:
        log = EventLog.read(self._settings.logs_path / f"{run_id}.jsonl")
        if log.damaged:
            self._lost.append(f"run {run_id}: {log.damaged} lines of its log, which cannot be read")
        loaded = self._checkpoint(run_id, log)
        spec = self._spec(run_id, log, loaded)
        row = _row(run_id, log, spec, loaded)
        row["resumed"] = max(row["resumed"], newest_claim(self._settings, run_id, in_tables=True) - 1)
        segments = self._segments.get(run_id, [])
        played = recorded_episodes(self._lake, run_id) if segments else []
        row["recording"] = self._recording(run_id, segments)
        evaluations = _evaluations(log, spec, row, played)
        train = [episode for episode in played if episode.phase == "train"]
        if not _is_recorded_whole(segments):
            if row["target"] == "train":
                self._lost.append(f"run {run_id}: its training episodes, whose steps were not all recorded")
            train = []
        return LostRun(
            spec,
            log.last("start").get("version_id"),
            row,
            [_event(line) for line in log.lines],
            evaluations,
            _episodes(train, self._settings.ledger.episode_rate),
        )

    def _checkpoint(self, run_id: str, log: EventLog) -> LoadedCheckpoint | None:
        """The newest intact checkpoint of a run: of those that its log names, where it names any."""
        kept = self._store.steps(run_id)
        named = [(Path(line["path"]), line) for line in _saved(log)]
        # A home that was moved has it elsewhere.
        found = [(path if path.is_dir() else kept.get(line["timesteps"]), line["sha256"]) for path, line in named]
        saved = [(path, sha256) for path, sha256 in found if path is not None]
        candidates: list[tuple[Path, str | None]] = [*saved[::-1]] or [(path, None) for path in reversed(kept.values())]
        loaded, damaged = first_intact(dict.fromkeys(candidates))  # the log names one as the best and as the last
        self._lost += [f"run {run_id}: {error}" for error in damaged]
        return loaded

    def _spec(self, run_id: str, log: EventLog, loaded: LoadedCheckpoint | None) -> RLExperimentSpec:
        """The spec of a run; a RunError where nothing tells it."""
        expected = log.last("start").get("spec_hash")
        if "spec" in log.pinned:
            spec = RLExperimentSpec.from_data(log.pinned["spec"], source=f"the log of run {run_id}", stored=True)
        elif loaded is not None:
            spec = loaded.trained_spec
        elif expected in self._specs:
            spec = self._specs[expected]
        else:
            why = "it left no checkpoint and no log that tells its spec"
            raise RunError("its row", why, "Its files stay where they are.")
        if expected is not None and spec.spec_hash != expected:
            raise RunError(
                "its spec",
                f"this code gives it the hash {spec.spec_hash[:12]}, not {expected[:12]}",
                "Rebuild with the version of alphaswarm-rl that ran it.",
            )
        self._specs[spec.spec_hash] = spec
        return spec

    def _recording(self, run_id: str, segments: list[Segment]) -> JsonObject:
        waiting = len(spooled(self._lake.spool, run_id))
        if not segments and not waiting:
            return {}
        rows: Counter[str] = Counter()
        for segment in segments:
            rows[segment.facts.kind] += segment.facts.rows
        tables = [self._lake.path(self._lake.warehouse)] if self._lake.local else []
        in_tables = not self._lake.local or any(segment.path.is_relative_to(tables[0]) for segment in segments)
        mode = {"train": "all"} if _is_recorded_whole(segments) else {}
        store = "iceberg" if in_tables or not segments else "parquet"
        return {"store": store, "rows": dict(rows), "undelivered": waiting, "problem": None, **mode}


def _saved(log: EventLog) -> list[JsonObject]:
    return [line for line in log.stages("train.checkpoint") if "sha256" in line and "timesteps" in line]


def _row(run_id: str, log: EventLog, spec: RLExperimentSpec, loaded: LoadedCheckpoint | None) -> JsonObject:
    """The columns of a run's row, from what it was when it last began and what its log tells since."""
    started, data, built = log.last("start"), log.last("data.loaded"), log.last("agent.built")
    window = data.get("window") or (None, None)
    row: JsonObject = {
        "id": run_id,
        "family": spec.slug,
        "target": started.get("target", "train"),
        "seed": started.get("seed", spec.seed if loaded is None else loaded.seed),
        "device": built.get("device", "cpu"),
        "resumed": max(len(log.stages("start")) - 1, 0),
        "total_timesteps": spec.training.total_timesteps if started.get("target", "train") == "train" else 0,
        **_pinned_columns(log.pinned.get("row", {})),
        # Nobody holds it.
        "host": "",
        "pid": 0,
        "process_start": "",
        "window_start": window[0],
        "window_end": window[1],
        "data_fingerprint": data.get("data_fingerprint"),
    }
    first, last = log.times if log.lines else (_written(loaded),) * 2
    row |= {"created_at": row.get("created_at") or first, "started_at": row.get("started_at") or first}
    row |= {"heartbeat_at": last, "ended_at": last, **_end(log)}
    row["notices"] = [*(data.get("notices") or row.get("notices") or ()), NOTES]
    row["trace_id"] = next(
        (line["trace_id"] for line in reversed(log.lines) if "trace_id" in line), row.get("trace_id")
    )
    row |= _trained(log, loaded) if row["target"] == "train" else {"timesteps": log.last(*_JUDGED).get("timesteps", 0)}
    return row


def _pinned_columns(row: JsonMapping) -> JsonObject:
    known = {name: value for name, value in row.items() if name in runs_table.c}
    for name in _TIMES:
        if known.get(name) is not None:
            known[name] = datetime.fromisoformat(known[name])
    return {name: value for name, value in known.items() if name not in ("number", "spec_id", "version_id")}


def _written(loaded: LoadedCheckpoint | None) -> datetime:
    assert loaded is not None  # a run with neither log nor checkpoint has no spec
    return datetime.fromtimestamp((loaded.checkpoint.path / "checkpoint.json").stat().st_mtime, UTC)


def _end(log: EventLog) -> JsonObject:
    """How a run ended: nothing about that in its log means that it was interrupted."""
    starts = log.stages("start")
    began = starts[-1]["seq"] if starts else 0
    ends = [line for line in log.stages(*_ENDS) if line["seq"] > began]
    if not ends:
        return {"status": "interrupted", "error": None, "halt_reason": None}
    end = ends[-1]
    metrics = end.get("metrics") or {}
    return {
        "status": _ENDS[end["stage"]],
        "error": end.get("error"),
        "halt_reason": end.get("reason"),
        "result_summary": metrics,
        "in_sample": metrics.get("in_sample"),
        **{name: metrics.get(name) for name in _RESULTS},
    }


def _trained(log: EventLog, loaded: LoadedCheckpoint | None) -> JsonObject:
    """What a training reached: its transitions, its newest checkpoint and its best one."""
    reached = log.last("train.step", "train.checkpoint", "done", "halted").get("timesteps")
    columns: JsonObject = {"timesteps": reached or 0}
    if loaded is not None:
        found = loaded.checkpoint
        columns |= {"checkpoint": str(found.path), "checkpoint_sha256": found.sha256}
        columns["timesteps"] = max(columns["timesteps"], found.timesteps)
    best = [line for line in _saved(log) if line.get("best") and Path(line["path"]).is_dir()]
    if best:
        at = best[-1]["timesteps"]
        judged = [line for line in log.stages("eval.step") if (line["phase"], line["timesteps"]) == ("validation", at)]
        columns["best_checkpoint"] = best[-1]["path"]
        columns["best_reward"] = judged[-1]["mean_reward"] if judged else None
    return columns


def _event(line: JsonMapping) -> JsonObject:
    payload = {name: value for name, value in line.items() if name not in _HEAD}
    return {"seq": line["seq"], "stage": line["stage"], "ts": datetime.fromisoformat(line["ts"]), "payload": payload}


def _evaluations(
    log: EventLog, spec: RLExperimentSpec, row: JsonMapping, played: list[RecordedEpisode]
) -> list[JsonObject]:
    """The evaluations that a log tells of; what a resume judged again counts once."""
    newest = {(line["phase"], line["timesteps"]): line for line in log.stages("eval.step")}
    kept = [line for line in newest.values() if line["timesteps"] <= row["timesteps"]]
    found, done = [], Counter[str]()
    for line in sorted(kept, key=lambda line: (line["timesteps"], line["seq"])):
        phase, first = line["phase"], done[line["phase"]]
        done[phase] += line["episodes"]
        numbers = range(first, done[phase])
        episodes = [each for each in played if each.phase == phase and each.episode in numbers]
        found.append(_evaluation(log, line, row, sorted(episodes, key=lambda each: each.episode)))
        found[-1]["deterministic"] = row.get("arguments", {}).get("deterministic", spec.evaluation.deterministic)
    return found


def _evaluation(log: EventLog, line: JsonMapping, row: JsonMapping, episodes: list[RecordedEpisode]) -> JsonObject:
    """The columns of one evaluation; it began after the event before its own."""
    metrics = {name: value for name, value in _event(line)["payload"].items() if name not in ("phase", "timesteps")}
    if len(episodes) == metrics["episodes"]:
        metrics["returns"] = [each.reward for each in episodes]
        metrics["lengths"] = [each.length for each in episodes]
    before = [other["ts"] for other in log.lines if other["seq"] < line["seq"]]
    columns = ("episodes", "in_sample", "mean_reward", "std_reward", "mean_length", *_PORTFOLIO)
    return {
        "phase": line["phase"],
        "timesteps": line["timesteps"],
        "seed": row["seed"],
        "checkpoint_sha256": _judged_sha256(log, line, row),
        **{name: metrics.get(name) for name in columns},
        "metrics": metrics,
        "started_at": datetime.fromisoformat(before[-1] if before else line["ts"]),
        "ended_at": datetime.fromisoformat(line["ts"]),
    }


def _judged_sha256(log: EventLog, evaluation: JsonMapping, row: JsonMapping) -> str | None:
    """The checkpoint that an evaluation judged; a validation may come before its step is saved."""
    if row["target"] != "train":
        return row.get("checkpoint_sha256")
    saved = [line for line in _saved(log) if line["timesteps"] == evaluation["timesteps"]]
    early = [line for line in saved if line["seq"] < evaluation["seq"] or evaluation["phase"] == "evaluate"]
    return early[-1]["sha256"] if early else None


def _is_recorded_whole(segments: Iterable[Segment]) -> bool:
    """Whether every step of a training is in the tables."""
    steps = [each.facts for each in segments if (each.facts.kind, each.facts.phase) == ("trajectories", "train")]
    return bool(steps) and sum(facts.rows for facts in steps) == max(facts.timesteps for facts in steps)


def _episodes(train: list[RecordedEpisode], rate: float) -> list[JsonObject]:
    """The rows of training episodes, in the order in which they ended; too many of them as their means."""
    numbered = list(enumerate(sorted(train, key=lambda episode: (episode.timesteps, episode.env_idx))))
    transitions = max((episode.timesteps for episode in train), default=0)
    if len(train) * 1000 <= rate * max(transitions, 1000):
        return [_mean([one]) for one in numbered]
    batches: dict[int, list[tuple[int, RecordedEpisode]]] = defaultdict(list)
    for number, episode in numbered:
        batches[episode.timesteps // 1000].append((number, episode))
    return [_mean(batch) for batch in batches.values()]


def _mean(batch: list[tuple[int, RecordedEpisode]]) -> JsonObject:
    count, episodes = len(batch), [episode for _, episode in batch]
    values = [episode.portfolio_value for episode in episodes if episode.portfolio_value is not None]
    return {
        "phase": "train",
        "episode": batch[0][0],
        "last_episode": batch[-1][0],
        "env_idx": episodes[0].env_idx if count == 1 else None,
        "count": count,
        "timesteps": episodes[-1].timesteps,
        "mean_reward": sum(episode.reward for episode in episodes) / count,
        "portfolio_value": sum(values) / len(values) if values else None,
        "length": sum(episode.length for episode in episodes) / count,
    }


def _parents_first(found: Mapping[str, LostRun]) -> list[str]:
    """Runs in the order of their beginning, but none before the one that it comes from."""
    ordered: dict[str, None] = {}

    def visit(run_id: str) -> None:
        parent = str(found[run_id].row.get("parent_run_id"))
        if parent in found and parent not in ordered and parent != run_id:
            visit(parent)
        ordered[run_id] = None

    for run_id in sorted(found, key=lambda run_id: (found[run_id].row["created_at"], run_id)):
        visit(run_id)
    return list(ordered)
