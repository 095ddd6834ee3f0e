"""Judging checkpoints of a training on its validation window, for the model registry alone.

Nothing of it is recorded step by step, stored in the ledger or told to trackers: a training that is judged ends with
the rows and weights of one that is not. A judgement is made once, however often a run is killed and resumed.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack

from alphaswarm_rl.core.contracts import AnyVectorEnv, Learner
from alphaswarm_rl.core.run_listener import Checkpoint
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.inference.builder import Builder, load_preprocessing, preprocessing_state
from alphaswarm_rl.runtime.evaluate import evaluate_policy, evaluation_env
from alphaswarm_rl.runtime.rollout import EvaluationPlan
from alphaswarm_rl.runtime.run import Run

_log = logging.getLogger(__name__)
_NEVER_BEST = (
    "models of this run are never the best: the spec has dates and no validation window, and only scores on that "
    "choose; it is named by training.validation_start and validation_end"
)


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
        spec, registry = run.spec, run.settings.registry
        if not registry.enable:
            return None
        if not spec.training.validation_window:
            run.add_notices([_NEVER_BEST] if builder.agent.trains and builder.has_dates else [])
            return None
        if not (registry.judge_checkpoints and spec.evaluation.episodes):
            return None
        window = builder.judged_window(spec.training.validation_window, builder.trained_windows())
        if window is None:
            run.add_notices([f"no checkpoint is judged: training sees all of {spec.training.validation_window}"])
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
            _log.info(
                "run %s: judged %d checkpoints on %s in %.2f s, %.1f %% of the training (--no-judge-checkpoints: none)",
                *(self._run.id[:8], self._judged, self._window, self._seconds, 100 * share),
            )
