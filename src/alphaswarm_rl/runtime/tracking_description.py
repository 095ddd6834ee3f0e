"""Where a run is tracked, and what a tracker is told of it as it begins: tags and params."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from alphaswarm_rl.core.errors import TrackingError
from alphaswarm_rl.core.hashing import canonical_json
from alphaswarm_rl.ledger import RunRow
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.tracking.destination import Destination, refuse_model_name, wanted

#: Tags that a run sets itself, at its beginning and at its end.
_OWN = frozenset(
    {"rl_run_id", "spec_hash", "exec_hash", "parent_run_id", "target", "seed", "spec", "device"}
    | {"status", "error", "halt_reason", "in_sample", "checkpoint_sha256"}
)


def destination_for(spec: RLExperimentSpec, settings: Settings) -> Destination:
    """Where runs of the spec are tracked; what no tracker can be had with is an error."""
    if spec.mlflow.register_model_as is not None:
        refuse_model_name(spec.mlflow.register_model_as)
    taken = _OWN & set(spec.mlflow.tags)
    if taken:
        raise TrackingError(
            f"mlflow.tags of spec {spec.name!r}",
            f"the run sets {', '.join(sorted(taken))} itself",
            "Give yours another name.",
        )
    return wanted(settings, experiment=spec.mlflow.experiment, environ=os.environ)


def tags_of(run: RunRow, spec: RLExperimentSpec) -> dict[str, str]:
    """What a run can be found by."""
    own = {
        "rl_run_id": run.id,
        "spec_hash": run.spec_hash,
        "exec_hash": run.exec_hash,
        "parent_run_id": run.parent_run_id,
        "target": run.target,
        "seed": run.seed,
        "spec": spec.slug,
        "device": run.device,
    }
    return texts(own)


def params_of(spec: RLExperimentSpec) -> dict[str, str]:
    """What a run was asked for: every field of the agent and the training, flattened."""
    data = spec.as_data()
    return dict(_flat("agent", data["agent"])) | dict(_flat("training", data["training"]))


def _flat(name: str, value: Any) -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flat(f"{name}.{key}", item)
    else:
        yield name, value if isinstance(value, str) else canonical_json(value)


def texts(items: Mapping[str, Any]) -> dict[str, str]:
    """Values as canonical texts; what is not there is left out."""
    there = {name: value for name, value in items.items() if value is not None}
    return {name: value if isinstance(value, str) else canonical_json(value) for name, value in there.items()}
