"""The spec: what is run, validated, in one canonical form, with its hashes."""

from alphaswarm_rl.spec.absent import refuse_absent, refuse_verb, waiting_fields
from alphaswarm_rl.spec.diff import diff_specs
from alphaswarm_rl.spec.experiment import RLExperimentSpec
from alphaswarm_rl.spec.files import is_folder, load_spec, load_specs_from_dir
from alphaswarm_rl.spec.slots import refuse_unused_parts

__all__ = [
    "RLExperimentSpec",
    "diff_specs",
    "is_folder",
    "load_spec",
    "load_specs_from_dir",
    "refuse_absent",
    "refuse_unused_parts",
    "refuse_verb",
    "waiting_fields",
]
