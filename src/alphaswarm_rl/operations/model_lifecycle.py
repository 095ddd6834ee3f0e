"""What happens to a model: it is added, loaded, validated, promoted, rolled back, protected, pruned.

Whoever changes a model's place says who they are and why; both are kept for good.
"""

from __future__ import annotations

import getpass
import logging
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pydantic import ValidationError

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.core.files import read_regular
from alphaswarm_rl.core.json import load_json
from alphaswarm_rl.core.model import explain
from alphaswarm_rl.inference.checkpoints import CheckpointStore
from alphaswarm_rl.inference.model_import import GivenMetrics, add_model
from alphaswarm_rl.inference.registered_models import load_model, model_by_id
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.liveness import LIVE
from alphaswarm_rl.models import ModelRegistry, ModelRow, PromotionRow, Scope, ValidationRow
from alphaswarm_rl.models.rows import Status as Status
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.models import NamedModel, RegisteredModel
from alphaswarm_rl.operations.operation import operation
from alphaswarm_rl.runtime.model_runs import delete_released
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import load_spec
from alphaswarm_rl.telemetry.log_export import exporting_logs

_log = logging.getLogger(__name__)

_KEYS = "mean_reward, std_reward, mean_episode_length, total_timesteps, and more if known"
#: Bytes of a file of metrics: the returns of a million episodes are a fraction of it.
_METRICS_BYTES = 64 << 20
_SCOPE = re.compile(r"[0-9a-f]{4,12}")


class AddModel(Data):
    """A model that was not trained here.

    Attributes:
        path: A checkpoint folder, or a zip that Stable-Baselines3 saved.
        metrics: Its metrics: the path of a JSON file, or the JSON itself.
        spec: YAML file or preset of the agent that a zip is of; else the metrics say it.
        tags: Words to find it by.
        parent: The model that it was trained on from, of the same scope.
    """

    path: Path
    metrics: str
    spec: str | None = None
    tags: tuple[str, ...] = ()
    parent: int | None = None


class LoadModel(NamedModel):
    """A model by its id, and whether one that did not pass its latest validation is loaded too."""

    unvalidated: bool = False


class LoadedModel(Data):
    """What a model that was loaded is, with its action for a sample observation."""

    model_id: int
    algorithm: str
    env_id: str
    scope: str
    observation_space: str
    action_space: str
    remembers: bool
    device: str
    checkpoint: str
    sha256: str
    sample_action: object


class ValidateModel(NamedModel):
    """A model by its id, and whether the verdict is only given, not stored."""

    dry_run: bool = False


class JudgeModel(NamedModel):
    """A model that is judged on its validation window.

    Attributes:
        model: The model's id.
        against: The model that is judged beside it; else the one in production of the same scope.
        strict: Whether components that changed since a version was stored are refused.
    """

    against: int | None = None
    strict: bool = False


class JudgedModel(Data):
    """A model's new score, and the run that found it."""

    model_id: int
    run_id: str
    mean_reward: float | None
    lower_bound: float | None
    episodes: int
    judgement_key: str | None
    validated: bool


class JudgedModels(Data):
    """Models that were judged on the same dates.

    Attributes:
        start: First date of the window: of the first model's validation window what neither was trained on.
        end: First date after it.
        models: Their scores; fewer than two where there is no other model, or a run was halted.
        differences: In which respects they were not judged alike all the same; none where they were.
        better: The model with the higher score, where they were judged alike.
    """

    start: str | None
    end: str | None
    models: tuple[JudgedModel, ...]
    differences: tuple[str, ...]
    better: int | None


class PromoteModel(NamedModel):
    """A model's new place.

    Attributes:
        model: The model's id.
        reason: Why.
        to: Its new place.
        alias: A further alias for it.
        who: Who wants it; the user of this system where nobody is named.
        even_if_worse: Whether a score below that of the present production model is accepted.
    """

    reason: str
    to: Status = "production"
    alias: str | None = None
    who: str | None = None
    even_if_worse: bool = False


class RollBack(Data):
    """Where the production model before the present one comes back.

    Attributes:
        reason: Why.
        where: The scope, or an alias of a model of it; else the one scope that has a model in production.
        who: Who wants it; the user of this system where nobody is named.
    """

    reason: str
    where: str | None = None
    who: str | None = None


