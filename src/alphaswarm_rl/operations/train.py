"""Training: a new run of a spec, or one that goes on."""

from __future__ import annotations

from dataclasses import field

from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.operations.data import Data, Index
from alphaswarm_rl.operations.events import NOBODY, Caller
from alphaswarm_rl.operations.operation import NamedRun, operation
from alphaswarm_rl.operations.overrides import resolve_arguments, resolve_spec
from alphaswarm_rl.runtime.result import RunResult
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import load_spec


class TrainRequest(Data):
    """What is trained.

    Attributes:
        spec: A YAML file or the name of a preset; None trains the options' defaults.
        options: Options of the table by key; those of the spec change it before it is hashed.
    """

    spec: str | None = None
    options: JsonMapping = field(default_factory=dict)


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
def train(settings: Settings, request: TrainRequest, *, caller: Caller = NOBODY) -> RunResult:
    """Trains a spec's agent, judges it, and leaves a checkpoint."""
    base = None if request.spec is None else load_spec(request.spec)
    effective = resolve_spec(base, request.options, caller)

    from alphaswarm_rl.runtime import RLRuntime

    runtime = RLRuntime(effective.spec, settings, overrides=effective.sources, progress=caller.progress)
    return runtime.train(seed="random" if effective.draws_seed else None)


@operation("resume", changes=True)
def resume(settings: Settings, request: ResumeRequest, *, caller: Caller = NOBODY) -> RunResult:
    """Goes on with an interrupted, halted or failed training run, in its own row, from its newest intact checkpoint."""
    resolve_arguments(request.options, caller, allowed=())

    from alphaswarm_rl.runtime import RLRuntime

    runtime = RLRuntime.from_run(request.run, settings, progress=caller.progress, verb="resume")
    return runtime.resume(step=request.step)
