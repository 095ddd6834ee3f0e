"""The verb train, and its continuation resume."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

from alphaswarm_rl.core.errors import CheckpointError, RunError
from alphaswarm_rl.core.run_listener import EvaluationMetrics, Resumption
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.inference import initial_weights
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.inference.checkpoints import Checkpoint, LoadedCheckpoint, first_intact, load_checkpoint
from alphaswarm_rl.inference.initial_weights import InitialWeights
from alphaswarm_rl.inference.selection import is_reported, saved_checkpoints
from alphaswarm_rl.inference.windows import training_windows
from alphaswarm_rl.ledger import EvaluationRow, Ledger, RunRow
from alphaswarm_rl.ledger.runs import RESUMABLE, not_resumable
from alphaswarm_rl.recording.episodes import EpisodeTracker
from alphaswarm_rl.recording.run_recorder import refuse_split
from alphaswarm_rl.recording.table_refs import refuse_other_tables
from alphaswarm_rl.runtime import start
from alphaswarm_rl.runtime.claims import newest_claim
from alphaswarm_rl.runtime.evaluate import result_metrics
from alphaswarm_rl.runtime.fingerprints import machine_drift
from alphaswarm_rl.runtime.judging import CheckpointJudge
from alphaswarm_rl.runtime.listeners import report_steps
from alphaswarm_rl.runtime.result import RunResult
from alphaswarm_rl.runtime.run import Run, RunSetup, open_run
from alphaswarm_rl.runtime.session import PhaseEnvs, TrainingSession

_log = logging.getLogger(__name__)


def train(setup: RunSetup, ledger: Ledger, *, seed: int | str | None) -> RunResult:
    """Opens a run of the spec's version and trains."""
    ledger.refuse_if_halted()
    training, drawn = setup.spec.training, start.draw_seed(seed, setup.spec.seed)
    initial = initial_weights.load(setup.spec, setup.settings)
    builder = start.checked_builder(setup, seed=drawn, window=training.window)
    row = start.create_row(
        setup,
        ledger,
        "train",
        ledger.persist_spec(setup.spec),
        seed=drawn,
        window=training.window,
        notices=start.hindsight(setup, seed=drawn),
        total_timesteps=training.total_timesteps,
        parent_run_id=None if initial is None else initial.run_id,
    )
    beginning = FreshStart() if initial is None else WarmStart(initial)
    return run_training(setup, ledger, row, beginning, builder)


def resume(setup: RunSetup, ledger: Ledger, run_id: str, *, step: int | None = None) -> RunResult:
    """Claims a stopped run and continues it from its newest intact checkpoint, or from that of a step."""
    ledger.refuse_if_halted(run_id)
    stopped = ledger.run(run_id)
    if stopped.target != "train":
        raise RunError(f"run {stopped.id}", f"it is a run of {stopped.target!r}", "Only training runs are resumed.")
    if stopped.status not in RESUMABLE or stopped.removed_at is not None:
        raise not_resumable(stopped)
    if stopped.checkpoint is None:
        raise RunError(f"run {stopped.id}", "it has no checkpoint to go on from", "Train the spec again: rl train.")
    refuse_other_tables(setup.settings, ledger, stopped)
    goes_on = Resumed.choose(ledger, stopped, step)
    refuse_split(setup.spec, setup.settings, ledger, stopped, goes_on.loaded.checkpoint.timesteps)
    left = newest_claim(setup.settings, stopped.id, in_tables=stopped.recording.get("store") == "iceberg")
    # What is refused until here leaves the run as it was; what was chosen by a row that changed meanwhile is refused.
    claimed = ledger.claim_for_resume(stopped.id, at_least=left + 1, seen=stopped)
    return run_training(setup, ledger, claimed, goes_on)


class Beginning(Protocol):
    """What a training begins with."""

    @property
    def details(self) -> JsonObject:
        """What the event `agent.built` says of it."""

    def prepare(self, builder: Builder) -> list[str]:
        """Hands over what data are scaled by, before any are loaded; gives notices."""

    def begin(self, session: TrainingSession) -> None:
        """Brings what was built to where the training begins."""


class FreshStart:
    """A training that begins with nothing."""

    details: JsonObject = {}  # noqa: RUF012  (nobody writes to it)

    def prepare(self, builder: Builder) -> list[str]:
        """Scalers are fitted when data are first looked at."""
        return []

    def begin(self, session: TrainingSession) -> None:
        """Fits what must be fitted first."""
        session.builder.fit_preprocessing(session.env.env)