class ProtectModel(NamedModel):
    """Whether a model is kept from being pruned.

    Attributes:
        model: The model's id.
        reason: Why.
        on: Whether it is kept, or released.
        who: Who wants it; the user of this system where nobody is named.
    """

    reason: str
    on: bool = True
    who: str | None = None


class PruneModels(Data):
    """Whether models are only named, and who wants it; the user of this system where nobody is named."""

    dry_run: bool = False
    who: str | None = None


class Pruning(Data):
    """The models that were archived, or would be, and the checkpoints that were deleted."""

    dry_run: bool
    models: tuple[RegisteredModel, ...]
    deleted: tuple[Path, ...]


@operation("models.add", changes=True)
def register_model(settings: Settings, request: AddModel) -> RegisteredModel:
    """Registers a model that was not trained here, with its metrics; it is not validated yet."""
    metrics = _metrics(request.metrics)
    spec = None if request.spec is None else load_spec(request.spec)
    with ModelRegistry.open(settings) as registry:
        row = add_model(
            registry,
            settings,
            request.path,
            metrics,
            spec=spec,
            tags=request.tags,
            parent_model_id=request.parent,
        )
    return RegisteredModel.of(row)


@operation("models.load")
def try_model(settings: Settings, request: LoadModel) -> LoadedModel:
    """Loads a model, verifies it and asks it for an action, as a server would do."""
    with ModelRegistry.open(settings, make=False) as registry:
        row = model_by_id(registry, request.model, unvalidated=request.unvalidated)
    with closing(load_model(row, settings)) as policy:
        return LoadedModel(
            model_id=row.id,
            algorithm=row.algorithm,
            env_id=row.env_id,
            scope=row.scope.short,
            observation_space=str(policy.observation_space),
            action_space=str(policy.action_space),
            remembers=policy.remembers,
            device=policy.device,
            checkpoint=row.model_path,
            sha256=policy.checkpoint.sha256,
            sample_action=policy.warm_up(),
        )


@operation("models.validate", changes=True)
def validate_model(settings: Settings, request: ValidateModel) -> ValidationRow:
    """Puts a model through the gates; what each gate said, and what it saw, is kept."""
    with _registry(settings) as registry:
        known = registry.get(request.model)
        if known.archived:
            raise ModelError(
                f"model {known.id}", f"it is archived: {known.archived_because}", "Judge another: rl models list."
            )
        row = registry.validate(known.id, curve=_curve(settings, known), dry_run=request.dry_run)
        failed = [check.gate for check in row.checks if not check.passed]
        verdict = f"did not pass {', '.join(failed)}" if failed else "passed"
        # The facts of the event that a validation in a run is.
        facts = {"model_id": known.id, "passed": row.passed, "profile": row.profile, "failed": failed}
        event = {} if request.dry_run else {"event": "model.validated", "facts": facts}
        _log.info("model %d: it %s (profile %s)", known.id, verdict, row.profile, extra=event)
    return row


@operation("models.judge", changes=True)
def judge_model(settings: Settings, request: JudgeModel) -> JudgedModels:
    """Judges a model and the one in production alike, on the model's validation window.

    Bars that either was trained on are left out. The scores are added to both models, and their gates run again.
    """
    from alphaswarm_rl.runtime.model_judging import judge_models

    found = judge_models(request.model, settings, against=request.against, strict=request.strict)
    with _registry(settings) as registry:
        judged = tuple(
            JudgedModel(
                row.model_id,
                row.run_id or "",
                row.mean_reward,
                row.lower_bound,
                row.episodes,
                row.judgement_key,
                registry.has_passed(row.model_id),
            )
            for row in found.evaluations
        )
    return JudgedModels(found.window.start, found.window.end, judged, found.differences, found.better)


