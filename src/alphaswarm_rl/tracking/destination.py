"""Where a run is tracked: the back-end, its address, the experiment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from alphaswarm_rl.core.control_characters import refuse_control_characters
from alphaswarm_rl.core.errors import MissingExtra, TrackingError
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.db.redaction import MASK, redact
from alphaswarm_rl.settings import Settings

BACKENDS = ("local", "tensorboard", "s3", "mlflow", "wandb")
#: Back-ends that write files below the home, and have no address.
FILES = ("local", "tensorboard")

#: Schemes that the back-ends know.
_SCHEMES = {"s3": ("s3",), "mlflow": ("http", "https", "sqlite", "databricks"), "wandb": ("http", "https")}
#: Back-ends whose library an extra of the same name installs.
_EXTRAS = ("tensorboard", "mlflow", "wandb")

_LONGEST_NAME = 128
#: What W&B does not take in the name of a project.
_NOT_IN_PROJECTS = set("/\\#?%:")


#: Environment variables of a tracker's own library; heeded for that tracker alone, after all names of ours.
_VENDORS = {
    "mlflow": {"uri": "MLFLOW_TRACKING_URI", "experiment": "MLFLOW_EXPERIMENT_NAME", "run_name": "MLFLOW_RUN_NAME"},
    "wandb": {"uri": "WANDB_BASE_URL", "experiment": "WANDB_PROJECT", "run_name": "WANDB_RUN_NAME"},
}


@dataclass(frozen=True)
class Destination:
    """Where a run is tracked.

    Attributes:
        backend: Which tracker.
        experiment: What the run belongs to there.
        uri: The tracker's address; None for files, and for W&B's own server.
        s3_endpoint: Address of an S3 server that is not Amazon's.
        s3_region: Region of the bucket.
    """

    backend: str
    experiment: str
    uri: str | None = None
    s3_endpoint: str | None = None
    s3_region: str | None = None

    @property
    def place(self) -> str:
        """Back-end and address for people, without secrets."""
        return self.backend if self.uri is None else f"{self.backend} at {shown(self.uri)}"

    def as_data(self) -> JsonObject:
        """What the journal keeps: everything but secrets."""
        return {**asdict(self), "uri": None if self.uri is None else shown(self.uri)}

    @classmethod
    def of_data(cls, data: JsonMapping) -> Self:
        """The destination that `as_data` described."""
        return cls(**{name: data.get(name) for name in cls.__dataclass_fields__})  # type: ignore[arg-type]


def shown(uri: str) -> str:
    """An address, or a text with one, without secrets; a user without a password may be a token."""
    return re.sub(r"(https?://)[^/@:\s]+@", rf"\1{MASK}@", redact(uri))


def resolve_destination(settings: Settings, *, experiment: str | None, environ: Mapping[str, str]) -> Destination:
    """Where the settings have a run tracked; what cannot be is an error.

    Args:
        settings: The settings; a field that somebody set comes before a vendor's variable, that before its default.
        experiment: The experiment that the spec names.
        environ: The environment variables.
    """
    backend = settings.store.backend
    store, given = settings.store, settings.store.model_fields_set
    name = experiment
    if name is None:
        of_vendor = None if "experiment_name" in given else _vendor_value(settings, "experiment", environ)
        name = of_vendor or store.experiment_name
    _refuse_experiment(backend, name)
    refuse_control_characters("the name of the run", _given_run_name(settings, environ) or "", TrackingError)
    uri: str | None = store.tracking_uri
    if "tracking_uri" not in given:
        uri = _vendor_value(settings, "uri", environ) or (store.tracking_uri if backend == "mlflow" else None)
    if backend in FILES:
        _refuse_address_of_files(backend, uri, default=type(settings.store).model_fields["tracking_uri"].default)
    if backend in _EXTRAS and find_spec(backend) is None:
        raise MissingExtra(
            f"the library {backend!r}", "it is not installed", f"Run: pip install 'alphaswarm-rl[{backend}]'."
        )
    if backend in FILES:
        return Destination(backend, name)
    if backend == "s3":
        refuse_address("s3", uri)
        return Destination("s3", name, uri, settings.lake.s3_endpoint, settings.lake.s3_region)
    if uri is not None:
        refuse_address(backend, uri)
        uri = _from_anywhere(uri)
    return Destination(backend, name, uri)


def _vendor_value(settings: Settings, name: str, environ: Mapping[str, str]) -> str | None:
    """What the variable of the tracker's own library says, where it has one."""
    return environ.get(_VENDORS.get(settings.store.backend, {}).get(name, ""))


