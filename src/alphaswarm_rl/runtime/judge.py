"""The verbs evaluate and replay: a policy is rolled out in a run of its own."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.core.seeding import derived_seed
from alphaswarm_rl.core.tracing import span
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.inference.building import load_preprocessing, training_windows
from alphaswarm_rl.inference.checkpoints import CheckpointStore, LoadedCheckpoint
from alphaswarm_rl.inference.selection import Selection, trained_by, trainer_of
from alphaswarm_rl.ledger import Ledger, RunRow, VersionRow
from alphaswarm_rl.runtime.envelope import RunScope, finish, result_of, run_scope
from alphaswarm_rl.runtime.observers import Judged
from alphaswarm_rl.runtime.opening import (
    RunContext,
    TrainedOn,
    check_request,
    component_drift,
    create_run,
    describe_env,
    draw_seed,
    run_metrics,
    start,
)
from alphaswarm_rl.runtime.result import RunResult
from alphaswarm_rl.runtime.rollout import evaluate_learner
from alphaswarm_rl.runtime.training import record_evaluation
from alphaswarm_rl.spec import RLExperimentSpec

JudgingVerb = Literal["evaluate", "replay"]


@dataclass(frozen=True)
class Arguments:
    """The arguments of one such run; None takes the parent run's or the spec's value."""

    checkpoint: str | int | None = None
    seed: int | str | None = None
    window: Window | None = None
    episodes: int | None = None
    deterministic: bool | None = None

    def __post_init__(self) -> None:
        if self.episodes is not None and (not isinstance(self.episodes, int) or self.episodes < 1):
            raise RunError(f"{self.episodes!r} episodes", "a policy is judged by one or more", "Give a whole number.")
        if self.window is not None and not isinstance(self.window, Window):
            raise RunError(f"window {self.window!r}", "it is no Window", "Write Window(start, end) with ISO dates.")

    def as_dict(self) -> dict[str, Any]:
        """What was given, as the row keeps it."""
        window = None if self.window is None else [self.window.start, self.window.end]
        given = {
            "checkpoint": self.checkpoint,
            "seed": self.seed,
            "window": window,
            "episodes": self.episodes,
            "deterministic": self.deterministic,
        }
        return {name: value for name, value in given.items() if value is not None}


def judge(
    context: RunContext, ledger: Ledger, verb: JudgingVerb, parent: RunRow | None, arguments: Arguments, *, strict: bool
) -> RunResult:
    """Opens a run and rolls the policy out."""
    spec = context.spec
    ledger.refuse_if_halted()
    version = _version(ledger, spec, parent, strict=strict)
    store = CheckpointStore(context.settings.models_path)
    loaded = Selection(ledger, store, spec).load(parent, arguments.checkpoint, verb=verb)
    window = arguments.window or spec.evaluation.window
    check_request(context, window)
    if arguments.episodes is None and spec.evaluation.episodes == 0:
        raise RunError(
            f"spec {spec.name!r}", f"it wants no evaluation, and {verb} is one", "Say how many episodes: --episodes 1."
        )
    run = create_run(
        context,
        ledger,
        version,
        verb,
        seed=draw_seed(arguments.seed, spec.seed if parent is None else parent.seed),
        window=window,
        parent=parent,
        arguments=arguments.as_dict(),
        checkpoint=None if loaded is None else loaded.checkpoint,
        timesteps=0 if loaded is None else loaded.checkpoint.timesteps,
    )
    with run_scope(ledger, run, context.spec, context.settings, context.sinks) as scope:
        _roll_out(context, ledger, scope, loaded, window, arguments, verb)
    return result_of(ledger.run(run.id))


def _version(ledger: Ledger, spec: RLExperimentSpec, parent: RunRow | None, *, strict: bool) -> VersionRow:
    if parent is None:
        return ledger.persist_spec(spec)
    version = ledger.version(parent.version_id)
    if version.spec_hash != spec.spec_hash:
        raise RunError(
            f"run {parent.id}",
            f"it belongs to another version ({version.spec_hash[:12]}) than this spec ({spec.spec_hash[:12]})",
            "Use RLRuntime.from_run(run), which takes the run's own version.",
        )
    drift = component_drift(version, spec)
    if drift and strict:
        raise RunError(f"run {parent.id}", "; ".join(drift), "Leave --strict out to replay all the same.")
    return version


def _trained_on(spec: RLExperimentSpec, ledger: Ledger, loaded: LoadedCheckpoint) -> TrainedOn | None:
    """The training behind a checkpoint; None where nobody knows it, or where it had other data by its spec."""
    run, trained = trainer_of(ledger, loaded.checkpoint.path), trained_by(loaded)
    if run is None or (trained.data_pipeline, trained.universe) != (spec.data_pipeline, spec.universe):
        return None
    return TrainedOn(run, trained.training.window)


def _roll_out(
    context: RunContext,
    ledger: Ledger,
    scope: RunScope,
    loaded: LoadedCheckpoint | None,
    window: Window,
    arguments: Arguments,
    verb: JudgingVerb,
) -> None:
    judged, run = context.spec.evaluation, scope.run
    episodes = arguments.episodes or judged.episodes
    deterministic = judged.deterministic if arguments.deterministic is None else arguments.deterministic
    trained = context.spec.training if loaded is None else trained_by(loaded).training
    builder = start(
        context,
        ledger,
        scope,
        {"evaluation" if verb == "evaluate" else "replay": window},
        others=training_windows(trained),
        judges=True,
        trained_on=None if loaded is None else _trained_on(context.spec, ledger, loaded),
    )
    if loaded is not None:
        builder.restore_data(loaded.states)
    num_envs = min(episodes, context.spec.training.n_envs)
    env = builder.build_env("evaluate", num_envs=num_envs, phase="evaluate", window=window, render=judged.render)
    with closing(env), context.record(ledger, run) as recording:
        scope.bus.emit("env.built", **describe_env(env))
        learner = builder.build_learner(env, training=False)
        if loaded is None:
            builder.fit_preprocessing(env)
        else:
            learner.set_state(loaded.states["learner"])
            load_preprocessing(env, loaded.states.get("preprocessing"))
        scope.bus.emit("agent.built", agent=builder.agent.rl_alias, device=builder.device)
        scope.observers.built(env, builder.agent.rl_alias)
        started = datetime.now(UTC)
        recorded = recording.judge(env, verb, episodes=episodes, timesteps=run.timesteps)
        with span("evaluate", phase=verb):
            evaluation = evaluate_learner(
                learner,
                recorded,
                episodes=episodes,
                deterministic=deterministic,
                in_sample=builder.in_sample(window, trained),
                seed=derived_seed(run.seed, "evaluate"),
                dates=builder.dates_played(env, window),
                halt=scope.watcher,
                record_frames=judged.render,
            )
        recording.finish(compact=True)
    if evaluation is not None:
        checkpoint = None if loaded is None else loaded.checkpoint
        judged_now = Judged(evaluation, verb, run.timesteps, run.seed, deterministic, checkpoint, started)
        record_evaluation(ledger, scope.bus, scope.observers, run.id, judged_now)
    metrics = run_metrics(context, run, evaluation)
    in_sample = None if evaluation is None else evaluation.in_sample
    finish(ledger, scope, metrics=metrics, timesteps=run.timesteps, in_sample=in_sample)
