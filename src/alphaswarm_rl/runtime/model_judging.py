"""Two registered models judged alike: on the validation window of one, without the bars that either was trained on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.core.judgement import judgement_differences
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.inference.builder import Builder, builder_for
from alphaswarm_rl.inference.checkpoints import load_checkpoint
from alphaswarm_rl.inference.selection import trainer_of
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import EvaluationRow, ModelRow
from alphaswarm_rl.runtime.model_runs import evaluated_model, refuse_archived
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec


@dataclass(frozen=True)
class ModelJudgement:
    """What judging models alike came to.

    Attributes:
        window: The dates that they were judged on.
        evaluations: The new score of each model, in the order in which they were judged; fewer where a run was halted.
        differences: In which respects they could not be judged alike; none where they were.
        better: The model with the higher score; None where there is one model, or they were not judged alike.
    """

    window: Window
    evaluations: tuple[EvaluationRow, ...]
    differences: tuple[str, ...] = ()
    better: int | None = None


def judge_models(
    model_id: int,
    settings: Settings,
    *,
    against: int | None = None,
    overrides: JsonMapping | None = None,
    strict: bool = False,
) -> ModelJudgement:
    """Judges a model and the one in production, or another, on the first one's validation window.

    Bars that either was trained on are left out. Each is played in a run of its own, with the episodes and the seed of
    the first model's training; the scores are added to both, and their gates run again.

    Args:
        model_id: The model whose validation window is played.
        settings: Where everything is.
        against: The other model; None: the one in production of the same scope, if there is another.
        overrides: Where the arguments come from, stored in the runs' rows.
        strict: Whether changed components are refused.
    """
    with ModelRegistry.existing(settings) as registry:
        rows = _judged_rows(registry, model_id, against)
        specs = [load_checkpoint(row.path, expected_sha256=row.sha256).trained_spec for row in rows]
        seed = _seed(settings, rows[0], specs[0])
        window = _window(rows, specs, settings, seed)
        evaluation = specs[0].evaluation
        found = []
        for row in rows:
            result, _ = evaluated_model(
                registry,
                row,
                settings,
                overrides=overrides,
                seed=seed,
                window=window,
                episodes=evaluation.episodes or 1,
                deterministic=evaluation.deterministic,
                strict=strict,
                validation=True,
            )
            found += [each for each in registry.evaluations(row.id) if each.run_id == result.run_id]
        if len(found) < 2:
            return ModelJudgement(window, tuple(found))
        differences = tuple(judgement_differences(found[0].judged_on, found[1].judged_on))
        return ModelJudgement(
            window, tuple(found), differences, None if differences else registry.better(rows[0].id, rows[1].id)
        )


def _judged_rows(registry: ModelRegistry, model_id: int, against: int | None) -> list[ModelRow]:
    """The model, and the other one where there is one."""
    model = registry.get(model_id)
    refuse_archived(model)
    if against == model_id:
        raise ModelError(f"model {model_id}", "it cannot be judged against itself", "Name another: --against ID.")
    if against is None:
        live = [row for row in registry.list(scope=model.scope) if row.deployment_status == "production"]
        return [model, *(row for row in live if row.id != model_id)]
    other = registry.get(against)
    refuse_archived(other)
    if other.scope != model.scope:
        raise ModelError(
            f"model {other.id}",
            f"it is of {other.scope}, and model {model_id} of {model.scope}",
            "Judge models of one scope: rl models list.",
        )
    return [model, other]


def _seed(settings: Settings, row: ModelRow, spec: RLExperimentSpec) -> int:
    with Ledger.open(settings) as ledger:
        trainer = trainer_of(ledger, row.path)
    return spec.seed if trainer is None else trainer.seed


def _window(rows: Iterable[ModelRow], specs: list[RLExperimentSpec], settings: Settings, seed: int) -> Window:
    """The dates of the first model's validation window that none of them was trained on."""
    model, validation = next(iter(rows)), specs[0].training.validation_window
    builders = [builder_for(spec, settings, seed=seed, device="cpu", frames=None) for spec in specs]
    _refuse_no_validation_window(model, builders[0], validation)
    seen = [window for builder in builders for window in builder.trained_windows()]
    builders[0].load_data((validation, *seen))
    window = builders[0].judged_window(validation, seen)
    if window is None:
        raise ModelError(
            f"model {model.id}",
            f"its validation window, {validation}, has no bar that neither model was trained on",
            "Judge it against a model that was trained on other dates: --against ID.",
        )
    return window


def _refuse_no_validation_window(model: ModelRow, builder: Builder, validation: Window) -> None:
    if not builder.has_dates:
        raise ModelError(
            f"model {model.id}",
            "its environment has no dates, so every evaluation chooses",
            f"Evaluate it: rl evaluate --model-id {model.id}.",
        )
    if not validation:
        raise ModelError(
            f"model {model.id}",
            "its spec has no validation window, so it is never the best of its scope",
            "Train a spec that has training.validation_start and validation_end.",
        )