def refuse_other(settings: Settings, stored: Destination, requested: Destination, *, named: bool) -> None:
    """Refuses to go on elsewhere with a run that is tracked already.

    Args:
        settings: The settings; only what somebody set counts.
        stored: Where the run is tracked.
        requested: Where the settings would have it tracked.
        named: Whether the spec names the experiment, as it did when the run began.
    """
    given = settings.store.model_fields_set
    before, now = stored.as_data(), requested.as_data()
    checked = [("backend", "backend"), ("tracking_uri", "uri")]
    if not named:
        checked.append(("experiment_name", "experiment"))
    for field, key in checked:
        if field in given and before[key] != now[key]:
            raise TrackingError(
                f"store.{field} {now[key]!r}",
                f"the run is tracked by {stored.place}, experiment {stored.experiment!r}, and goes on there",
                f"Resume it with --{field.replace('_', '-')} {before[key]}.",
            )


def run_name(settings: Settings, algorithm: str, began: datetime, environ: Mapping[str, str]) -> str:
    """What the run is called at its tracker."""
    return _given_run_name(settings, environ) or f"{algorithm}-{began.astimezone(UTC):%Y%m%d-%H%M%S}"


def _given_run_name(settings: Settings, environ: Mapping[str, str]) -> str | None:
    return settings.store.run_name or _vendor_value(settings, "run_name", environ)


def refuse_model_name(name: str) -> None:
    """Refuses what no tracker can register a model under."""
    refuse_control_characters("mlflow.register_model_as", name, TrackingError)
    if not name.strip() or set(name) & set("/:%'\""):
        raise TrackingError(
            f"mlflow.register_model_as {name!r}",
            "a model has a name without / : % and quotes",
            "Choose another, such as cartpole-ppo.",
        )


def _refuse_experiment(backend: str, name: str) -> None:
    what = f"the experiment {name!r}"
    refuse_control_characters("the name of the experiment", name, TrackingError)
    if not name.strip():
        raise TrackingError(what, "it is no name", "Name it by --experiment-name or in the spec: mlflow.experiment.")
    if backend == "wandb" and (len(name) > _LONGEST_NAME or _NOT_IN_PROJECTS & set(name)):
        why = f"W&B takes names of at most {_LONGEST_NAME} characters without / \\ # ? % : for a project"
        raise TrackingError(what, why, "Choose another with --experiment-name.")


def refuse_address(backend: str, uri: str | None) -> None:
    """Refuses what is no address of that back-end."""
    schemes = _SCHEMES[backend]
    example = "s3://bucket/prefix" if backend == "s3" else "http://localhost:5000"
    remedy = f"Give --tracking-uri an address such as {example}."
    if uri is None:
        raise TrackingError(f"the back-end {backend}", "it needs an address, and store.trackingUri has none", remedy)
    what = f"store.trackingUri {shown(uri)!r}"
    try:
        parts = urlsplit(uri)
        _ = parts.port  # a port that is no number is found out here
    except ValueError as error:
        raise TrackingError(what, f"it is no address: {error}", remedy) from error
    if parts.scheme not in schemes and uri not in schemes:
        raise TrackingError(what, f"the back-end {backend} knows {', '.join(schemes)} and no other scheme", remedy)
    if parts.scheme in ("http", "https", "s3") and not parts.hostname:
        raise TrackingError(what, "it names no bucket" if backend == "s3" else "it names no host", remedy)


def _refuse_address_of_files(backend: str, uri: str | None, *, default: str) -> None:
    if uri is not None and uri != default:
        raise TrackingError(
            f"store.trackingUri {shown(uri)!r}",
            f"the back-end {backend} writes plain files below the home and has no address",
            "Choose --backend mlflow, s3 or wandb, or leave the address out.",
        )


def _from_anywhere(uri: str) -> str:
    """The address of an SQLite file as an absolute one: it may be delivered to from another working folder."""
    prefix = "sqlite:///"
    if uri.startswith(prefix) and not uri.startswith(prefix + "/"):
        return f"{prefix}{Path(uri.removeprefix(prefix)).absolute()}"
    return uri
