"""One trial: an ordinary run of the base spec with other parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from alphaswarm_rl.core.errors import AlphaSwarmError
from alphaswarm_rl.core.run_listener import Event
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.runs import PRUNED
from alphaswarm_rl.runtime import RLRuntime, RunFailed, RunResult
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.studies.tuning.metrics import Metric
from alphaswarm_rl.studies.tuning.study import Study


@dataclass(frozen=True)
class Surroundings:
    """What all trials of a study share beside the plan.

    Attributes:
        settings: Where they run.
        overrides: What flags and environment variables changed of the base spec, stored in every run's row.
        frames: Data frames for the data pipeline `frame`, by name.
        progress: Whether a progress bar is shown.
    """

    settings: Settings
    overrides: Mapping[str, Any]
    frames: Mapping[str, Any]
    progress: bool


class ValidationWatch:
    """Hears a trial's run: tells the study of every validation, and halts the run when the study prunes the trial.

    Args:
        study: The study.
        trial: The trial.
        spec: What it runs.
    """

    def __init__(self, study: Study, trial: Any, spec: RLExperimentSpec) -> None:
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


def run_trial(study: Study, surroundings: Surroundings) -> RunResult | None:
    """Draws the next trial, runs it and ends it.

    The run's row names study and trial (`name`, and the source of each override), not its spec: two trials with equal
    parameters are two runs of one version.

    Returns:
        The run; None where there is none, or where it failed: the trial's row says why.

    Raises:
        AlphaSwarmError: No trial can be run as things are; this one counts as interrupted.
    """
    trial = study.ask()
    plan, values = study.plan, study.values_of(trial)
    label = f"{plan.name} trial {trial.number}"
    try:
        spec = plan.spec_for(values)
    except AlphaSwarmError as error:
        study.fail(trial, f"no spec: {error.why}")  # each value is one that the spec takes, but not all together
        return None
    watch = ValidationWatch(study, trial, spec)
    drawn = {path: {"value": value, "source": f"study {label}"} for path, value in values.items()}
    try:
        runtime = RLRuntime(
            spec,
            _named(surroundings.settings, label),
            overrides={**surroundings.overrides, **drawn},
            progress=surroundings.progress,
            frames=surroundings.frames,
            stop_when=watch,
        )
        result = runtime.train()
    except AlphaSwarmError as error:
        if not getattr(error, "__notes__", ()):  # there is no run: whatever is refused is not the parameters' fault
            study.interrupt(trial)
            raise
        study.fail(trial, str(error))
        return None
    if watch.pruned:
        study.prune(trial)
    elif result.status == "halted":
        study.interrupt(trial)
    else:
        _judge(study, trial, result, surroundings.settings)
    return result


def _judge(study: Study, trial: Any, result: RunResult, settings: Settings) -> None:
    value = value_of(result.run_id, study.plan.metric, settings)
    if value is None:
        study.fail(trial, f"run {result.run_id} has no {study.plan.metric}")
    else:
        study.complete(trial, value)


def value_of(run_id: str, metric: Metric, settings: Settings) -> float | None:
    """The metric of a run's last evaluation of that phase: of validations the one of the model that training ends with.

    The best of a run's validations would be one more maximum over noise.
    """
    with Ledger.open(settings) as ledger:
        rows = [row for row in ledger.evaluations(run_id) if row.phase == metric.phase]
    value = rows[-1].metrics.get(metric.name) if rows else None
    return None if value is None else float(value)


def _named(settings: Settings, label: str) -> Settings:
    name = " ".join(filter(None, [settings.store.run_name, label]))
    return settings.model_copy(update={"store": settings.store.model_copy(update={"run_name": name})})


def refuse_if_all_fail(errors: list[str], most: int) -> None:
    """Stops a study whose last trials all failed: more of them would too."""
    if len(errors) >= most:
        raise RunFailed(
            f"the last {most} trials", f"each of them failed, the last one: {errors[-1]}", "Mend it and tune again."
        )
