"""The verb train, and its continuation resume."""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from alphaswarm_rl.core.contracts import AnyVectorEnv, Learner
from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.inference.building import Builder, training_windows
from alphaswarm_rl.inference.checkpoints import CheckpointStore, LoadedCheckpoint, load_checkpoint
from alphaswarm_rl.inference.selection import recorded_sha256
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.recording.accounting import refuse_other_tables
from alphaswarm_rl.recording.episodes import EpisodeTracker
from alphaswarm_rl.recording.recording import Recording, records_training
from alphaswarm_rl.runtime.envelope import RunScope, finish, result_of, run_scope
from alphaswarm_rl.runtime.opening import (
    RunContext,
    changed_surroundings,
    check_request,
    create_run,
    describe_env,
    draw_seed,
    run_metrics,
    start,
)
from alphaswarm_rl.runtime.progress import ProgressBar
from alphaswarm_rl.runtime.result import RunResult
from alphaswarm_rl.runtime.training import TrainingSession

if TYPE_CHECKING:
    from alphaswarm_rl.recording.device_tracker import DeviceTracker


def train(context: RunContext, ledger: Ledger, *, seed: int | str | None) -> RunResult:
    """Opens a run of the spec's version and trains."""
    ledger.refuse_if_halted()
    check_request(context, context.spec.training.window)
    run = create_run(
        context,
        ledger,
        ledger.persist_spec(context.spec),
        "train",
        seed=draw_seed(seed, context.spec.seed),
        window=context.spec.training.window,
        total_timesteps=context.spec.training.total_timesteps,
    )
    return _run(context, ledger, run, None)


def resume(context: RunContext, ledger: Ledger, run_id: str) -> RunResult:
    """Claims a stopped run and goes on with it from its last checkpoint."""
    ledger.refuse_if_halted(run_id)
    stopped = ledger.run(run_id)
    if stopped.target != "train":
        raise RunError(f"run {stopped.id}", f"it is a run of {stopped.target!r}", "Only training runs are resumed.")
    if stopped.checkpoint is None and stopped.status != "running":
        raise RunError(f"run {stopped.id}", "it has no checkpoint to go on from", "Train the spec again: rl train.")
    refuse_other_tables(context.settings, ledger, stopped)
    return _run(context, ledger, ledger.claim_for_resume(stopped.id), stopped)


def _run(context: RunContext, ledger: Ledger, run: RunRow, stopped: RunRow | None) -> RunResult:
    training, judged = context.spec.training, context.spec.evaluation
    judges = judged.episodes > 0
    windows = {"training": training.window}
    if training.eval_during_training:
        windows["validation"] = training.validation_window
    if judges:
        windows["evaluation"] = judged.window
    with run_scope(ledger, run, context.spec, context.settings, context.sinks, context.stop_when) as scope:
        builder = start(context, ledger, scope, windows, others=training_windows(training), judges=judges)
        loaded = None if stopped is None else _last_checkpoint(stopped)
        if loaded is not None:
            builder.restore_data(loaded.states)
        on_device = builder.trains_on_device(recorded=records_training(context.spec, context.settings, builder.device))
        env = builder.build_env(
            "env", num_envs=training.n_envs, phase="train", window=training.window, on_device=on_device
        )
        with closing(_tracker(env, on_device=on_device)) as tracker:
            if judges:
                _check_evaluation(builder)
            scope.bus.emit("env.built", **describe_env(tracker))
            learner = builder.build_learner(tracker, training=True)
            scope.bus.emit("agent.built", agent=builder.agent.rl_alias, device=builder.device, resume=learner.resume)
            scope.observers.built(tracker, builder.agent.rl_alias)
            with context.record(ledger, run) as recording:
                _train_and_judge(context, ledger, scope, builder, tracker, learner, recording, stopped, loaded)
    return result_of(ledger.run(run.id))


def _tracker(env: AnyVectorEnv, *, on_device: bool) -> EpisodeTracker | DeviceTracker:
    if not on_device:
        return EpisodeTracker(env)
    from alphaswarm_rl.recording.device_tracker import DeviceTracker

    return DeviceTracker(env)


