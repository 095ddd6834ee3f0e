"""The model registry's run listener: a model per checkpoint, with its evaluations, validated by gates."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from alphaswarm_rl.core.contracts import AnyVectorEnv
from alphaswarm_rl.core.run_listener import (
    Checkpoint,
    Evaluation,
    EvaluationMetrics,
    PolicyEvaluation,
    RunHandle,
    RunListener,
)
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.models.gates import ACTIONS_VARY, CURVES, UPDATES
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import ModelRow, NewEvaluation, NewModel, Scope, Source
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.statistics.performance import reward_measures

_log = logging.getLogger(__name__)

#: Phases whose evaluations count for a model, and what the registry calls them. A replay is about other data.
_SOURCES: dict[str, Source] = {"validation": "validation", "evaluate": "evaluate"}


class ModelListener(RunListener):
    """Registers the checkpoints of a training run, and adds evaluations to the models they belong to.

    Args:
        run: The run.
        spec: What is run.
        settings: Where the registry is.
        scope_of: The scope of models that are trained in an environment.
    """

    def __init__(
        self, run: RunHandle, spec: RLExperimentSpec, settings: Settings, scope_of: Callable[[AnyVectorEnv], Scope]
    ) -> None:
        self._run = run
        self._facts = run.facts()
        self._spec = spec
        self._scope_of = scope_of
        registry = ModelRegistry.open(settings)
        try:
            registry.check_profile()
            self._registry = registry.holding(run.claim)
        except BaseException:
            registry.close()
            raise
        self._scope: Scope | None = None
        #: An evaluation whose policy has no checkpoint yet: it belongs to the one that is saved at the same step.
        self._unsaved: PolicyEvaluation | None = None

    def on_built(self, env: AnyVectorEnv) -> None:
        """Notes which models those of this run may be compared with."""
        self._scope = self._scope_of(env)
        run = self._facts
        if run.target == "train" and run.checkpoint is not None and run.checkpoint_sha256 is not None:
            # The process that saved the checkpoint of a resumed run may have died before it registered it.
            path = Path(run.checkpoint)
            if path.is_dir():  # else it goes on from an earlier one
                self._register(Checkpoint(path, run.checkpoint_sha256, int(path.name)))

    def on_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Registers the checkpoint, with the evaluation that came before it was saved."""
        row = self._register(checkpoint)
        evaluated, self._unsaved = self._unsaved, None
        if evaluated is not None and evaluated.timesteps == checkpoint.timesteps:
            self._validate(row, evaluated)

    def on_evaluation(self, evaluated: PolicyEvaluation) -> None:
        """Adds an evaluation to its model and runs the gates at once."""
        if evaluated.phase not in _SOURCES:
            return
        if evaluated.checkpoint is None:
            self._unsaved = evaluated
        elif self._facts.target == "train":
            self._validate(self._register(evaluated.checkpoint), evaluated)
        else:
            row = self._registered(evaluated.checkpoint)
            if row is not None:
                self._validate(row, evaluated)

    def has_heard(self, checkpoint: Checkpoint, evaluation: EvaluationMetrics) -> bool:
        """Whether the model of the checkpoint has an evaluation of that phase by this run."""
        source = _SOURCES.get(evaluation.phase)
        models = [row for row in self._registry.at(checkpoint.path) if row.sha256 == checkpoint.sha256]
        found = [row for model in models for row in self._registry.evaluations(model.id)]
        return source is None or any((row.source, row.run_id) == (source, self._facts.id) for row in found)

    def wants_judgement(self, checkpoint: Checkpoint) -> bool:
        """Whether a checkpoint of this training has no score yet that chooses."""
        known = [row for row in self._registry.at(checkpoint.path) if row.sha256 == checkpoint.sha256]
        return self._facts.target == "train" and all(row.judgement_key is None for row in known)

    def on_judgement(self, evaluated: PolicyEvaluation) -> None:
        """Adds a judgement to the model of its checkpoint and runs the gates at once."""
        assert evaluated.checkpoint is not None
        took = (datetime.now(UTC) - evaluated.started).total_seconds()
        self._validate(
            self._register(evaluated.checkpoint),
            evaluated,
            judged_on=evaluated.judgement.window,
            mean_reward=evaluated.evaluation.metrics["mean_reward"],
            seconds=round(took, 3),
        )

    def held_checkpoints(self, folder: Path) -> Sequence[Path]:
        """Checkpoints that the registry holds."""
        return sorted(self._registry.held(folder))

    def on_pruned(self, paths: Sequence[Path]) -> None:
        """Archives models whose checkpoints are gone."""
        for row in (row for path in paths for row in self._registry.at(path)):
            self._registry.archive(
                row.id, because="its run keeps newer checkpoints, and it is neither the best nor in use"
            )

    def close(self) -> None:
        """Closes the registry."""
        self._registry.close()

    def _register(self, checkpoint: Checkpoint) -> ModelRow:
        assert self._scope is not None
        run = self._facts
        model = replace(
            NewModel.of_checkpoint(checkpoint, self._spec, self._scope),
            git_commit=run.code_fingerprint.get("git_commit"),
            run_id=run.id,
            spec_hash=run.spec_hash,
            exec_hash=run.exec_hash,
        )
        return self._registry.register(model)

    def _registered(self, checkpoint: Checkpoint) -> ModelRow | None:
        """The model of a checkpoint, if the registry knows it and its rewards mean what they mean in this run."""
        rows = [row for row in self._registry.at(checkpoint.path) if row.sha256 == checkpoint.sha256]
        row = rows[0] if rows else self._registry.find(sha256=checkpoint.sha256)
        if row is not None and row.scope != self._scope:
            _log.warning("model %d keeps its evaluations: this one is of another environment or reward", row.id)
            return None
        return row

    def _chooses(self, evaluated: PolicyEvaluation) -> bool:
        """Whether an evaluation is a score on a validation window that shows nothing of training."""
        if evaluated.phase != "validation" or evaluated.in_training is not False:
            return False
        # A run that judges a model was given its dates; a training has them of its spec, or validates on all bars.
        return self._facts.target != "train" or bool(self._spec.training.validation_window)

    def _is_known(self, row: ModelRow, evaluation: NewEvaluation) -> bool:
        """Whether this run added the same score before: it was resumed, or its validation is its judgement."""
        new = (evaluation.run_id, evaluation.source, evaluation.judgement, evaluation.returns)
        return any(
            (old.run_id, old.source, old.judged_on, old.returns) == new for old in self._registry.evaluations(row.id)
        )

    def _validate(self, row: ModelRow, evaluated: PolicyEvaluation, **details: object) -> None:
        evaluation, metrics = evaluated.evaluation, evaluated.evaluation.metrics
        chooses = self._chooses(evaluated)
        # An episode that is played again is no further evidence.
        rewards = reward_measures(evaluation.distinct)
        new = NewEvaluation(
            episodes=len(evaluation.distinct),
            mean_reward=rewards["mean_reward"],
            std_reward=rewards["std_reward"],
            mean_episode_length=metrics["mean_length"],
            seed=evaluated.seed,
            deterministic=evaluated.deterministic,
            window_start=metrics["window_start"],
            window_end=metrics["window_end"],
            in_sample=evaluated.in_training if chooses else evaluation.in_sample,
            returns=evaluation.distinct,
            source=_SOURCES[evaluated.phase],
            run_id=self._facts.id,
            metrics={**metrics, **_evidence(evaluation)},
            judgement=evaluated.judgement,
            chooses=chooses,
        )
        if self._is_known(row, new):
            return
        curve = [] if row.run_id is None else self._run.training_curve(row.run_id, row.total_timesteps)
        validation = self._registry.validate(row.id, curve=curve, evaluation=new)
        self._run.emit(
            "model.validated",
            model_id=row.id,
            passed=validation.passed,
            profile=validation.profile,
            failed=[verdict.gate for verdict in validation.checks if not verdict.passed],
            **details,
        )


def _evidence(evaluation: Evaluation) -> JsonObject:
    """What gates need of an evaluation beside its metrics."""
    found: JsonObject = {UPDATES: evaluation.updates, ACTIONS_VARY: evaluation.actions_vary}
    if evaluation.curves is not None:
        found[CURVES] = evaluation.curves.to_json()
    return {name: value for name, value in found.items() if value is not None}
