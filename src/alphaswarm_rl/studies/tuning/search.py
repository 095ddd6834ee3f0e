"""The search itself: trial after trial, until there are as many as were asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.options import load_settings
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.studies.tuning.document import TuningDocument
from alphaswarm_rl.studies.tuning.plan import Plan
from alphaswarm_rl.studies.tuning.report import StudyReport, report_of
from alphaswarm_rl.studies.tuning.study import Study, TrialRow, open_study
from alphaswarm_rl.studies.tuning.trial import Surroundings, refuse_if_all_fail, run_trial

#: Failed trials in a row after which a study stops: then it is hardly their parameters.
_MOST_FAILURES = 3


def tune(
    document: Plan | TuningDocument | Mapping[str, Any] | str | Path,
    settings: Settings | None = None,
    *,
    trials: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    frames: Mapping[str, Any] | None = None,
    progress: bool = False,
    told: Callable[[TrialRow], None] | None = None,
) -> StudyReport:
    """Begins a study or goes on with it; every trial is an ordinary run in the ledger.

    Args:
        document: The tuning document, its data or its YAML file; or its plan.
        settings: Where it runs; None reads the environment and the settings file.
        trials: How many trials to add to those that there are; None: as many as the document's number lacks.
        overrides: What flags and environment variables changed of the base spec, stored in the runs' rows.
        frames: Data frames for the data pipeline `frame`, by name.
        progress: Whether a progress bar is shown for each run.
        told: Hears of every trial that ends.
    """
    if trials is not None and trials < 1:
        raise OptionError(f"trials {trials}", "it is not a number of 1 or more", "Leave it out, or give one.")
    plan = plan_of(document)
    settings = load_settings({}, os.environ) if settings is None else settings
    surroundings = Surroundings(settings, dict(overrides or {}), dict(frames or {}), progress)
    errors: list[str] = []
    with open_study(plan, settings) as study:
        made = len(study.made())
        wanted = plan.study.trials if trials is None else made + trials
        while made < wanted:
            result = run_trial(study, surroundings)
            row = study.rows()[-1]
            if told is not None:
                told(row)
            if row.state == "interrupted":
                assert result is not None
                return report_of(study, settings, halted=result.halt_reason)
            errors = [*errors, row.error or ""] if row.state == "failed" else []
            refuse_if_all_fail(errors, _MOST_FAILURES)
            made = len(study.made())
        return report_of(study, settings)


def plan_of(document: Plan | TuningDocument | Mapping[str, Any] | str | Path) -> Plan:
    """The checked plan of a document in any of its forms."""
    if isinstance(document, Plan):
        return document
    if isinstance(document, str | Path):
        document = TuningDocument.from_yaml_path(document)
    elif not isinstance(document, TuningDocument):
        document = TuningDocument.from_data(document)
    return Plan.of(document)


def first_draw(plan: Plan) -> dict[str, Any]:
    """The parameters that the first trial of a new study has."""
    study = Study(plan)
    return study.values_of(study.ask())