@dataclass(frozen=True)
class WarmStart:
    """A training that begins with the weights of another.

    Attributes:
        initial: The weights.
    """

    initial: InitialWeights
    details: JsonObject = field(default_factory=dict)

    def prepare(self, builder: Builder) -> list[str]:
        """Lets data be scaled as the weights are used to."""
        return initial_weights.prepare(self.initial, builder)

    def begin(self, session: TrainingSession) -> None:
        """Hands weights and normaliser over."""
        env, plan = session.env.env, session.policy_plan
        session.run.add_notices(initial_weights.begin_with(self.initial, session.learner, env, plan))


@dataclass(frozen=True)
class Resumed:
    """Where a stopped run goes on.

    Attributes:
        stopped: Its row as it was.
        loaded: The checkpoint.
        line: The checkpoints that the run stands on, kept or not, the oldest first; it is the last of them.
        notices: What is wrong with later ones.
    """

    stopped: RunRow
    loaded: LoadedCheckpoint
    line: tuple[Checkpoint, ...]
    notices: tuple[str, ...] = ()

    @property
    def details(self) -> JsonObject:
        """The step that it goes on from."""
        return {"resumed_at": self.loaded.checkpoint.timesteps}

    def prepare(self, builder: Builder) -> list[str]:
        """Puts fitted scalers back."""
        builder.restore_data(self.loaded.states)
        return []

    def begin(self, session: TrainingSession) -> None:
        """Puts the session back to where the run was saved."""
        _restore(session, self)

    @classmethod
    def choose(cls, ledger: Ledger, stopped: RunRow, step: int | None) -> Resumed:
        """The newest intact checkpoint, or the one of a step, which must be intact."""
        newest_first = last, *earlier = saved_checkpoints(ledger, stopped)
        kept = [saved for saved in (last, *earlier) if saved.path.is_dir()]
        if step is not None:
            chosen = next((saved for saved in kept if saved.timesteps == step), None)
            if chosen is None:
                what = f"checkpoint at step {step} of run {stopped.id}"
                steps = ", ".join(str(saved.timesteps) for saved in reversed(kept)) or "none"
                raise RunError(what, "it is not kept", f"Kept: {steps}.")
            loaded = load_checkpoint(chosen.path, expected_sha256=chosen.sha256)
            return cls(stopped, loaded, _line_until(step, newest_first))
        # Earlier ones that are not there were pruned; the last one should be.
        candidates = [last, *(saved for saved in earlier if saved in kept)]
        intact, damaged = first_intact((saved.path, saved.sha256) for saved in candidates)
        if intact is None:
            why = f"none of its {len(damaged)} checkpoints is intact; the last: {damaged[0].why}"
            raise CheckpointError(f"run {stopped.id}", why, "Put one back from a copy, or train again: rl train.")
        done = intact.checkpoint.timesteps
        notices = tuple(f"{error.what}: {error.why}; the run goes on from step {done}" for error in damaged)
        for notice in notices:
            _log.warning("run %s: %s", stopped.id, notice)
        return cls(stopped, intact, _line_until(done, newest_first), notices)


def _line_until(step: int, newest_first: Sequence[Checkpoint]) -> tuple[Checkpoint, ...]:
    return tuple(saved for saved in reversed(newest_first) if saved.timesteps <= step)


def run_training(
    setup: RunSetup, ledger: Ledger, row: RunRow, beginning: Beginning, builder: Builder | None = None
) -> RunResult:
    """Trains in a row that is there, from any beginning to the end of the training."""
    windows, seen = start.played_windows(setup.spec), training_windows(setup.spec.training)
    with open_run(setup, ledger, row) as run, ExitStack() as opened:
        builder = builder or start.builder_of(run)
        notices = beginning.prepare(builder)
        start.load_data(run, builder, windows, seen=seen)
        run.add_notices(notices)
        envs = PhaseEnvs.build(builder, run, opened)
        start.report_env(run, envs.train)
        learner = builder.build_learner(envs.train, training=True)
        start.report_agent(run, builder, envs.train, resume=learner.resume, **beginning.details)
        recorder = opened.enter_context(run.open_recorder())
        session = TrainingSession(run, builder, learner, envs, recorder)
        session.judge = CheckpointJudge.open(run, builder, envs.validation, opened)
        beginning.begin(session)
        _train(session)
    return RunResult.of(ledger.run(row.id))


