"""The one door to the model registry."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Self, TypeAlias, Unpack

from sqlalchemy import Engine, inspect, select

from alphaswarm_rl.core.claims import Claim
from alphaswarm_rl.core.errors import ModelError, OptionError
from alphaswarm_rl.db.database import Database, open_ready
from alphaswarm_rl.db.engine import open_engine, read, write
from alphaswarm_rl.db.plain_tables import PlainTable, plain_table
from alphaswarm_rl.db.schema import LEDGER, REGISTRY
from alphaswarm_rl.models import claims, places, promotion, queries, ranking, records, retention, validation
from alphaswarm_rl.models.gates import Limits, gates_of
from alphaswarm_rl.models.queries import Conditions
from alphaswarm_rl.models.rows import (
    EvaluationRow,
    ModelRow,
    NewEvaluation,
    NewModel,
    PromotionRow,
    Scope,
    Status,
    ValidationRow,
)
from alphaswarm_rl.models.tables import models, promotions
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.statistics.samples import CONFIDENCE

_log = logging.getLogger(__name__)

_PLAIN = {"models": select(models), "promotions": select(promotions)}

# The registry's own `list` hides the type inside of the class.
Models: TypeAlias = list[ModelRow]
Evaluations: TypeAlias = list[EvaluationRow]
Validations: TypeAlias = list[ValidationRow]
Promotions: TypeAlias = list[PromotionRow]
Scopes: TypeAlias = list[Scope]
Names: TypeAlias = list[str]


class ModelRegistry(Database):
    """Trained models: where they came from, whether they passed, and which one is live.

    Safe to use from several threads and processes. Every method is one transaction of its own.

    Args:
        engine: The database; its tables are there.
        limits: What the gates ask of a model.
        profile: The gates that a model must pass.
    """

    _claim: Claim | None = None

    def __init__(self, engine: Engine, limits: Limits, profile: str) -> None:
        super().__init__(engine)
        self.limits = limits
        self.profile = profile

    def holding(self, claim: Claim) -> Self:
        """This registry in the hands of the process that has this claim of a run; it shares the connections.

        Raises:
            StaleClaim: As every method that writes, where another process has taken the run over, or it was removed.
        """
        held = copy(self)
        held._claim = claim
        if claim.number > 1:
            claims.announce(self.engine, claim)
        return held

    @classmethod
    def open(cls, settings: Settings, *, make: bool = True) -> Self:
        """The registry of these settings. A new file gets its tables, one of the original SQL what it lacks.

        Args:
            settings: Where it is.
            make: Whether a file that is not there is made; who only looks for models is told of a wrong path instead.

        Raises:
            LedgerError: The database cannot be used.
            ModelError: It has a table `models` that is somebody else's, or is not there and shall not be made.
        """
        if not make:
            _refuse_absent(settings)
        # In a database that both share the ledger's tables come first: it takes an empty database only.
        schemas = (LEDGER, REGISTRY) if settings.registry_url == settings.database_url else (REGISTRY,)
        limits = Limits(
            min_reward=settings.registry.min_reward,
            min_episodes=settings.registry.min_episodes,
            confidence=CONFIDENCE,
            **settings.gates.model_dump(exclude={"profile"}),
        )
        return cls(open_ready(settings.registry_url, *schemas), limits, settings.gates.profile)

    @classmethod
    def existing(cls, settings: Settings) -> Self:
        """The registry that is there, for whoever works with models of it.

        Raises:
            OptionError: It is switched off.
            ModelError: There is none.
        """
        if not settings.registry.enable:
            raise OptionError("the model registry", "it is switched off", "Leave registry.enable as it is: true.")
        return cls.open(settings, make=False)

    @classmethod
    def plain_tables(cls, settings: Settings, names: Iterable[str]) -> dict[str, PlainTable]:
        """Whole tables as one transaction sees them, without secrets: `models`, `promotions`.

        Where there is no registry, none is made, and they have no rows.
        """
        path = settings.registry_file
        if path is not None and not path.exists():
            return {name: plain_table(None, _PLAIN[name]) for name in names}
        with cls.open(settings, make=False) as registry, read(registry.engine) as connection:
            return {name: plain_table(connection, _PLAIN[name]) for name in names}

    # Writing.

    def register(self, model: NewModel) -> ModelRow:
        """Stores a model; the same path and checksum again give the row that is there, with further tags.

        Another checksum at the same path means that the file was replaced: the old row is archived.

        Raises:
            ModelError: Something about it is wrong, or its file is not there.
            StaleClaim: Another process has taken the run over.
        """
        return records.register(self.engine, model, self._claim)

    def add_evaluation(self, model_id: int, evaluation: NewEvaluation) -> EvaluationRow:
        """Stores an evaluation; its figures are the model's from now on, which is not validated until it is judged."""
        with write(self.engine) as connection:
            claims.lock_for(connection, self._claim)
            return records.add_evaluation(connection, model_id, evaluation)

    def validate(
        self,
        model_id: int,
        *,
        evaluation: NewEvaluation | None = None,
        curve: Sequence[tuple[float, float]] = (),
        profile: str | None = None,
        dry_run: bool = False,
    ) -> ValidationRow:
        """Puts a model through the gates and stores what they said; it is validated when all passed.

        Args:
            model_id: The model.
            evaluation: A new evaluation, stored together with what the gates say of it: nobody sees one without the
                other, so a model that is served and passes again is never missing.
            curve: The training curve until the model: transitions and return, a point per episode.
            profile: Other gates than those of the settings.
            dry_run: Whether nothing is stored.
        """
        return validation.validate(
            self.engine,
            model_id,
            evaluation=evaluation,
            curve=curve,
            profile=profile or self.profile,
            limits=self.limits,
            dry_run=dry_run,
            claim=self._claim,
        )

    def check_profile(self, profile: str | None = None) -> None:
        """Refuses a profile that is not there, or names a gate that is not; a ModelError proposes the nearest."""
        gates_of(profile or self.profile)

    # Looking.

    def get(self, model_id: int) -> ModelRow:
        """The model of that id; an unknown one is a ModelError."""
        return self._read(queries.get, model_id)

    def find(self, *, sha256: str) -> ModelRow | None:
        """The newest model with that checksum that is not archived."""
        return self._read(queries.find, sha256)

    def has_passed(self, model_id: int) -> bool:
        """Whether the newest validation of a model passed, and saw its newest evaluation."""
        return self._read(queries.has_passed, model_id)

    def at(self, path: Path) -> Models:
        """The models that are not archived whose file is that one, or lies below it; the oldest first."""
        return self._read(queries.at, path)

    def list(self, *, top_n: int | None = None, **conditions: Unpack[Conditions]) -> Models:
        """Models, those that were judged alike together; of them by lower bound, of equal ones the newest first.

        Those without a bound come after those, by mean reward. Last come models whose scores choose nothing.

        Args:
            top_n: At most that many.
            **conditions: What a model must be, see `Conditions`.
        """
        return self._read(queries.listed, queries.clauses(**conditions), top_n)

    def best(
        self,
        scope: Scope | None = None,
        *,
        env_id: str | None = None,
        algorithm: str | None = None,
        tag: str | None = None,
    ) -> ModelRow | None:
        """The best model whose newest validation passed and that is not archived; None where there is none.

        Scores are compared only where they were judged alike. Where there are dates, scores on a validation window
        choose and no others.

        Raises:
            ModelError: No scope is given, and such models are of more than one; or they were never judged alike.
        """
        conditions = queries.clauses(validated=True, env_id=env_id, algorithm=algorithm, tag=tag, scope=scope)
        return self._read(ranking.best, conditions)

    def why_none_is_best(
        self,
        scope: Scope | None = None,
        *,
        env_id: str | None = None,
        algorithm: str | None = None,
        tag: str | None = None,
    ) -> tuple[str, str]:
        """Why `best` gives no model, and what can be done."""
        conditions = queries.clauses(validated=True, env_id=env_id, algorithm=algorithm, tag=tag, scope=scope)
        found = self._read(ranking.unjudged, conditions)
        if not found:
            why = "no such model has passed its newest validation"
            return why, "See: rl models list, rl models show ID. Judge one: rl models validate ID."
        ids = ", ".join(str(row.id) for row in found[:10])
        return (
            f"only scores on a validation window choose, and those that passed ({ids}) have none: their specs name no "
            "such window, or they were scored before it was kept what a score was judged on",
            f"Judge one on it, or learn why not: rl models judge {found[0].id}. A spec names it by "
            "training.validation_start and validation_end.",
        )

    def better(self, first: int, second: int) -> int | None:
        """The one of two models with the higher score under the newest judgement they share; None: they share none."""
        with read(self.engine) as connection:
            return ranking.better(connection, *(queries.get(connection, model_id) for model_id in (first, second)))

    def successor(self, current: ModelRow, *, passed_over: Collection[int] = ()) -> ModelRow | None:
        """The validated model that should answer where one answers now; None where there is none.

        Args:
            current: The model that answers; it goes on while it is validated and no other one of its scope beats it.
            passed_over: Models that cannot answer.

        Raises:
            ModelError: It should not answer, and those that could were never judged alike.
        """
        conditions = queries.clauses(validated=True, scope=current.scope)
        return self._read(ranking.successor, conditions, current.id, passed_over)

    def scopes(self) -> Scopes:
        """The scopes of all models."""
        return self._read(queries.scopes)

    def scope(self, short: str) -> Scope:
        """The scope of that short name, or of a unique beginning of it; an unknown one is a ModelError."""
        return self._read(queries.scope_named, short)

    def evaluations(self, model_id: int) -> Evaluations:
        """The evaluations of a model, the oldest first."""
        with read(self.engine) as connection:
            return records.evaluations_of(connection, queries.get(connection, model_id).id)

    def validations(self, model_id: int) -> Validations:
        """The validations of a model, the oldest first."""
        with read(self.engine) as connection:
            return validation.validations_of(connection, queries.get(connection, model_id).id)

    def promotions(self, model_id: int) -> Promotions:
        """The log of a model, the oldest entry first."""
        with read(self.engine) as connection:
            return places.log_of(connection, queries.get(connection, model_id).id)

    def aliases(self, model_id: int) -> Names:
        """The aliases of a model."""
        return self._read(queries.aliases_of, model_id)

    def all_aliases(self) -> dict[int, Names]:
        """The aliases of every model that has one."""
        return self._read(queries.all_aliases)

    def by_alias(self, alias: str, scope: Scope | None = None) -> ModelRow:
        """The model that an alias names; a ModelError where there is none, or one in several scopes."""
        return self._read(queries.by_alias, alias, scope)

    # Which model is live.

    def promote(
        self,
        model_id: int,
        *,
        to: Status = "production",
        who: str,
        why: str,
        alias: str | None = None,
        even_if_worse: bool = False,
    ) -> PromotionRow:
        """Gives a model another place: production needs a passed validation and a file that was not changed.

        Where there are dates it also needs a score on a validation window, and must not have the lower one where it and
        the present production model were judged alike, unless `even_if_worse` says so.
        """
        return _logged(
            promotion.promote(self.engine, model_id, to=to, who=who, why=why, alias=alias, even_if_worse=even_if_worse)
        )

    def rollback(self, where: Scope | str, *, who: str, why: str) -> PromotionRow:
        """Puts the production model before the present one back, of a scope or of the scope of an alias."""
        return _logged(promotion.rollback(self.engine, where, who=who, why=why))

    def set_alias(self, model_id: int, alias: str, *, who: str, why: str) -> PromotionRow:
        """Gives a model an alias; the model of the scope that had it loses it."""
        return _logged(promotion.set_alias(self.engine, model_id, alias, who=who, why=why))

    def protect(self, model_id: int, on: bool, *, who: str, why: str) -> PromotionRow:
        """Keeps a model from retention, or releases it again."""
        return _logged(promotion.protect(self.engine, model_id, on, who=who, why=why))

    # What is kept.

    def archive(self, model_id: int, *, because: str) -> None:
        """Archives a model, such as one whose file is gone; one that is archived stays as it is."""
        with write(self.engine) as connection:
            claims.lock_for(connection, self._claim)
            model = queries.get(connection, model_id)
            if not model.archived:
                places.put_away(connection, model, who="registry", because=because)

    def held(self, root: Path) -> set[Path]:
        """Files below a folder that must stay: of models that are best, deployed, aliased, protected or parents."""
        return retention.held(self.engine, root)

    def in_use(self, paths: Collection[Path]) -> dict[Path, str]:
        """Those of some files and folders that hold a model which must stay when the others go, and why it must."""
        return retention.in_use(self.engine, paths)

    def release(self, paths: Mapping[Path, str], *, force: bool = False) -> None:
        """Archives the models of files and folders that are deleted next, all in one transaction, or none.

        Args:
            paths: The files and folders, each with the reason.
            force: Whether models go that must stay.

        Raises:
            ModelError: One of them must stay.
        """
        for entry in retention.release(self.engine, paths, force=force):
            _logged(entry)

    def newest_claim(self, run_id: str) -> int:
        """The number of a run's newest claim that the registry knows of."""
        return self._read(claims.newest, run_id)

    def withdraw(self, run_id: str) -> None:
        """Lets no process write for a run any more, which is removed."""
        with write(self.engine) as connection:
            claims.withdraw(connection, run_id)

    def plan_prune(self, *, keep_top_n: int | None, max_age_days: float | None, spared: Collection[str] = ()) -> Models:
        """The models that `prune` would archive; their `archived_because` says why.

        Args:
            keep_top_n: How many models of a scope are kept; None keeps all.
            max_age_days: Days after which a model goes; None lets none go.
            spared: Runs whose models stay: those that still train.
        """
        return self._read(retention.plan, keep_top_n, max_age_days, spared)

    def prune(
        self,
        *,
        keep_top_n: int | None,
        max_age_days: float | None,
        spared: Collection[str] = (),
        who: str = "registry",
    ) -> Models:
        """Archives them in one transaction, and gives them; their files are the caller's to delete, afterwards.

        In production, aliased, protected, before the one in production, or parent of a model that stays: none goes.
        Nor does the best of a scope.
        """
        gone, entries = retention.prune(self.engine, keep_top_n, max_age_days, spared, who=who)
        for entry in entries:
            _logged(entry)
        return gone


def upgrade_registry(settings: Settings) -> str | None:
    """Brings the registry of these settings to the newest revision and returns it; None where there is none yet."""
    if settings.registry_file is not None and not settings.registry_file.exists():
        return None
    engine = open_engine(settings.registry_url)
    try:
        with read(engine) as connection:
            is_empty = not inspect(connection).has_table(models.name)
        return None if is_empty else REGISTRY.upgrade(engine)
    finally:
        engine.dispose()


def _refuse_absent(settings: Settings) -> None:
    path = settings.registry_file
    if path is not None and not path.exists():
        raise ModelError(
            f"the model registry {path}",
            "there is no such file",
            "A run that trains makes it. Another one is named with --registry-db.",
        )


def _logged(row: PromotionRow) -> PromotionRow:
    moved = f"{row.from_status} -> {row.to_status}"
    # Telemetry sends it as an event with its facts.
    extra = {"event": f"model.{row.action}", "facts": row.as_dict()}
    _log.info("model %d: %s (%s) by %s: %s", row.model_id, row.action, moved, row.who, row.why, extra=extra)
    return row
