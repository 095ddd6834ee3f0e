"""The tracking listener: what a tracker shall know of a run goes to the run's journal, and a courier delivers it.

A journal begins with the run's name and destination, its tags, its params and its spec; then come metrics by step, and
at the end the final tags, checkpoints, the registered model and the status. A tracker that is down or slow is no
trouble of the run: what it does not have waits in the journal.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from alphaswarm_rl.core.errors import TrackingError
from alphaswarm_rl.core.hashing import canonical_json
from alphaswarm_rl.core.run_listener import Episode, Event, PolicyEvaluation, RunFacts, RunHandle, RunListener
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.tracking.courier import Courier, courier_of
from alphaswarm_rl.tracking.delivery import destination_of
from alphaswarm_rl.tracking.destination import (
    Destination,
    refuse_model_name,
    refuse_other,
    resolve_destination,
    run_name,
)
from alphaswarm_rl.tracking.journal import Journal, read_state
from alphaswarm_rl.tracking.tracker import manifest_sha256
from alphaswarm_rl.tracking.waiting import Standing, standing

_log = logging.getLogger(__name__)

#: Names of the artefacts.
SPEC, LAST, BEST = "spec.yaml", "checkpoints/last", "checkpoints/best"
#: Tags that a run sets itself, at its beginning and at its end.
_RESERVED_TAGS = frozenset(
    {"rl_run_id", "spec_hash", "exec_hash", "parent_run_id", "target", "seed", "spec", "device"}
    | {"status", "error", "halt_reason", "in_sample", "checkpoint_sha256"}
)
#: How the notice of a run begins whose tracker does not have everything.
_NOTICE = "tracking: "
#: Seconds between two looks at the state of the delivery.
_CHECK_INTERVAL_S = 2.0
#: Characters of an error that a tag holds.
_LONGEST_ERROR = 2000


def journal_folder(settings: Settings) -> Path:
    """Folder of the journals."""
    return settings.tracking_path / "journal"


def destination_for(spec: RLExperimentSpec, settings: Settings) -> Destination:
    """Where runs of the spec are tracked; a destination that cannot be used is an error."""
    if spec.mlflow.register_model_as is not None:
        refuse_model_name(spec.mlflow.register_model_as)
    taken = _RESERVED_TAGS & set(spec.mlflow.tags)
    if taken:
        raise TrackingError(
            f"mlflow.tags of spec {spec.name!r}",
            f"the run sets {', '.join(sorted(taken))} itself",
            "Give yours another name.",
        )
    return resolve_destination(settings, experiment=spec.mlflow.experiment, environ=os.environ)


class TrackingListener(RunListener):
    """Writes the journal of one run.

    Args:
        run: The run.
        spec: What is run.
        settings: Where it is run.
    """

    def __init__(self, run: RunHandle, spec: RLExperimentSpec, settings: Settings) -> None:
        facts = run.facts()
        self._run = run
        self._run_id = facts.id
        self._delivery_seconds = settings.store.delivery_seconds
        self._register_as = spec.mlflow.register_model_as
        self._folder = journal_folder(settings)
        self._rewards: list[float] = []
        self._lengths: list[int] = []
        self._checked_at = time.monotonic()
        self._warned = False
        destination = destination_for(spec, settings)
        stored = destination_of(self._folder, facts.id)
        if stored is not None:
            refuse_other(settings, stored, destination, named=spec.mlflow.experiment is not None)
        self._uri = destination.uri
        self._backend = (stored or destination).backend
        self._tracker_run = facts.mlflow_run_id
        self._journal = Journal(self._folder, facts.id)
        algorithm = "none" if spec.agent is None else spec.agent.name
        name = run_name(settings, algorithm, facts.created_at, os.environ)
        self._journal.append("begin", name=name, destination=(stored or destination).as_data())
        self._journal.append("tags", tags=_tags_of(facts, spec))
        if spec.mlflow.tags:
            # Apart: should the tracker refuse one of them, it has ours all the same.
            self._journal.append("tags", tags=dict(spec.mlflow.tags))
        self._journal.append("params", params=_params_of(spec))
        self._journal.append("artefact", name=SPEC, text=spec.to_yaml())
        self._courier = self._start_courier()

    def on_event(self, event: Event) -> None:
        """Of the events, the figures that a training emits at its log interval."""
        if event.stage == "train.step":
            payload = event.payload
            values = {
                **self._take_episode_means(),
                "episode/finished": payload["episodes"],
                "episode/reward_last_100": payload["mean_reward"],
                "steps_per_second": payload["steps_per_second"],
                **payload["metrics"],
            }
            self._append_metrics(payload["timesteps"], values)
        self._check_delivery()

    def on_episodes(self, episodes: Sequence[Episode]) -> None:
        """Their means are written at the next log interval."""
        self._rewards += [episode.reward for episode in episodes]
        self._lengths += [episode.length for episode in episodes]

    def on_evaluation(self, evaluated: PolicyEvaluation) -> None:
        """Metrics of an evaluation, by phase."""
        self._append_metrics(evaluated.timesteps, _prefixed(evaluated.phase, evaluated.evaluation.metrics))

    def on_end(self, run: RunFacts) -> None:
        """Final tags, checkpoints, model and status; then waits for the courier, but not for long."""
        final_metrics = _prefixed("final", run.result_summary or {})
        self._append_metrics(run.timesteps, {**self._take_episode_means(), **final_metrics})
        # A tag cannot be taken back: what an earlier end left is made empty.
        blank = "" if run.resumed else None
        tags = {
            "status": run.status,
            "error": blank if run.error is None else run.error[:_LONGEST_ERROR],
            "halt_reason": blank if run.halt_reason is None else run.halt_reason,
            "in_sample": run.in_sample,
            "checkpoint_sha256": run.checkpoint_sha256,
        }
        self._journal.append("tags", tags=_texts(tags))
        if run.target == "train":
            self._append_checkpoints(run)
        self._journal.append("end", status=run.status)
        self._finish_courier(self._delivery_seconds)
        found = standing(self._folder, run.id)
        current = self._run.facts()
        if self._journal.problem is not None or found is None:
            notice = f"{_NOTICE}the journal cannot be written: {self._journal.problem}"
            columns = _changed_notices(current, notice)
        else:
            columns = delivery_columns(current, found)
        if columns:
            self._run.update(**columns)

    def close(self) -> None:
        """Closes the journal; a run that did not end leaves the rest to `rl store sync`."""
        self._finish_courier(0.0)
        try:
            self._journal.close()
        except OSError as error:
            _log.warning("run %s: its journal may not be on disk: %s", self._run_id, error)

    def _start_courier(self) -> Courier | None:
        try:
            return courier_of(self._folder, self._run_id, self._uri)
        except OSError as error:
            # What is in the journal can be delivered later.
            _log.warning("run %s: nothing is delivered to its tracker for now: %s", self._run_id, error)
            return None

    def _finish_courier(self, seconds: float) -> None:
        courier, self._courier = self._courier, None
        if courier is not None:
            try:
                courier.finish(seconds)
            except OSError as error:
                _log.warning("run %s: nothing more is delivered to its tracker: %s", self._run_id, error)

    def _append_metrics(self, step: int, values: Mapping[str, object]) -> None:
        numbers = {
            name: float(value)
            for name, value in values.items()
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        }
        if numbers:
            self._journal.append("metrics", step=step, metrics=numbers)

    def _take_episode_means(self) -> dict[str, float]:
        count = len(self._rewards)
        if not count:
            return {}
        means = {"episode/reward": sum(self._rewards) / count, "episode/length": sum(self._lengths) / count}
        self._rewards, self._lengths = [], []
        return means

    def _append_checkpoints(self, run: RunFacts) -> None:
        paths = {LAST: run.checkpoint, BEST: run.best_checkpoint}
        folders = {name: Path(path) for name, path in paths.items() if path is not None}
        for name, folder in folders.items():
            self._journal.append("artefact", name=name, path=str(folder), sha256=manifest_sha256(folder))
        if self._register_as is None or run.status != "completed" or not folders:
            return
        name = BEST if BEST in folders else LAST
        tags = _texts({"rl_run_id": run.id, "spec_hash": run.spec_hash, "sha256": manifest_sha256(folders[name])})
        self._journal.append("model", name=self._register_as, artefact=name, tags=tags)

    def _check_delivery(self) -> None:
        """Looks now and then at what the courier found out while the run goes on."""
        if time.monotonic() - self._checked_at < _CHECK_INTERVAL_S:
            return
        self._checked_at = time.monotonic()
        self._journal.write()  # where the disk refused before
        state = read_state(self._folder, self._run_id)
        problem = self._journal.problem or state.problem
        if problem is not None and not self._warned:
            self._warned = True
            _log.warning("run %s: its tracker is not told for now: %s", self._run_id, problem)
        if self._backend == "mlflow" and state.tracker_run not in (None, self._tracker_run):
            self._tracker_run = state.tracker_run
            self._run.update(mlflow_run_id=self._tracker_run)


def delivery_columns(run: RunFacts, found: Standing) -> JsonObject:
    """The columns of a run's row that change by how its delivery stands.

    A notice while something is not delivered, and MLflow's id of the run.

    Args:
        run: The run.
        found: How its journal stands.
    """
    columns: JsonObject = {}
    if found.backend == "mlflow" and found.tracker_run not in (None, run.mlflow_run_id):
        columns["mlflow_run_id"] = found.tracker_run
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
    return {**columns, **_changed_notices(run, notice)}


def _changed_notices(run: RunFacts, notice: str | None) -> JsonObject:
    """The run's notices with this one about tracking instead of an earlier one; nothing where they stay the same."""
    known = list(run.notices or [])
    unrelated = [text for text in known if not text.startswith(_NOTICE)]
    notices = unrelated if notice is None else [*unrelated, notice]
    return {} if notices == known else {"notices": notices}


def _tags_of(run: RunFacts, spec: RLExperimentSpec) -> dict[str, str]:
    """What a run can be found by."""
    columns = ("spec_hash", "exec_hash", "parent_run_id", "target", "seed", "device")
    return _texts({"rl_run_id": run.id, "spec": spec.slug, **{name: getattr(run, name) for name in columns}})


def _params_of(spec: RLExperimentSpec) -> dict[str, str]:
    """Every field of the agent and the training, flattened."""
    data = spec.as_data()
    return {name: text for part in ("agent", "training") for name, text in _flattened(part, data[part])}


def _flattened(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flattened(f"{name}.{key}", item)
    else:
        yield name, _text(value)


def _texts(items: Mapping[str, object]) -> dict[str, str]:
    """Values as canonical texts; None is left out."""
    return {name: _text(value) for name, value in items.items() if value is not None}


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def _prefixed(prefix: str, values: Mapping[str, object]) -> dict[str, object]:
    return {f"{prefix}/{name}": value for name, value in values.items()}
