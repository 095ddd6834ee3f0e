"""Tuning: a search for hyper-parameters whose every trial is an ordinary run."""

from alphaswarm_rl.tuning.document import Parameter, StudySection, TuningDocument
from alphaswarm_rl.tuning.plan import Plan
from alphaswarm_rl.tuning.report import StudyReport, write_best
from alphaswarm_rl.tuning.search import first_draw, tune
from alphaswarm_rl.tuning.study import TrialRow

__all__ = [
    "Parameter",
    "Plan",
    "StudyReport",
    "StudySection",
    "TrialRow",
    "TuningDocument",
    "first_draw",
    "tune",
    "write_best",
]