def _restore(session: TrainingSession, goes_on: Resumed) -> None:
    """Puts a session back to where a stopped run was saved; what came after that is forgotten everywhere."""
    stopped, checkpoint = goes_on.stopped, goes_on.loaded.checkpoint
    run, done = session.run, checkpoint.timesteps
    session.recorder.refuse_split(done)
    how = session.restore(goes_on.loaded)
    session.line = list(goes_on.line)
    # What was judged after the last checkpoint of all is judged again. So is what was judged with one that nobody
    # reported: its process died, and models may not know of it. Nor may they where it died while it caught up.
    reported = is_reported(run.ledger, run.row, checkpoint)
    judged_too = done >= run.spec.training.total_timesteps or not reported or not _all_have_heard(run, checkpoint)
    run.ledger.drop_beyond(run.id, done, judged_too=judged_too)
    session.recorder.drop_after(done)
    evaluations = run.ledger.evaluations(run.id)
    kept = [EvaluationMetrics.of(row) for row in evaluations]
    for listener in run.listeners:
        listener.on_resumed(Resumption(done, judged_too, kept))
    notices = [*goes_on.notices, *_restore_best(session, evaluations, stopped.best_checkpoint)]
    fresh = " (episodes start fresh)" if how == "approximate" else ""
    notices = [
        *run.ledger.run(run.id).notices,
        *notices,
        f"resumed at step {done} from {stopped.status}; resume: {how}{fresh}",
        *machine_drift(stopped, run.spec),
    ]
    run.update(
        resume=how,
        timesteps=done,
        notices=notices,
        # The row may name a later one.
        checkpoint=str(checkpoint.path),
        checkpoint_sha256=checkpoint.sha256,
        best_checkpoint=None if session.best is None else str(session.best.path),
        best_reward=session.best_reward,
    )
    if not reported:
        session.report_checkpoint(checkpoint)
    session.catch_up()
    # A process may have died between a checkpoint and its judgement.
    session.judge_checkpoint(checkpoint)
    session.prune()


def _all_have_heard(run: Run, checkpoint: Checkpoint) -> bool:
    """Whether every listener heard of the evaluations of a checkpoint that the ledger has."""
    rows = [row for row in run.ledger.evaluations(run.id) if row.timesteps == checkpoint.timesteps]
    judged = [EvaluationMetrics.of(row) for row in rows]
    return all(listener.has_heard(checkpoint, evaluation) for listener in run.listeners for evaluation in judged)


def _restore_best(session: TrainingSession, evaluations: Sequence[EvaluationRow], named: str | None) -> list[str]:
    """Puts the best model so far back, as the validations that count tell; says which of them are damaged.

    The row alone does not tell: a process may have died between a validation and what it meant for the best model.

    Args:
        session: The training.
        evaluations: Those that count.
        named: The best checkpoint that the row names: it should be there. Others may have been pruned.
    """
    line = {saved.timesteps: saved for saved in session.line if str(saved.path) == named or saved.path.is_dir()}
    judged = [
        (row.mean_reward, line[row.timesteps])
        for row in evaluations
        if row.phase == "validation" and row.mean_reward is not None and row.timesteps in line
    ]
    notices = []
    # Of equal ones the first is the best.
    for reward, saved in sorted(judged, key=lambda pair: (-pair[0], pair[1].timesteps)):
        try:
            session.best = load_checkpoint(saved.path, expected_sha256=saved.sha256).checkpoint
        except CheckpointError as error:
            notices.append(f"{error.what}: {error.why}; the best model is sought anew")
        else:
            session.best_reward = reward
            break
    return notices


def _train(session: TrainingSession) -> None:
    """Trains to the end or to a halt, saves, evaluates and finishes the run."""
    run, env, learner, recorder = session.run, session.env, session.learner, session.recorder
    total = run.spec.training.total_timesteps
    with session.progress.counting_from(learner.timesteps) as progress:
        learner.train(report_steps(recorder.record_training(env, learner.observation), run.listeners), total, session)
        progress.finish(env.transitions, env.mean_reward)
    if env.transitions != learner.timesteps:
        # A halt drops the rollout that it came into.
        assert isinstance(env, EpisodeTracker)  # on a device trainings stop between rollouts
        recorder.abandon()
        env.return_to_mark()
    run.wait_if_halted()
    last = session.save()
    session.log_halt()  # what is saved stays, whatever becomes of this
    if not run.watcher.reason:
        session.validate_last()
    evaluation = None if run.watcher.reason else session.evaluate()
    run.wait_if_halted()
    recorder.finish(compact=not run.watcher.reason)
    metrics = result_metrics(run, evaluation)
    if session.best_reward is not None:
        metrics["best_reward"] = session.best_reward
    session.report_checkpoint(last, final=True)
    if session.judge is not None:
        session.judge.report_cost()
    if learner.timesteps > total:
        run.add_notices(
            [f"trained {learner.timesteps - total} transitions more than {total}: rollouts and vector steps are whole"]
        )
    run.finish(
        metrics=metrics,
        timesteps=learner.timesteps,
        in_sample=None if evaluation is None else evaluation.in_sample,
    )
