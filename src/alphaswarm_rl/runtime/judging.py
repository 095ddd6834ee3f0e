"""Judging checkpoints of a training on its validation window, for the model registry alone.

Nothing of it is recorded step by step, stored in the ledger or told to trackers: a training that is judged ends with
the rows and weights of one that is not. A judgement is made once, however often a run is killed and resumed.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from dataclasses import dataclass

from alphaswarm_rl.core.contracts import AnyVectorEnv, Learner
from alphaswarm_rl.core.run_listener import Checkpoint
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.inference.builder import Builder, load_preprocessing, preprocessing_state
from alphaswarm_rl.runtime.evaluate import evaluate_policy, evaluation_env
from alphaswarm_rl.runtime.rollout import EvaluationPlan
from alphaswarm_rl.runtime.run import Run
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec.sections import TrainingSpec

_log = logging.getLogger(__name__)
_NO_EPISODES = "nothing: evaluation.episodes is 0"
_NEVER_BEST = (
    "models of this run are never the best: the spec has dates and no validation window, and only scores on that "
    "choose; it is named by training.validation_start and validation_end"
)


@dataclass(frozen=True)
class Choosing:
    """What will choose the best model of a training.

    Attributes:
        words: It, in words.
        judged: The dates on which each checkpoint is judged; None: none is.
        notice: What the run's row says where nothing can choose.
    """

    words: str
    judged: Window | None = None
    notice: str | None = None


def evaluation_interval(training: TrainingSpec) -> int | None:
    """Transitions between two evaluations that choose the best model; None where none is sought."""
    if not training.eval_during_training:
        return None
    return training.eval_freq or max(1, training.total_timesteps // 10)


def how_the_best_is_chosen(builder: Builder, settings: Settings) -> Choosing:
    """What will choose the best model of a training: validations, judged checkpoints, the evaluation, or nothing.

    Args:
        builder: Builds what is trained; it looks at the data where there is a validation window.
        settings: Where it is trained.
    """
    training, episodes = builder.spec.training, builder.spec.evaluation.episodes
    window, every = training.validation_window, evaluation_interval(training)
    played = f"{episodes} episode{'s' * (episodes != 1)}"
    validations = None if every is None else f"validations of {played} every {every} transitions"
    if validations is not None and window:
        validations += f" on {window}"
    judged = _judged_window(builder, settings)
    if isinstance(judged, Window):
        each = f"each checkpoint judged by {played} on {judged}"
        return Choosing(each if validations is None else f"{validations}; {each}", judged)
    words, notice = judged
    if not builder.agent.trains:
        words, notice = "nothing: the agent learns nothing", None
    return Choosing(validations or words, notice=notice)


def _judged_window(builder: Builder, settings: Settings) -> Window | tuple[str, str | None]:
    """The dates on which each checkpoint is judged; where none is, what chooses instead, and a notice."""
    training, registry = builder.spec.training, settings.registry
    if not registry.enable:
        return "nothing: registry.enable and training.eval_during_training are off", None
    if not training.validation_window:
        if builder.has_dates:
            return "nothing: there are dates and no training.validation_start and validation_end", _NEVER_BEST
        return "the evaluation at the end" if builder.spec.evaluation.episodes else _NO_EPISODES, None
    if not builder.spec.evaluation.episodes:
        return _NO_EPISODES, None
    if not registry.judge_checkpoints:
        return "nothing: registry.judge_checkpoints and training.eval_during_training are off", None
    judged = builder.judged_window(training.validation_window, builder.trained_windows())
    if judged is not None:
        return judged
    why = _why_nothing_is_left(builder, training)
    notice = f"no checkpoint is judged: {why}; name other dates by training.validation_start and validation_end"
    return f"nothing: {notice}", notice


def _why_nothing_is_left(builder: Builder, training: TrainingSpec) -> str:
    """Why no date of a validation window can be judged on."""
    window = training.validation_window
    if builder.judged_window(window, []) is None:
        return f"the data has no bar in {window}"
    own = builder.judged_window(window, [training.window]) is None
    return f"{'training' if own else 'the training that the weights come from'} sees all of {window}"


class CheckpointJudge:
    """Judges checkpoints of one training; made by `open`.

    Args:
        run: The run.
        builder: Builds what it needs.
        env: The environment of the judged dates.
        window: Those dates: of the validation window what training does not see.
    """

    def __init__(self, run: Run, builder: Builder, env: AnyVectorEnv, window: Window) -> None:
        self._run, self._builder = run, builder
        self._env, self._window = env, window
        self._judged = 0
        self._seconds = 0.0
        self._began = time.perf_counter()

    @classmethod
    def open(
        cls, run: Run, builder: Builder, validation: AnyVectorEnv | None, opened: ExitStack
    ) -> CheckpointJudge | None:
        """The judge of a training; None where its spec has no validation window, or the settings want none.

        A spec with dates and without that window is a notice in the run's row: its models will never be the best.

        Args:
            run: The run.
            builder: Builds what it needs.
            validation: The environment of the validations that seek the best model, where it is sought: it is played
                where the judged dates are its own.
            opened: Closes an environment that the judge has for itself.
        """
        choosing = how_the_best_is_chosen(builder, run.settings)
        if choosing.notice is not None:
            run.add_notices([choosing.notice])
        window, spec = choosing.judged, run.spec
        if window is None:
            return None
        if validation is not None and window == spec.training.validation_window:
            return cls(run, builder, validation, window)
        env = evaluation_env(builder, "validation", window, episodes=spec.evaluation.episodes)
        opened.callback(env.close)
        return cls(run, builder, env, window)

    def judge(self, learner: Learner, trained_in: AnyVectorEnv, checkpoint: Checkpoint) -> None:
        """Judges the policy of a checkpoint that was just saved or loaded, unless it was judged before or is halted.

        Args:
            learner: The policy.
            trained_in: The training environment, whose statistics of observations are taken over.
            checkpoint: Its checkpoint.
        """
        if not any(listener.wants_judgement(checkpoint) for listener in self._run.listeners):
            return
        began = time.perf_counter()
        load_preprocessing(self._env, preprocessing_state(trained_in))
        evaluation = self._run.spec.evaluation
        plan = EvaluationPlan(
            phase="validation",
            window=self._window,
            episodes=evaluation.episodes,
            deterministic=evaluation.deterministic,
            timesteps=checkpoint.timesteps,
            checkpoint=checkpoint,
        )
        evaluated = evaluate_policy(self._run, self._builder, learner, self._env, None, plan)
        if evaluated is None:
            return
        for listener in self._run.listeners:
            listener.on_judgement(evaluated)
        self._judged += 1
        self._seconds += time.perf_counter() - began

    def report_cost(self) -> None:
        """Says how long judging took."""
        if self._judged:
            share = self._seconds / max(time.perf_counter() - self._began, 1e-9)
            judged = f"{self._judged} checkpoint{'s' * (self._judged != 1)}"
            _log.info(
                "run %s: judged %s on %s in %.2f s, %.1f %% of the training (--no-judge-checkpoints: none)",
                *(self._run.id[:8], judged, self._window, self._seconds, 100 * share),
            )
