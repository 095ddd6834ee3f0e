"""Training: a new run of a spec, or one that goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.operations.events import Listener, ignore
from alphaswarm_rl.operations.operation import operation
from alphaswarm_rl.operations.overrides import NO_VARIABLES, resolve_arguments, resolve_spec
from alphaswarm_rl.runtime.result import RunResult
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import load_spec


@dataclass(frozen=True)
class TrainRequest:
    """What is trained.

    Attributes:
        spec: A YAML file or the name of a preset; None trains the options' defaults.
        options: Options of the table by key; those of the spec change it before it is hashed.
    """

    spec: str | None = None
    options: JsonMapping = field(default_factory=dict)


@dataclass(frozen=True)
class ResumeRequest:
    """Which run goes on.

    Attributes:
        run: Its id, the beginning of it, or latest: the newest that can go on.
        options: Options of the table by key; one of the spec is refused, for the stored version is run as it is.
    """

    run: str
    options: JsonMapping = field(default_factory=dict)


@operation("train", changes=True)
def train(
    settings: Settings,
    request: TrainRequest,
    *,
    environ: Mapping[str, str] = NO_VARIABLES,
    listen: Listener = ignore,
    progress: bool = False,
) -> RunResult:
    """Trains a spec's agent, judges it, and leaves a checkpoint.

    Args:
        settings: Where it runs.
        request: What is trained.
        environ: Environment variables that may change the spec.
        listen: Hears which spec it is, and notices.
        progress: Whether a progress bar is drawn on standard error.
    """
    base = None if request.spec is None else load_spec(request.spec)
    effective = resolve_spec(base, request.options, environ, listen)

    from alphaswarm_rl.runtime import RLRuntime

    runtime = RLRuntime(effective.spec, settings, overrides=effective.sources, progress=progress)
    return runtime.train(seed="random" if effective.draws_seed else None)


@operation("resume", changes=True)
def resume(
    settings: Settings,
    request: ResumeRequest,
    *,
    environ: Mapping[str, str] = NO_VARIABLES,
    listen: Listener = ignore,
    progress: bool = False,
) -> RunResult:
    """Goes on with an interrupted, halted or failed training run, in its own row and from its last checkpoint.

    Args:
        settings: Where it runs.
        request: Which run goes on.
        environ: Environment variables; those of the spec are ignored with a notice.
        listen: Hears notices.
        progress: Whether a progress bar is drawn on standard error.
    """
    resolve_arguments(request.options, environ, listen, allowed=())

    from alphaswarm_rl.runtime import RLRuntime

    return RLRuntime.from_run(request.run, settings, progress=progress, verb="resume").resume()
