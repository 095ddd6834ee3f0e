"""Training: a new run of a spec, or one that goes on."""

from __future__ import annotations

from dataclasses import field

from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.operations.data import Data, Index
from alphaswarm_rl.operations.events import NOBODY, Caller, Notice
from alphaswarm_rl.operations.operation import NamedRun, RequestError, operation
from alphaswarm_rl.operations.overrides import resolve_arguments, resolve_spec
from alphaswarm_rl.options.resolve import TRAINING_ON, run_arguments
from alphaswarm_rl.runtime.result import RunResult
from alphaswarm_rl.runtime.training_plan import TrainingPlan as TrainingPlan
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import load_spec


class TrainRequest(Data):
    """What is trained.

    Attributes:
        spec: A YAML file or the name of a preset; None trains the options' defaults.
        options: Options of the table by key; those of the spec change it before it is hashed.
        dry_run: Whether everything is done up to the first step, and nothing is written.
        continue_run: A training run that is trained further instead, as long as the options say; of the spec's options
            it takes no other.
    """

    spec: str | None = None
    options: JsonMapping = field(default_factory=dict)
    dry_run: bool = False
    continue_run: str | None = None


class ResumeRequest(NamedRun):
    """Which run goes on.

    Attributes:
        run: Its id, the beginning of it, or latest: the newest that can go on.
        options: Options of the table by key; one of the spec is refused, for the stored version is run as it is.
        step: Which of its checkpoints it goes on from; None: the newest that is intact.
    """

    options: JsonMapping = field(default_factory=dict)
    step: Index | None = None


@operation("train", changes=True)
def train(settings: Settings, request: TrainRequest, *, caller: Caller = NOBODY) -> RunResult | TrainingPlan:
    """Trains a spec's agent, judges it, and leaves a checkpoint; a dry run only plans it."""
    if request.continue_run is not None:
        return _continue(settings, request, request.continue_run, caller)
    base = None if request.spec is None else load_spec(request.spec)
    effective = resolve_spec(lambda: settings, base, request.options, caller)

    from alphaswarm_rl.runtime import RLRuntime

    runtime = RLRuntime(effective.spec, settings, overrides=effective.sources, progress=caller.progress)
    seed = "random" if effective.draws_seed else None
    return runtime.rehearse(seed=seed) if request.dry_run else runtime.train(seed=seed)


def _continue(settings: Settings, request: TrainRequest, run: str, caller: Caller) -> RunResult:
    if request.spec is not None:
        raise RequestError("--continue trains a run further, by the spec of its own version: leave SPEC out")
    if request.dry_run:
        raise RequestError("--dry-run is about a spec: leave --continue out")
    found = run_arguments(request.options, caller.environ, TRAINING_ON)
    for notice in found.notices:
        caller.listen(Notice(notice))
    if "total_timesteps" not in found.values:
        raise RequestError("--continue needs the new total: --total-timesteps N")
    total, source = found.values["total_timesteps"], found.sources["total_timesteps"]

    from alphaswarm_rl.runtime import RLRuntime

    sources = {"training.total_timesteps": {"value": total, "source": source}}
    runtime = RLRuntime.from_run(run, settings, overrides=sources, progress=caller.progress, verb="continue")
    return runtime.train_further(total)


@operation("resume", changes=True)
def resume(settings: Settings, request: ResumeRequest, *, caller: Caller = NOBODY) -> RunResult:
    """Goes on with an interrupted, halted or failed training run, in its own row, from its newest intact checkpoint."""
    resolve_arguments(request.options, caller, allowed=())

    from alphaswarm_rl.runtime import RLRuntime

    runtime = RLRuntime.from_run(request.run, settings, progress=caller.progress, verb="resume")
    return runtime.resume(step=request.step)
