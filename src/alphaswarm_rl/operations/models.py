"""Looking at the model registry: the list, one model, the best one, and what has happened to a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.models import EvaluationRow as EvaluationRow
from alphaswarm_rl.models import ModelRegistry, ModelRow
from alphaswarm_rl.models import PromotionRow as PromotionRow
from alphaswarm_rl.models import ValidationRow as ValidationRow
from alphaswarm_rl.operations.data import Count, Data
from alphaswarm_rl.operations.operation import operation
from alphaswarm_rl.settings import Settings


class RegisteredModel(Data, merged="row", apart=("aliases",)):
    """A model.

    Attributes:
        row: Its row in the registry.
        scope: The short name of its scope: of the models that it may be compared with.
        aliases: Names that point to it.
    """

    row: ModelRow
    scope: str
    aliases: tuple[str, ...] = ()

    @classmethod
    def of(cls, row: ModelRow, aliases: Sequence[str] = ()) -> Self:
        """The model of a row."""
        return cls(row, row.scope.short, tuple(aliases))


class ListedModel(RegisteredModel, merged="row"):
    """A model of a list: its document has its aliases too."""


class ModelList(Data, only="models"):
    """Models, the best first; `missing` is the file of a registry that is not there yet."""

    models: tuple[ListedModel, ...]
    missing: Path | None = None


class NamedModel(Data):
    """A model by its id."""

    model: int


class ModelDetails(Data):
    """A model with its aliases, and its newest evaluation and validation."""

    model: RegisteredModel
    aliases: tuple[str, ...]
    evaluation: EvaluationRow | None
    validation: ValidationRow | None


class FindBest(Data):
    """Among which models the best is looked for; models of several scopes are not compared.

    Attributes:
        env_id: Only of that environment.
        algorithm: Only of that agent.
        tag: Only with that tag.
        scope: Only of that scope, or of a beginning of its name.
    """

    env_id: str | None = None
    algorithm: str | None = None
    tag: str | None = None
    scope: str | None = None


class ListModels(FindBest):
    """Which models are listed: of all those, in any scope.

    Attributes:
        validated: Only those whose newest validation passed.
        top_n: At most that many.
        min_mean_reward: Only with that mean reward or more.
        archived: Whether archived ones are listed too.
    """

    validated: bool = False
    top_n: Count | None = None
    min_mean_reward: float | None = None
    archived: bool = False


class ModelHistory(Data):
    """What has happened to a model, the oldest first."""

    model_id: int
    evaluations: tuple[EvaluationRow, ...]
    validations: tuple[ValidationRow, ...]
    promotions: tuple[PromotionRow, ...]


@operation("models.list")
def list_models(settings: Settings, request: ListModels) -> ModelList:
    """Models, the best first."""
    file = settings.registry_file
    if file is not None and not file.exists():
        return ModelList((), missing=file)
    with ModelRegistry.open(settings) as registry:
        found = registry.list(
            validated=True if request.validated else None,
            top_n=request.top_n,
            env_id=request.env_id,
            algorithm=request.algorithm,
            tag=request.tag,
            min_mean_reward=request.min_mean_reward,
            scope=None if request.scope is None else registry.scope(request.scope),
            archived=request.archived,
        )
        aliases = registry.all_aliases()
    return ModelList(tuple(ListedModel.of(row, aliases.get(row.id, ())) for row in found))


@operation("models.show")
def show_model(settings: Settings, request: NamedModel) -> ModelDetails:
    """Everything about one model."""
    with ModelRegistry.open(settings, make=False) as registry:
        row = registry.get(request.model)
        aliases = registry.aliases(row.id)
        evaluations = registry.evaluations(row.id)
        validations = registry.validations(row.id)
    return ModelDetails(
        RegisteredModel.of(row, aliases),
        tuple(aliases),
        evaluations[-1] if evaluations else None,
        validations[-1] if validations else None,
    )


@operation("models.best")
def best_model(settings: Settings, request: FindBest) -> RegisteredModel:
    """The model with the highest lower bound of its mean reward among those that passed; of equal ones the newest.

    Raises:
        ModelError: No such model passed its newest validation, or they are of several scopes.
    """
    with ModelRegistry.open(settings, make=False) as registry:
        scope = None if request.scope is None else registry.scope(request.scope)
        found = registry.best(scope, env_id=request.env_id, algorithm=request.algorithm, tag=request.tag)
        if found is None:
            why, remedy = registry.why_none_is_best(
                scope, env_id=request.env_id, algorithm=request.algorithm, tag=request.tag
            )
            raise ModelError("the best model", why, remedy)
        return RegisteredModel.of(found, registry.aliases(found.id))


@operation("models.history")
def model_history(settings: Settings, request: NamedModel) -> ModelHistory:
    """A model's evaluations, validations and promotions."""
    with ModelRegistry.open(settings, make=False) as registry:
        return ModelHistory(
            request.model,
            tuple(registry.evaluations(request.model)),
            tuple(registry.validations(request.model)),
            tuple(registry.promotions(request.model)),
        )
