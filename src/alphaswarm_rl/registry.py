"""Specs, their versions and components by the names that other documents give them, each one call of what does it.

There is no registry in memory: what `persist_spec` stores is in the ledger, and what a spec names is in the catalogue.
Trained models are in `alphaswarm_rl.models`; only `validate_model` is here as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alphaswarm_rl.core.base import list_rl_components
from alphaswarm_rl.core.errors import LedgerError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.spec import RLExperimentSpec, load_spec, load_specs_from_dir

if TYPE_CHECKING:
    from alphaswarm_rl.ledger import SpecRow
    from alphaswarm_rl.settings import Settings

__all__ = [
    "build_from_config",
    "get_rl_spec",
    "list_rl_components",
    "list_rl_specs",
    "load_specs_from_dir",
    "persist_spec",
    "replay_spec_version",
    "validate_model",
]


def persist_spec(spec: RLExperimentSpec, project_id: str = "default", *, settings: Settings | None = None) -> str:
    """The id of the version of this content: the one that is stored, without any write, or a new one.

    Args:
        spec: The spec.
        project_id: Whose it is; a slug is unique within a project.
        settings: Where the ledger is; None reads the environment and the settings file.
    """
    from alphaswarm_rl.ledger import Ledger

    with Ledger.open(settings) as ledger:
        return ledger.persist_spec(spec, project_id=project_id).id


def replay_spec_version(version_id: str, *, settings: Settings | None = None) -> RLExperimentSpec:
    """The spec of a stored version, as it was when it was stored; an unknown id is a LedgerError."""
    from alphaswarm_rl.ledger import Ledger
    from alphaswarm_rl.ledger.specs import spec_of_version

    with Ledger.open(settings) as ledger:
        return spec_of_version(ledger.version(version_id))


def list_rl_specs(*, settings: Settings | None = None) -> list[SpecRow]:
    """The stored specs, by project and slug."""
    from alphaswarm_rl.ledger import Ledger

    with Ledger.open(settings) as ledger:
        return ledger.specs()


def get_rl_spec(name: str, project_id: str = "default", *, settings: Settings | None = None) -> RLExperimentSpec:
    """The newest stored version of the spec with that slug or name; where none is stored, the preset of that name.

    Raises:
        LedgerError: Several stored specs have the name.
        SpecError: There is neither.
    """
    from alphaswarm_rl.ledger import Ledger
    from alphaswarm_rl.ledger.specs import spec_of_version

    with Ledger.open(settings) as ledger:
        stored = ledger.specs(project_id)
        slugs = [row.slug for row in stored if row.slug == name] or [row.slug for row in stored if row.name == name]
        if len(slugs) > 1:
            raise LedgerError(f"the spec {name!r}", f"several have that name: {', '.join(slugs)}", "Give its slug.")
        if slugs:
            return spec_of_version(ledger.versions(slugs[0], project_id=project_id)[-1])
    return load_spec(name)


def validate_model(model_id: int, *, settings: Settings | None = None) -> bool:
    """Puts a model of the registry through its gates, stores what they said, and says whether it passed.

    The gates are those of `gates.profile`; `seed-legacy` is the original formula.
    """
    import os

    from alphaswarm_rl.operations.model_lifecycle import ValidateModel
    from alphaswarm_rl.operations.model_lifecycle import validate_model as validate
    from alphaswarm_rl.options.settings import load_settings

    resolved = load_settings({}, os.environ) if settings is None else settings
    return validate(resolved, ValidateModel(model_id)).passed
