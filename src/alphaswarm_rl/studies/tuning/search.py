"""The search: trial after trial, each an ordinary run of the base spec with other parameters."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from alphaswarm_rl.core.errors import AlphaSwarmError, OptionError
from alphaswarm_rl.core.run_listener import Event
from alphaswarm_rl.core.study_context import StudyContext, StudyRun
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.ledger.runs import PRUNED
from alphaswarm_rl.options.settings import load_settings
from alphaswarm_rl.runtime import RunFailed
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.studies.context import RuntimeContext
from alphaswarm_rl.studies.tuning.document import TuningDocument
from alphaswarm_rl.studies.tuning.plan import Plan
from alphaswarm_rl.studies.tuning.report import StudyReport, report_of
from alphaswarm_rl.studies.tuning.study import Study, TrialRow, open_study

if TYPE_CHECKING:
    from optuna.trial import Trial

#: Failed trials in a row after which a study stops: then it is hardly their parameters.
_MOST_FAILURES = 3


def tune(
    document: Plan | TuningDocument | JsonMapping | str | Path,
    settings: Settings | None = None,
    *,
    trials: int | None = None,
    overrides: JsonMapping | None = None,
    frames: Mapping[str, object] | None = None,
    progress: bool = False,
    on_trial: Callable[[TrialRow], None] | None = None,
) -> StudyReport:
    """Begins a study or goes on with it; every trial is an ordinary run in the ledger.

    Args:
        document: The tuning document, its data or its YAML file; or its plan.
        settings: Where it runs; None reads the environment and the settings file.
        trials: How many trials to add to the existing ones; None: as many as the document's number lacks.
        overrides: What flags and environment variables changed of the base spec, stored in the runs' rows.
        frames: Data frames for the data pipeline `frame`, by name.
        progress: Whether a progress bar is shown for each run.
        on_trial: Called with every trial that ends.
    """
    if trials is not None and trials < 1:
        raise OptionError(f"trials {trials}", "it is not a number of 1 or more", "Leave it out, or give one.")
    plan = plan_of(document)
    settings = load_settings({}, os.environ) if settings is None else settings
    context = RuntimeContext(plan.base, settings, overrides=overrides, frames=frames, progress=progress)
    with open_study(plan, settings) as study:
        target = plan.study.trials if trials is None else len(study.made()) + trials
        halted = run_trials(study, context, target, on_trial)
        return report_of(study, context, settings, halted=halted)


def plan_of(document: Plan | TuningDocument | JsonMapping | str | Path) -> Plan:
    """The checked plan of a document in any of its forms."""
    if isinstance(document, Plan):
        return document
    if isinstance(document, str | Path):
        document = TuningDocument.from_yaml_path(document)
    elif not isinstance(document, TuningDocument):
        document = TuningDocument.from_data(document)
    return Plan.of(document)


def first_draw(plan: Plan) -> JsonObject:
    """The parameters that the first trial of a new study has."""
    study = Study(plan)
    return study.values_of(study.ask())


def run_trials(
    study: Study, context: StudyContext, target: int, on_trial: Callable[[TrialRow], None] | None = None
) -> str | None:
    """Runs trials until `target` of them count; returns why the study was halted before, or None."""
    errors: list[str] = []
    while len(study.made()) < target:
        run = run_trial(study, context)
        row = study.rows()[-1]
        if on_trial is not None:
            on_trial(row)
        if row.state == "interrupted":
            assert run is not None
            return run.halt_reason
        errors = [*errors, row.error or ""] if row.state == "failed" else []
        if len(errors) >= _MOST_FAILURES:
            raise RunFailed(
                f"the last {_MOST_FAILURES} trials",
                f"each of them failed, the last one: {errors[-1]}",
                "Mend it and tune again.",
            )
    return None


def run_trial(study: Study, context: StudyContext) -> StudyRun | None:
    """Draws the next trial, runs it and ends it.

    The run's row names study and trial (`name`, and the source of each override), not its spec: two trials with equal
    parameters are two runs of one version.

    Returns:
        The run; None where there is none: the trial's row says why.

    Raises:
        AlphaSwarmError: No trial can be run as things are; this one counts as interrupted.
    """
    trial = study.ask()
    plan, values = study.plan, study.values_of(trial)
    try:
        spec = plan.spec_for(values)
    except AlphaSwarmError as error:
        study.fail(trial, f"no spec: {error.why}")  # each value is one that the spec takes, but not all together
        return None
    pruning = _Pruning(study, trial, spec)
    try:
        run = context.train(values, name=f"{plan.name} trial {trial.number}", stop_when=pruning)
    except AlphaSwarmError:  # there is no run, or it is another process's: that is not the parameters' fault
        study.interrupt(trial)
        raise
    if run.status == "failed":
        study.fail(trial, run.error or "")
    elif pruning.pruned:
        study.prune(trial)
    elif run.status == "halted":
        study.interrupt(trial)
    else:
        value = plan.metric.of(run)
        if value is None:
            study.fail(trial, plan.metric.why_none(run))
        else:
            study.complete(trial, value)
    return run


class _Pruning:
    """Reports every validation of a trial's run to the study, and halts the run when the study prunes the trial.

    Args:
        study: The study.
        trial: The trial.
        spec: Its spec.
    """

    def __init__(self, study: Study, trial: Trial, spec: RLExperimentSpec) -> None:
        self.pruned = False
        self._study, self._trial = study, trial
        self._metric = study.plan.metric.name
        self._total = spec.training.total_timesteps
        self._every = spec.training.eval_freq or max(1, self._total // 10)
        self._reported: set[int] = set()

    def __call__(self, event: Event) -> str | None:
        """Why the run must halt; None while it may go on."""
        if event.stage == "start":
            self._study.note_run(self._trial, event.run_id)
        if event.stage != "eval.step" or event.payload["phase"] != "validation":
            return None
        done, value = event.payload["timesteps"], event.payload.get(self._metric)
        # Rollouts of different lengths validate at different transitions: the number of the interval is comparable.
        interval = done // self._every
        if value is None or interval in self._reported:
            return None
        self._reported.add(interval)
        self._trial.report(value, interval)
        if done >= self._total or not self._trial.should_prune():
            return None
        self.pruned = True
        return f"{PRUNED} validation.{self._metric} {value:.6g} at step {done} is worse than the median of the trials"
