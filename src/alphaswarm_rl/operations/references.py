"""What a reference names: a spec (a file or a preset) or a run."""

from __future__ import annotations

import re
from pathlib import Path

from alphaswarm_rl.core.presets import preset_names
from alphaswarm_rl.operations.operation import LazySettings
from alphaswarm_rl.spec import RLExperimentSpec, load_spec

_RUN = re.compile(r"latest|[0-9a-f-]{4,36}", re.IGNORECASE)


def names_a_run(reference: str) -> bool:
    """Whether the text looks like a run; a file, a folder or a preset of that name comes first."""
    if _RUN.fullmatch(reference) is None:
        return False
    return not Path(reference).exists() and reference not in preset_names("experiments")


def pinned_spec(settings: LazySettings, spec: RLExperimentSpec) -> RLExperimentSpec:
    """The spec with the checksum of the weights that it begins with, which is what is hashed of them."""
    if spec.training.init_from is None or spec.training.init_from.is_pinned:
        return spec
    from alphaswarm_rl.inference.initial_weights import pinned

    return pinned(spec, settings())


def spec_of(settings: LazySettings, reference: str) -> RLExperimentSpec:
    """The spec of a file, a preset or a run; a run's is the stored version, whatever the files say today."""
    if not names_a_run(reference):
        return pinned_spec(settings, load_spec(reference))
    from alphaswarm_rl.ledger import Ledger

    with Ledger.open(settings()) as ledger:
        version = ledger.version(ledger.run(reference).version_id)
    return RLExperimentSpec.from_data(version.payload, source=f"stored version {version.id}", stored=True)