@operation("models.promote", changes=True)
def promote_model(settings: Settings, request: PromoteModel) -> PromotionRow:
    """Puts a model into production, or elsewhere.

    Production needs a newest validation that passed and a file that is the registered one; where there are dates also a
    score on a validation window, not below that of the production model where both were judged alike. The production
    model of the same scope goes back to staging, and champion names the new one.
    """
    with _registry(settings) as registry:
        return registry.promote(
            request.model,
            to=request.to,
            who=_who(request.who),
            why=request.reason,
            alias=request.alias,
            even_if_worse=request.even_if_worse,
        )


@operation("models.rollback", changes=True)
def roll_back(settings: Settings, request: RollBack) -> PromotionRow:
    """Puts the production model before the present one back; its file is verified first."""
    with _registry(settings) as registry:
        return registry.rollback(_place(registry, request.where), who=_who(request.who), why=request.reason)


@operation("models.protect", changes=True)
def protect_model(settings: Settings, request: ProtectModel) -> PromotionRow:
    """Keeps a model from being pruned, or releases it again."""
    with _registry(settings) as registry:
        return registry.protect(request.model, request.on, who=_who(request.who), why=request.reason)


@operation("models.prune", changes=True)
def prune_models(settings: Settings, request: PruneModels) -> Pruning:
    """Archives models that are not worth keeping, and deletes their files.

    Files go after the rows are archived, and only those that no run and no other model needs. Those of models that were
    archived before go too: whoever archived them may have been cut short.
    """
    keep, age = settings.registry.keep_top_n, settings.registry.max_age
    deleted: list[Path] = []
    with Ledger.open(settings) as ledger, _registry(settings) as registry:
        live = [run.id for run in ledger.runs(target="train", limit=None) if run.status in LIVE]
        if request.dry_run:
            archived = registry.plan_prune(keep_top_n=keep, max_age_days=age, spared=live)
        else:
            archived = registry.prune(keep_top_n=keep, max_age_days=age, spared=live, who=_who(request.who))
            store = CheckpointStore(settings.models_path)
            released = [row for row in registry.list(archived=True) if row.archived]
            deleted = delete_released(store, ledger, registry, released, keep_last=settings.store.keep_last)
    return Pruning(request.dry_run, tuple(map(RegisteredModel.of, archived)), tuple(deleted))


@contextmanager
def _registry(settings: Settings) -> Iterator[ModelRegistry]:
    """The registry, which must be there, while telemetry hears what happens to it."""
    with exporting_logs(settings), ModelRegistry.open(settings, make=False) as registry:
        yield registry


def _who(name: str | None) -> str:
    return name or getpass.getuser()


def _metrics(text: str) -> GivenMetrics:
    try:
        return GivenMetrics.model_validate(_json(text))
    except ValidationError as error:
        raise ModelError("the metrics", explain(error, GivenMetrics), f"They are {_KEYS}.") from error


def _json(text: str) -> object:
    if text.lstrip().startswith("{"):
        what, content = "the metrics", text
    else:
        what = f"metrics file {text!r}"
        try:
            content = read_regular(Path(text).expanduser(), most_bytes=_METRICS_BYTES).decode()
        except (OSError, UnicodeDecodeError, RuntimeError) as error:  # RuntimeError: ~ of nobody
            raise ModelError(what, f"it cannot be read: {error}", "Give a JSON file, or the JSON itself.") from error
    try:
        document: object = load_json(content)
    except ValueError as error:
        raise ModelError(what, f"it is no JSON: {error}", f"Write a mapping of {_KEYS}.") from error
    return document


def _curve(settings: Settings, model: ModelRow) -> list[tuple[int, float]]:
    """The training curve of the run that trained it; empty where no run did."""
    if model.run_id is None:
        return []
    with Ledger.open(settings) as ledger:
        return ledger.training_curve(model.run_id, model.total_timesteps)


def _place(registry: ModelRegistry, where: str | None) -> Scope | str:
    if where is not None:
        # No alias can look like a scope.
        return registry.scope(where) if _SCOPE.fullmatch(where) else where
    live = sorted({row.scope for row in registry.list() if row.deployment_status == "production"}, key=str)
    if len(live) != 1:
        why = "no model is in production" if not live else f"{len(live)} scopes have one: {', '.join(map(str, live))}"
        raise ModelError("the rollback", why, "Name the scope." if live else "Promote one: rl models promote ID.")
    return live[0]
