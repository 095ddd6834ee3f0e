"""Tells a tracker of a run: everything goes to the run's journal, and a courier delivers it from there."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.recording.episodes import Episode
from alphaswarm_rl.runtime.events import Event
from alphaswarm_rl.runtime.observers import Judged, RunObserver, Watched
from alphaswarm_rl.runtime.tracking_description import destination_for, params_of, tags_of, texts
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.tracking.courier import Courier, courier_of
from alphaswarm_rl.tracking.delivery import destination_of
from alphaswarm_rl.tracking.destination import refuse_other, run_name
from alphaswarm_rl.tracking.journal import Journal, read_state
from alphaswarm_rl.tracking.tracker import manifest_sha256
from alphaswarm_rl.tracking.waiting import Standing, standing

_log = logging.getLogger(__name__)

#: Names of the artefacts.
SPEC, LAST, BEST = "spec.yaml", "checkpoints/last", "checkpoints/best"
#: How the notice of a run begins whose tracker does not have everything.
_NOTICE = "tracking: "
#: Seconds between two looks at how the delivery stands.
_LOOK_S = 2.0
#: Characters of an error that a tag holds.
_LONGEST_ERROR = 2000


def journal_folder(settings: Settings) -> Path:
    """Folder of the journals."""
    return settings.tracking_path / "journal"


class TrackingObserver(RunObserver):
    """Writes down what a tracker shall know of a run. A tracker that is down or slow is none of the run's trouble.

    Args:
        watched: The run.
    """

    def __init__(self, watched: Watched) -> None:
        run, spec, settings = watched.run, watched.spec, watched.settings
        self._run = run
        self._ledger = watched.ledger
        self._patience = settings.store.delivery_seconds
        self._register_as = spec.mlflow.register_model_as
        self._folder = journal_folder(settings)
        self._rewards: list[float] = []
        self._lengths: list[int] = []
        self._looked = time.monotonic()
        self._warned = False
        destination = destination_for(spec, settings)
        stored = destination_of(self._folder, run.id)
        if stored is not None:
            refuse_other(settings, stored, destination, named=spec.mlflow.experiment is not None)
        self._uri = destination.uri
        self._backend = (stored or destination).backend
        self._known_id = run.mlflow_run_id
        self._journal = Journal(self._folder, run.id)
        algorithm = "none" if spec.agent is None else spec.agent.name
        name = run_name(settings, algorithm, run.created_at, os.environ)
        self._journal.append("begin", name=name, destination=(stored or destination).as_data())
        self._journal.append("tags", tags=tags_of(run, spec))
        if spec.mlflow.tags:
            # Apart: should the tracker not like one of them, it has ours all the same.
            self._journal.append("tags", tags=dict(spec.mlflow.tags))
        self._journal.append("params", params=params_of(spec))
        self._journal.append("artefact", name=SPEC, text=spec.to_yaml())
        self._courier = self._send()

    def event(self, event: Event) -> None:
        """Of the events, what the training says at its log interval."""
        if event.stage == "train.step":
            payload = event.payload
            values = {
                **self._ended_episodes(),
                "episode/finished": payload["episodes"],
                "episode/reward_last_100": payload["mean_reward"],
                "steps_per_second": payload["steps_per_second"],
                **payload["metrics"],
            }
            self._metrics(payload["timesteps"], values)
        self._look()

    def episodes(self, episodes: Sequence[Episode]) -> None:
        """Their means are told at the next log interval."""
        self._rewards += [episode.reward for episode in episodes]
        self._lengths += [episode.length for episode in episodes]

    def judged(self, judged: Judged) -> None:
        """Its metrics, by phase."""
        metrics = judged.evaluation.metrics
        self._metrics(judged.timesteps, {f"{judged.phase}/{name}": value for name, value in metrics.items()})

    def ended(self, run: RunRow) -> None:
        """How it ended, its checkpoints, its model; then waits for the courier, but not for long."""
        summary = run.result_summary or {}
        self._metrics(run.timesteps, {**self._ended_episodes(), **_named("final", summary)})
        # A tag cannot be taken back: what an earlier end left is made empty.
        nothing = "" if run.resumed else None
        final = {
            "status": run.status,
            "error": nothing if run.error is None else run.error[:_LONGEST_ERROR],
            "halt_reason": nothing if run.halt_reason is None else run.halt_reason,
            "in_sample": run.in_sample,
            "checkpoint_sha256": run.checkpoint_sha256,
        }
        self._journal.append("tags", tags=texts(final))
        if run.target == "train":
            self._checkpoints(run)
        self._journal.append("end", status=run.status)
        self._finish(self._patience)
        found = standing(self._folder, run.id)
        if self._journal.problem is not None or found is None:
            _say(self._ledger, run.id, f"{_NOTICE}the journal cannot be written: {self._journal.problem}")
        else:
            account(self._ledger, found)

    def close(self) -> None:
        """Gives the journal back; a run that did not end leaves the rest to `rl store sync`."""
        self._finish(0.0)
        try:
            self._journal.close()
        except OSError as error:
            _log.warning("run %s: its journal may not be on disk: %s", self._run.id, error)

    def _send(self) -> Courier | None:
        try:
            return courier_of(self._folder, self._run.id, self._uri)
        except OSError as error:
            # What is in the journal can be delivered later.
            _log.warning("run %s: nothing is delivered to its tracker for now: %s", self._run.id, error)
            return None

    def _finish(self, seconds: float) -> None:
        courier, self._courier = self._courier, None
        if courier is not None:
            try:
                courier.finish(seconds)
            except OSError as error:
                _log.warning("run %s: nothing more is delivered to its tracker: %s", self._run.id, error)

    def _metrics(self, step: int, values: Mapping[str, Any]) -> None:
        numbers = {name: float(value) for name, value in values.items() if _is_number(value)}
        if numbers:
            self._journal.append("metrics", step=step, metrics=numbers)

    def _ended_episodes(self) -> dict[str, float]:
        count = len(self._rewards)
        if not count:
            return {}
        means = {"episode/reward": sum(self._rewards) / count, "episode/length": sum(self._lengths) / count}
        self._rewards, self._lengths = [], []
        return means

    def _checkpoints(self, run: RunRow) -> None:
        there = {LAST: run.checkpoint, BEST: run.best_checkpoint}
        folders = {name: Path(path) for name, path in there.items() if path is not None}
        for name, folder in folders.items():
            self._journal.append("artefact", name=name, path=str(folder), sha256=manifest_sha256(folder))
        if self._register_as is None or run.status != "completed" or not folders:
            return
        name = BEST if BEST in folders else LAST
        tags = texts({"rl_run_id": run.id, "spec_hash": run.spec_hash, "sha256": manifest_sha256(folders[name])})
        self._journal.append("model", name=self._register_as, artefact=name, tags=tags)

    def _look(self) -> None:
        """Now and then: what the courier found out while the run goes on."""
        if time.monotonic() - self._looked < _LOOK_S:
            return
        self._looked = time.monotonic()
        self._journal.write()  # where the disk refused before
        state = read_state(self._folder, self._run.id)
        problem = self._journal.problem or state.problem
        if problem is not None and not self._warned:
            self._warned = True
            _log.warning("run %s: its tracker is not told for now: %s", self._run.id, problem)
        if self._backend == "mlflow" and state.tracker_run not in (None, self._known_id):
            self._known_id = state.tracker_run
            self._ledger.update_run(self._run.id, mlflow_run_id=self._known_id)


def account(ledger: Ledger, found: Standing) -> None:
    """Tells the run's row how its tracking stands: a notice while something is not delivered, MLflow's id of it."""
    run = ledger.run(found.run_id)
    if found.backend == "mlflow" and found.tracker_run not in (None, run.mlflow_run_id):
        ledger.update_run(run.id, mlflow_run_id=found.tracker_run)
    problems = []
    if found.waiting:
        why = found.problem or "the delivery is not done"
        problems.append(f"{found.waiting} records are not at {found.place}: {why}")
    if found.set_aside:
        problems.append(f"{found.place} does not take: {'; '.join(found.set_aside)}")
    notice = None
    if problems:
        notice = f"{_NOTICE}{'; '.join(problems)}"
        if found.waiting:
            notice += f". They are kept; deliver them with: rl store sync {found.run_id}"
        _log.warning("run %s: %s", found.run_id, notice.removeprefix(_NOTICE))
    _say(ledger, found.run_id, notice)


def _say(ledger: Ledger, run_id: str, notice: str | None) -> None:
    known = ledger.run(run_id).notices or []
    others = [note for note in known if not note.startswith(_NOTICE)]
    notices = others if notice is None else [*others, notice]
    if notices != known:
        ledger.update_run(run_id, notices=notices)


def _named(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}/{name}": value for name, value in values.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