def _last_checkpoint(run: RunRow) -> LoadedCheckpoint:
    assert run.checkpoint is not None
    return load_checkpoint(Path(run.checkpoint), expected_sha256=run.checkpoint_sha256)


def _check_evaluation(builder: Builder) -> None:
    """Builds what the end will need and throws it away: an evaluation that cannot be had is refused now."""
    training, judged = builder.spec.training, builder.spec.evaluation
    builder.build_env("evaluate", num_envs=1, phase="evaluate", window=judged.window, render=judged.render).close()
    if training.eval_during_training:
        builder.build_env("validation", num_envs=1, phase="evaluate", window=training.validation_window).close()


def _train_and_judge(
    context: RunContext,
    ledger: Ledger,
    scope: RunScope,
    builder: Builder,
    env: EpisodeTracker | DeviceTracker,
    learner: Learner,
    recording: Recording,
    stopped: RunRow | None,
    loaded: LoadedCheckpoint | None,
) -> None:
    total = context.spec.training.total_timesteps
    progress = ProgressBar(total) if context.progress else None
    session = TrainingSession(
        builder=builder,
        learner=learner,
        env=env,
        run_id=scope.run.id,
        ledger=ledger,
        bus=scope.bus,
        store=CheckpointStore(context.settings.models_path),
        watcher=scope.watcher,
        settings=context.settings,
        progress=progress,
        recording=recording,
        observers=scope.observers,
    )
    with closing(session):
        if stopped is None or loaded is None:
            builder.fit_preprocessing(env.env)
        else:
            _restore(context, ledger, session, stopped, loaded)
        with progress.counting_from(learner.timesteps) if progress is not None else nullcontext():
            learner.train(scope.observers.watch(recording.train(env, learner.observation)), total, session)
            if progress is not None:
                progress.update(env.transitions, env.mean_reward, force=True)
        if env.transitions != learner.timesteps:
            # A halt drops the rollout that it came into.
            assert isinstance(env, EpisodeTracker)  # on a device trainings stop between rollouts
            recording.abandon()
            env.return_to_mark()
        session.save()
        if not scope.watcher.reason:
            session.validate_the_last()
        evaluation = None if scope.watcher.reason else session.evaluate()
        recording.finish(compact=not scope.watcher.reason)
    metrics = run_metrics(context, scope.run, evaluation)
    if session.best_reward is not None:
        metrics["best_reward"] = session.best_reward
    session.announce(session.checkpoint, final=True)
    in_sample = None if evaluation is None else evaluation.in_sample
    if learner.timesteps > total:
        notice = (
            f"trained {learner.timesteps - total} transitions more than {total}: rollouts and vector steps are whole"
        )
        ledger.update_run(scope.run.id, notices=[*(ledger.run(scope.run.id).notices or []), notice])
    finish(
        ledger,
        scope,
        metrics=metrics,
        timesteps=learner.timesteps,
        in_sample=in_sample,
    )


def _restore(
    context: RunContext, ledger: Ledger, session: TrainingSession, run: RunRow, loaded: LoadedCheckpoint
) -> None:
    how = session.restore(loaded)
    done = loaded.checkpoint.timesteps
    # What was judged after the last checkpoint of all is judged again.
    judged_too = done >= context.spec.training.total_timesteps
    ledger.drop_beyond(run.id, done, judged_too=judged_too)
    session.recording.drop_after(done)
    if run.best_checkpoint is not None and run.best_reward is not None:
        path = Path(run.best_checkpoint)
        best = load_checkpoint(path, expected_sha256=recorded_sha256(ledger, run, path)).checkpoint
        if best.timesteps <= done:
            session.best, session.best_reward = best, run.best_reward
    fresh = " (episodes start fresh)" if how == "approximate" else ""
    notices = [
        *ledger.run(run.id).notices,
        f"resumed at step {done} from {run.status}; resume: {how}{fresh}",
        *changed_surroundings(run, context.spec),
    ]
    ledger.update_run(run.id, resume=how, timesteps=done, notices=notices)
    session.catch_up()
