"""The verb train, and its continuation resume."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from pathlib import Path

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.inference.builder import Builder, training_windows
from alphaswarm_rl.inference.checkpoints import LoadedCheckpoint, load_checkpoint
from alphaswarm_rl.inference.selection import recorded_sha256
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.recording.episodes import EpisodeTracker
from alphaswarm_rl.recording.table_refs import refuse_other_tables
from alphaswarm_rl.runtime import start
from alphaswarm_rl.runtime.evaluate import result_metrics
from alphaswarm_rl.runtime.fingerprints import machine_drift
from alphaswarm_rl.runtime.listeners import report_steps
from alphaswarm_rl.runtime.result import RunResult
from alphaswarm_rl.runtime.run import RunSetup, open_run
from alphaswarm_rl.runtime.session import PhaseEnvs, TrainingSession


def train(setup: RunSetup, ledger: Ledger, *, seed: int | str | None) -> RunResult:
    """Opens a run of the spec's version and trains."""
    ledger.refuse_if_halted()
    training, drawn = setup.spec.training, start.draw_seed(seed, setup.spec.seed)
    builder = start.checked_builder(setup, seed=drawn, window=training.window)
    row = start.create_row(
        setup,
        ledger,
        "train",
        ledger.persist_spec(setup.spec),
        seed=drawn,
        window=training.window,
        total_timesteps=training.total_timesteps,
    )
    return _run(setup, ledger, row, builder=builder)


def resume(setup: RunSetup, ledger: Ledger, run_id: str) -> RunResult:
    """Claims a stopped run and continues it from its last checkpoint."""
    ledger.refuse_if_halted(run_id)
    stopped = ledger.run(run_id)
    if stopped.target != "train":
        raise RunError(f"run {stopped.id}", f"it is a run of {stopped.target!r}", "Only training runs are resumed.")
    if stopped.checkpoint is None and stopped.status != "running":
        raise RunError(f"run {stopped.id}", "it has no checkpoint to go on from", "Train the spec again: rl train.")
    refuse_other_tables(setup.settings, ledger, stopped)
    return _run(setup, ledger, ledger.claim_for_resume(stopped.id), stopped=stopped)


def _run(
    setup: RunSetup, ledger: Ledger, row: RunRow, *, builder: Builder | None = None, stopped: RunRow | None = None
) -> RunResult:
    training, evaluation = setup.spec.training, setup.spec.evaluation
    windows = {"training": training.window}
    if training.eval_during_training:
        windows["validation"] = training.validation_window
    if evaluation.episodes:
        windows["evaluation"] = evaluation.window
    with open_run(setup, ledger, row) as run, ExitStack() as opened:
        builder = start.load_data(run, builder, windows, seen=training_windows(training))
        loaded = None
        if stopped is not None:
            assert stopped.checkpoint is not None
            loaded = load_checkpoint(Path(stopped.checkpoint), expected_sha256=stopped.checkpoint_sha256)
            builder.restore_data(loaded.states)
        envs = PhaseEnvs.build(builder, run, opened)
        start.report_env(run, envs.train)
        learner = builder.build_learner(envs.train, training=True)
        start.report_agent(run, builder, envs.train, resume=learner.resume)
        recorder = opened.enter_context(run.open_recorder())
        session = TrainingSession(run, builder, learner, envs, recorder)
        if stopped is None or loaded is None:
            builder.fit_preprocessing(envs.train.env)
        else:
            _restore(session, stopped, loaded)
        _train(session)
    return RunResult.of(ledger.run(row.id))


def _restore(session: TrainingSession, stopped: RunRow, loaded: LoadedCheckpoint) -> None:
    """Puts a session back to where a stopped run was saved; what came after that is forgotten everywhere."""
    run, done = session.run, loaded.checkpoint.timesteps
    how = session.restore(loaded)
    # What was judged after the last checkpoint of all is judged again.
    judged_too = done >= run.spec.training.total_timesteps
    run.ledger.drop_beyond(run.id, done, judged_too=judged_too)
    session.recorder.drop_after(done)
    if stopped.best_checkpoint is not None and stopped.best_reward is not None:
        path = Path(stopped.best_checkpoint)
        best = load_checkpoint(path, expected_sha256=recorded_sha256(run.ledger, stopped, path)).checkpoint
        if best.timesteps <= done:
            session.best, session.best_reward = best, stopped.best_reward
    fresh = " (episodes start fresh)" if how == "approximate" else ""
    notices = [
        *run.ledger.run(run.id).notices,
        f"resumed at step {done} from {stopped.status}; resume: {how}{fresh}",
        *machine_drift(stopped, run.spec),
    ]
    run.update(resume=how, timesteps=done, notices=notices)
    session.catch_up()


def _train(session: TrainingSession) -> None:
    """Trains to the end or to a halt, saves, evaluates and finishes the run."""
    run, env, learner, recorder = session.run, session.env, session.learner, session.recorder
    total = run.spec.training.total_timesteps
    progress = session.progress
    with progress.counting_from(learner.timesteps) if progress is not None else nullcontext():
        learner.train(report_steps(recorder.record_training(env, learner.observation), run.listeners), total, session)
        if progress is not None:
            progress.update(env.transitions, env.mean_reward, force=True)
    if env.transitions != learner.timesteps:
        # A halt drops the rollout that it came into.
        assert isinstance(env, EpisodeTracker)  # on a device trainings stop between rollouts
        recorder.abandon()
        env.return_to_mark()
    last = session.save()
    if not run.watcher.reason:
        session.validate_last()
    evaluation = None if run.watcher.reason else session.evaluate()
    recorder.finish(compact=not run.watcher.reason)
    metrics = result_metrics(run, evaluation)
    if session.best_reward is not None:
        metrics["best_reward"] = session.best_reward
    session.report_checkpoint(last, final=True)
    if learner.timesteps > total:
        run.add_notices(
            [f"trained {learner.timesteps - total} transitions more than {total}: rollouts and vector steps are whole"]
        )
    run.finish(
        metrics=metrics,
        timesteps=learner.timesteps,
        in_sample=None if evaluation is None else evaluation.in_sample,
    )
