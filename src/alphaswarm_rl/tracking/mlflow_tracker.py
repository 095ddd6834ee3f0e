"""A run at an MLflow server."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from alphaswarm_rl.core.errors import require
from alphaswarm_rl.tracking.answering import refuse_silence
from alphaswarm_rl.tracking.destination import Destination
from alphaswarm_rl.tracking.tracker import Artefact, Tracker, Unacceptable

#: The tag by which a run is found again.
RUN_TAG = "rl_run_id"

_STATUS = {"completed": "FINISHED", "failed": "FAILED", "halted": "KILLED", "interrupted": "KILLED"}
#: What MLflow takes in one request.
_MOST_METRICS, _MOST_PARAMS = 1000, 100
_BAD_REQUEST = 400
_NOT_IN_NAMES = re.compile(r"[^\w.\- /:]", re.ASCII)


class MlflowTracker(Tracker):
    """Tells an MLflow server.

    A point is the same point by name, step, time and value, so that MLflow keeps it once; the run is found again by its
    tag, and the version of a model by its run.

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

    def ready(self) -> None:
        """MLflow's client would try for long, and say it in many words."""
        refuse_silence(self._uri, "/health")

    def begin(self, name: str, time: int) -> str | None:
        """Opens the run, or the one that is there again."""
        if self._id is None:
            tags = {RUN_TAG: self._run_id}
            self._client.create_run(self._experiment, start_time=time, tags=tags, run_name=name)
            # A request that seemed to fail and was made again may have made two.
            self._id, *doubles = self._found()
            for double in doubles:
                self._client.delete_run(double)
        else:
            self._client.update_run(self._id, status="RUNNING")
        return self._id

    def params(self, params: Mapping[str, str]) -> None:
        """MLflow takes the same value again, and no other."""
        entities = [self._mlflow.entities.Param(_name(key), value) for key, value in params.items()]
        for some in _batches(entities, _MOST_PARAMS):
            with _accepted("params"):
                self._client.log_batch(self._id, params=some)

    def tags(self, tags: Mapping[str, str]) -> None:
        """Tags of the run."""
        entities = [self._mlflow.entities.RunTag(_name(key), value) for key, value in tags.items()]
        for some in _batches(entities, _MOST_PARAMS):
            with _accepted("tags"):
                self._client.log_batch(self._id, tags=some)

    def metrics(self, number: int, time: int, step: int, values: Mapping[str, float]) -> None:
        """Points, sent by many."""
        metric = self._mlflow.entities.Metric
        self._points += [metric(_name(key), value, time, step) for key, value in values.items()]
        if len(self._points) >= _MOST_METRICS:
            self.flush()

    def artefact(self, artefact: Artefact) -> None:
        """Uploads it."""
        if artefact.text is not None:
            self._client.log_text(self._id, artefact.text, artefact.name)
        elif artefact.files:
            self._client.log_artifacts(self._id, str(artefact.path), artefact.name)

    def model(self, name: str, artefact: str, tags: Mapping[str, str]) -> None:
        """One version of a registered model per run."""
        exception = self._mlflow.exceptions.MlflowException
        with _accepted(f"the model {name}"):
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
        """Ends the run as it ended."""
        self.flush()
        self._client.set_terminated(self._id, _STATUS[status], end_time=time)

    def flush(self) -> None:
        """Sends points that wait."""
        for some in _batches(self._points, _MOST_METRICS):
            self._client.log_batch(self._id, metrics=some)
        self._points = []

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


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


@contextmanager
def _accepted(what: str) -> Iterator[None]:
    """What the server calls a bad request it will never take."""
    exceptions = require("mlflow.exceptions", extra="mlflow")
    try:
        yield
    except exceptions.MlflowException as error:
        if error.get_http_status_code() != _BAD_REQUEST:
            raise
        raise Unacceptable(f"{what}: {error.message}") from error


def _name(name: str) -> str:
    """A name that MLflow takes."""
    return _NOT_IN_NAMES.sub("_", name).strip("/") or "_"
