"""The tracking listener: what a tracker shall know of a run goes to the run's journal, and a courier delivers it.

A journal begins with the run's name and destination, its tags, its params and its spec; then come metrics by step and
the episodes between them, and at the end (`tracking.run_end`) the final tags, checkpoints, the registered model and the
status. A run that is resumed drops the points beyond its checkpoint (`tracking.points`). A tracker that is down or slow
is no trouble of the run: what it does not have waits in the journal.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from alphaswarm_rl.core.errors import TrackingError
from alphaswarm_rl.core.run_listener import (
    Episode,
    Event,
    PolicyEvaluation,
    Resumption,
    RunFacts,
    RunHandle,
    RunListener,
)
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
from alphaswarm_rl.tracking.journal import Journal, operations, read_state
from alphaswarm_rl.tracking.points import RATE, EpisodeSums, finite, missing_evaluations, pending_episodes, prefixed
from alphaswarm_rl.tracking.run_end import append_end, text, texts
from alphaswarm_rl.tracking.waiting import Standing, standing

_log = logging.getLogger(__name__)

#: Name of the artefact.
SPEC = "spec.yaml"
#: Tags that a run sets itself, at its beginning and at its end.
_RESERVED_TAGS = frozenset(
    {"rl_run_id", "spec_hash", "exec_hash", "parent_run_id", "target", "seed", "spec", "device"}
    | {"status", "error", "halt_reason", "in_sample", "checkpoint_sha256"}
)
#: How the notice of a run begins whose tracker does not have everything.
_NOTICE = "tracking: "
#: Seconds between two looks at the state of the delivery.
_CHECK_INTERVAL_S = 2.0
#: Reasons of train.step events that are points: a run that was killed has the same as an undisturbed one.
_POINTS = ("interval", "end")


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
        self._episodes = EpisodeSums()
        self._checked_at = time.monotonic()
        self._warned = False
        destination = destination_for(spec, settings)
        stored = destination_of(self._folder, facts.id)
        if stored is not None:
            refuse_other(settings, stored, destination, named=spec.mlflow.experiment is not None)
        self._uri = destination.uri
        self._backend = (stored or destination).backend
        self._tracker_run = facts.mlflow_run_id
        self._journal = Journal(self._folder, facts.id, run.claim)
        if run.claim.number > 1:
            self._take_over_journal()
        algorithm = "none" if spec.agent is None else spec.agent.label
        name = run_name(settings, algorithm, facts.created_at, os.environ)
        where = (stored or destination).as_data()
        self._journal.append("begin", name=name, destination=where, claim=run.claim.number)
        self._journal.append("tags", tags=_tags_of(facts, spec))
        if spec.mlflow.tags:
            # Apart: should the tracker refuse one of them, it has ours all the same.
            self._journal.append("tags", tags=dict(spec.mlflow.tags))
        self._journal.append("params", params=_params_of(spec))
        self._journal.append("artefact", name=SPEC, text=spec.to_yaml())
        self._courier = self._start_courier()

    def on_event(self, event: Event) -> None:
        """Of the events, the figures of log intervals and of the end: others are emitted by the clock."""
        payload = event.payload
        if event.stage == "train.step" and payload["reason"] in _POINTS:
            values = {
                **self._episodes.means,
                "episode/finished": payload["episodes"],
                "episode/reward_last_100": payload["mean_reward"],
                RATE: payload["steps_per_second"],
                **payload["metrics"],
            }
            self._episodes = EpisodeSums()
            self._append_metrics(payload["timesteps"], values)
        self._check_delivery()

    def on_resumed(self, resumption: Resumption) -> None:
        """Drops the points beyond the checkpoint, and says what the process before could not say any more."""
        done = resumption.timesteps
        self._journal.append("drop", step=done, evaluated_too=resumption.evaluated_too)
        history = [operation for operation, _ in operations(self._journal.path)]
        self._episodes = pending_episodes(history)
        for lacking in missing_evaluations(history, resumption.evaluations):
            self._append_metrics(lacking.timesteps, prefixed(lacking.phase, lacking.metrics))

    def on_episodes(self, episodes: Sequence[Episode]) -> None:
        """Their means are a point at the next log interval; a process that resumes the run before that needs them."""
        sums = EpisodeSums(
            sum(episode.count for episode in episodes),
            sum(episode.reward * episode.count for episode in episodes),
            sum(episode.length * episode.count for episode in episodes),
        )
        self._episodes += sums
        self._journal.append("episodes", step=episodes[-1].timesteps, **sums.as_data())

    def on_evaluation(self, evaluated: PolicyEvaluation) -> None:
        """Metrics of an evaluation, by phase."""
        self._append_metrics(evaluated.timesteps, prefixed(evaluated.phase, evaluated.evaluation.metrics))

    def on_end(self, run: RunFacts) -> None:
        """Final metrics, tags, checkpoints, model and status; then waits for the courier, but not for long."""
        append_end(self._journal, run, self._episodes, register_as=self._register_as)
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

    def _take_over_journal(self) -> None:
        try:
            self._journal.take_over()
        except OSError as error:
            # Every record tries again to open it.
            _log.warning("run %s: its journal cannot be taken over for now: %s", self._run_id, error)

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
        numbers = finite(values)
        if numbers:
            self._journal.append("metrics", step=step, metrics=numbers)

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
    return texts({"rl_run_id": run.id, "spec": spec.slug, **{name: getattr(run, name) for name in columns}})


def _params_of(spec: RLExperimentSpec) -> dict[str, str]:
    """Every field of the agent and the training, flattened."""
    data = spec.as_data()
    return {name: text for part in ("agent", "training") for name, text in _flattened(part, data[part])}


def _flattened(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flattened(f"{name}.{key}", item)
    else:
        yield name, text(value)
