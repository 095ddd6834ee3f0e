"""A run at an MLflow server."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

from alphaswarm_rl.core.errors import require
from alphaswarm_rl.tracking.answering import refuse_silence
from alphaswarm_rl.tracking.destination import Destination
from alphaswarm_rl.tracking.journal import Operation
from alphaswarm_rl.tracking.points import RATE
from alphaswarm_rl.tracking.tracker import Artefact, Outdated, Tracker, Unacceptable

#: The tag by which a run is found again.
RUN_TAG = "rl_run_id"

_STATUS = {"completed": "FINISHED", "failed": "FAILED", "halted": "KILLED", "interrupted": "KILLED"}
#: The tag that holds the text which people write about a run.
_NOTE = "mlflow.note.content"
#: What MLflow takes in one request.
_MOST_METRICS, _MOST_PARAMS = 1000, 100
_BAD_REQUEST = 400
#: Characters of a name that a reason shows.
_SHOWN = 60
_NOT_IN_NAMES = re.compile(r"[^\w.\- /:]", re.ASCII)


class Entity(Protocol):
    """A metric, a parameter or a tag, as a request to MLflow has it."""

    key: str


class MlflowTracker(Tracker):
    """Writes a run to an MLflow server.

    A point is the same point by name, step, time and value, so that MLflow keeps it once; the run is found again by its
    tag, and the version of a model by its run. MLflow deletes no points: one that a resumed run makes again is
    recognised by name and step and not sent again. Where it has another value by then, or is not made again at all, the
    run is deleted at the server and made anew, with the tags that people gave it.

    Args:
        destination: The server and the experiment.
        run_id: The run.
    """

    def __init__(self, destination: Destination, run_id: str) -> None:
        assert destination.uri is not None
        self._uri = destination.uri
        self.ready()
        self._mlflow = require("mlflow", extra="mlflow")
        self._client: Any = self._mlflow.MlflowClient(tracking_uri=destination.uri, registry_uri=destination.uri)
        self._run_id = run_id
        self._experiment = self._experiment_id(destination.experiment)
        found = self._found()
        self.knows = bool(found)
        self._id: str | None = found[0] if found else None
        self._points: list[Any] = []
        #: Points that count no more, by name and step: the run makes them again.
        self._early: dict[tuple[str, int], float] = {}
        #: Tags that people gave a run which is made anew.
        self._foreign_tags: dict[str, str] = {}
        #: Names of metrics that the server does not take, with the reason.
        self._refused: dict[str, str] = {}

    def ready(self) -> None:
        """Raises `Silent` at once where the server does not answer: MLflow's client would retry for minutes."""
        refuse_silence(self._uri, "/health")

    def begin(self, name: str, time: int) -> str | None:
        """Creates the run at the server, or reopens the one that an earlier delivery created."""
        if self._id is None:
            tags = {**self._foreign_tags, RUN_TAG: self._run_id}
            self._client.create_run(self._experiment, start_time=time, tags=tags, run_name=name)
            # A request that seemed to fail and was made again may have made two.
            self._id, *doubles = self._found()
            for double in doubles:
                self._client.delete_run(double)
        else:
            self._client.update_run(self._id, status="RUNNING")
        return self._id

    def params(self, params: Mapping[str, str]) -> None:
        """Parameters of the run; MLflow refuses another value for one that is set."""
        entities = [self._mlflow.entities.Param(_name(key), value) for key, value in params.items()]
        self._send_all("params", entities)

    def tags(self, tags: Mapping[str, str]) -> None:
        """Tags of the run, as `tracking.listener` chooses them."""
        entities = [self._mlflow.entities.RunTag(_name(key), value) for key, value in tags.items()]
        self._send_all("tags", entities)

    def metrics(self, number: int, time: int, step: int, values: Mapping[str, float]) -> None:
        """Collects metrics, which `flush` sends in batches."""
        metric = self._mlflow.entities.Metric
        for key, value in values.items():
            early = self._early.pop((_name(key), step), None)
            if early is None:
                self._points.append(metric(_name(key), value, time, step))
            elif early != value and key != RATE:
                self._delete_run()
        if len(self._points) >= _MOST_METRICS:
            self._send_points()

    def drop(self, gone: Sequence[Operation], kept: Sequence[Operation]) -> None:
        """Looks up which of the points that count no more are at the server."""
        keys = _keys(gone) - _keys(kept)
        self._early = {}
        for name in {name for name, _ in keys} if self._id is not None else ():
            for point in self._client.get_metric_history(self._id, name):
                if (name, point.step) in keys:
                    self._early[name, point.step] = point.value

    def artefact(self, artefact: Artefact) -> None:
        """Uploads an artefact."""
        with self._accepted(f"the artefact {artefact.name}"):
            if artefact.text is not None:
                self._client.log_text(self._id, artefact.text, artefact.name)
            elif artefact.files:
                self._client.log_artifacts(self._id, str(artefact.path), artefact.name)

    def model(self, name: str, artefact: str, tags: Mapping[str, str]) -> None:
        """One version of a registered model per run."""
        exception = self._mlflow.exceptions.MlflowException
        with self._accepted(f"the model {name}"):
            try:
                self._client.create_registered_model(name)
            except exception as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
            if self._versions(name):
                return
            source = f"{self._client.get_run(self._id).info.artifact_uri}/{artefact}"
            self._client.create_model_version(name, source, run_id=self._id, tags=dict(tags), await_creation_for=None)
            for double in self._versions(name)[1:]:
                self._client.delete_model_version(name, double)

    def end(self, status: str, time: int) -> None:
        """Closes the run with the status that it ended with."""
        if self._early:
            self._delete_run()
        self._send_points()
        with self._accepted("the end"):
            self._client.set_terminated(self._id, _STATUS[status], end_time=time)

    def flush(self) -> list[str]:
        """Sends points that wait; gives the metrics that the server will never take."""
        self._send_points()
        refused, self._refused = self._refused, {}
        return [f"the metric {_shown(name)}: {reason}" for name, reason in refused.items()]

    def _send_points(self) -> None:
        for some in _batches(self._points, _MOST_METRICS):
            self._refused |= self._send("metrics", some)
        self._points = []

    def _send_all(self, kind: str, entities: Sequence[Entity]) -> None:
        """Params or tags; those that the server will never take are `Unacceptable`, and it has the others."""
        refused: dict[str, str] = {}
        for some in _batches(entities, _MOST_PARAMS):
            refused |= self._send(kind, some)
        if refused:
            reasons = (f"{_shown(name)}: {reason}" for name, reason in refused.items())
            raise Unacceptable(f"{kind}: {'; '.join(reasons)}")

    def _send(self, kind: str, entities: Sequence[Entity]) -> dict[str, str]:
        """Sends them together, and apart where that is a bad request; gives names that are never taken, and why."""
        try:
            with self._accepted(kind):
                self._client.log_batch(self._id, **{kind: entities})
        except Unacceptable as error:
            if len(entities) == 1:
                return {entities[0].key: str(error).removeprefix(f"{kind}: ")}
        else:
            return {}
        refused: dict[str, str] = {}
        for some in _apart(entities):
            refused |= self._send(kind, some)
        return refused

    @contextmanager
    def _accepted(self, what: str) -> Iterator[None]:
        """What the server calls a bad request it will never take."""
        requests = require("requests.exceptions", extra="mlflow")  # what uploads fail with
        try:
            yield
        except (self._mlflow.exceptions.MlflowException, requests.HTTPError) as error:
            # A run that was deleted meanwhile takes nothing at all; the tracker that is opened next makes it anew.
            if _status_code(error) != _BAD_REQUEST or not self._is_active():
                raise
            raise Unacceptable(f"{what}: {error}") from error

    def _is_active(self) -> bool:
        return bool(self._client.get_run(self._id).info.lifecycle_stage == "active")

    def _experiment_id(self, name: str) -> str:
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            try:
                return str(self._client.create_experiment(name))
            except self._mlflow.exceptions.MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                experiment = self._client.get_experiment_by_name(name)  # somebody else made it meanwhile
        if experiment.lifecycle_stage != "active":
            raise RuntimeError(f"the experiment {name!r} was deleted at the server; restore it, or choose another name")
        return str(experiment.experiment_id)

    def _delete_run(self) -> NoReturn:
        """Deletes the run at the server, but for what people wrote about it; the next `begin` makes it anew."""
        tags = self._client.get_run(self._id).data.tags
        # The journal says all other tags again.
        self._foreign_tags = {key: tags[key] for key in tags if key == _NOTE or not key.startswith("mlflow.")}
        self._client.delete_run(self._id)
        self._id, self._points, self._early, self._refused = None, [], {}, {}
        raise Outdated

    def _found(self) -> Sequence[str]:
        """MLflow's runs of our run, the oldest first: one, but for moments."""
        runs = self._client.search_runs(
            [self._experiment],
            filter_string=f"tags.{RUN_TAG} = '{self._run_id}'",
            order_by=["attributes.start_time ASC", "attributes.run_id ASC"],
        )
        return [run.info.run_id for run in runs]

    def _versions(self, name: str) -> Sequence[str]:
        """Versions of a model that this run made, the oldest first."""
        found = self._client.search_model_versions(f"run_id = '{self._id}'")
        return sorted((version.version for version in found if version.name == name), key=int)


def _batches(items: Sequence[Entity], size: int) -> Iterator[Sequence[Entity]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _apart(entities: Sequence[Entity]) -> Iterable[Sequence[Entity]]:
    """By name, for most often that is what is wrong; one by one where they have the same."""
    by_name: dict[str, list[Entity]] = {}
    for entity in entities:
        by_name.setdefault(entity.key, []).append(entity)
    return by_name.values() if len(by_name) > 1 else [[entity] for entity in entities]


def _keys(points: Iterable[Operation]) -> set[tuple[str, int]]:
    return {(_name(name), point.data["step"]) for point in points for name in point.data.get("metrics", ())}


def _status_code(error: Exception) -> int | None:
    """What a server answered, by an error of MLflow or of requests."""
    if hasattr(error, "get_http_status_code"):
        return int(error.get_http_status_code())
    response = getattr(error, "response", None)
    return None if response is None else int(response.status_code)


def _shown(name: str) -> str:
    return name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."


def _name(name: str) -> str:
    """A name that MLflow takes."""
    return _NOT_IN_NAMES.sub("_", name).strip("/") or "_"
