"""Tuning: a search for hyper-parameters whose every trial is an ordinary run."""

from alphaswarm_rl.studies.tuning.document import Parameter, TuningDocument
from alphaswarm_rl.studies.tuning.plan import Plan
from alphaswarm_rl.studies.tuning.report import StudyReport, write_best
from alphaswarm_rl.studies.tuning.search import first_draw, tune
from alphaswarm_rl.studies.tuning.study import TrialRow

__all__ = [
    "Parameter",
    "Plan",
    "StudyReport",
    "TrialRow",
    "TuningDocument",
    "first_draw",
    "tune",
    "write_best",
]
