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


def spec_of(settings: LazySettings, reference: str) -> RLExperimentSpec:
    """The spec of a file, a preset or a run; a run's is the stored version, whatever the files say today."""
    if not names_a_run(reference):
        return load_spec(reference)
    from alphaswarm_rl.ledger import Ledger

    with Ledger.open(settings()) as ledger:
        version = ledger.version(ledger.run(reference).version_id)
    return RLExperimentSpec.from_data(version.payload, source=f"stored version {version.id}", stored=True)
