"""The model registry as an observer of runs: a row per checkpoint, filled by evaluations, judged by gates."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from alphaswarm_rl.core.contracts import AnyVectorEnv
from alphaswarm_rl.inference.checkpoints import Checkpoint
from alphaswarm_rl.inference.scopes import scope_of
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import ModelRow, NewEvaluation, NewModel, Scope, Source
from alphaswarm_rl.runtime.model_curve import training_curve
from alphaswarm_rl.runtime.observers import Judged, RunObserver, Watched

_log = logging.getLogger(__name__)

#: Phases whose evaluations count for a model, and what the registry calls them. A replay tells of other data.
_COUNTS: dict[str, Source] = {"validation": "validation", "evaluate": "evaluate"}


class ModelObserver(RunObserver):
    """Registers the checkpoints of a training run, and adds evaluations to the models that they are of.

    Args:
        watched: The run.
    """

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._registry = ModelRegistry.open(watched.settings)
        try:
            self._registry.check_profile()
        except BaseException:
            self._registry.close()
            raise
        self._scope: Scope | None = None
        self._algorithm = ""
        #: An evaluation whose policy has no checkpoint yet: it belongs to the one that is saved at the same step.
        self._unsaved: Judged | None = None

    def built(self, env: AnyVectorEnv, agent: str) -> None:
        """Notes what the models of this run may be compared with."""
        self._scope, self._algorithm = scope_of(self._watched.spec, env), agent
        run = self._watched.run
        if run.target == "train" and run.checkpoint is not None and run.checkpoint_sha256 is not None:
            # The process that wrote what is gone on from may have died before it registered it.
            path = Path(run.checkpoint)
            self._registered(Checkpoint(path, run.checkpoint_sha256, int(path.name)))

    def saved(self, checkpoint: Checkpoint) -> None:
        """A row for the checkpoint, with the evaluation that came before it was saved."""
        row = self._registered(checkpoint)
        judged, self._unsaved = self._unsaved, None
        if judged is not None and judged.timesteps == checkpoint.timesteps:
            self._add(row, judged)

    def judged(self, judged: Judged) -> None:
        """Adds an evaluation to its model and runs the gates at once."""
        if judged.phase not in _COUNTS:
            return
        if judged.checkpoint is None:
            self._unsaved = judged
        elif self._watched.run.target == "train":
            self._add(self._registered(judged.checkpoint), judged)
        else:
            row = self._known(judged.checkpoint)
            if row is not None:
                self._add(row, judged)

    def held(self, folder: Path) -> Sequence[Path]:
        """Checkpoints that the registry holds."""
        return sorted(self._registry.held(folder))

    def pruned(self, paths: Sequence[Path]) -> None:
        """Archives models whose checkpoints are gone."""
        for row in (row for path in paths for row in self._registry.at(path)):
            self._registry.archive(row.id, because="never evaluated, and its run keeps newer checkpoints")

    def close(self) -> None:
        """Closes the registry."""
        self._registry.close()

    def _registered(self, checkpoint: Checkpoint) -> ModelRow:
        run, agent = self._watched.run, self._watched.spec.agent
        assert agent is not None
        assert self._scope is not None
        return self._registry.register(
            NewModel(
                model_path=checkpoint.path,
                algorithm=self._algorithm,
                scope=self._scope,
                total_timesteps=checkpoint.timesteps,
                sha256=checkpoint.sha256,
                hyperparams=agent.kwargs,
                git_commit=run.code_fingerprint.get("git_commit"),
                run_id=run.id,
                spec_hash=run.spec_hash,
                exec_hash=run.exec_hash,
            )
        )

    def _known(self, checkpoint: Checkpoint) -> ModelRow | None:
        """The model that a checkpoint is, if the registry knows it and its rewards mean what they mean in this run."""
        there = [row for row in self._registry.at(checkpoint.path) if row.sha256 == checkpoint.sha256]
        row = there[0] if there else self._registry.find(sha256=checkpoint.sha256)
        if row is not None and row.scope != self._scope:
            _log.warning("model %d keeps its evaluations: this one is of another environment or reward", row.id)
            return None
        return row

    def _add(self, row: ModelRow, judged: Judged) -> None:
        evaluation, metrics = judged.evaluation, judged.evaluation.metrics
        # An episode that is played again is no further evidence.
        returns = np.array(evaluation.distinct)
        curve = [] if row.run_id is None else training_curve(self._watched.ledger, row.run_id, row.total_timesteps)
        validation = self._registry.validate(
            row.id,
            curve=curve,
            evaluation=NewEvaluation(
                episodes=len(returns),
                mean_reward=float(returns.mean()),
                std_reward=float(returns.std()),
                mean_episode_length=metrics["mean_length"],
                seed=judged.seed,
                deterministic=judged.deterministic,
                window_start=metrics["window_start"],
                window_end=metrics["window_end"],
                in_sample=evaluation.in_sample,
                returns=evaluation.distinct,
                source=_COUNTS[judged.phase],
                run_id=self._watched.run.id,
                metrics=metrics,
            ),
        )
        self._watched.bus.emit(
            "model.validated",
            model_id=row.id,
            passed=validation.passed,
            profile=validation.profile,
            failed=[verdict.gate for verdict in validation.checks if not verdict.passed],
        )
