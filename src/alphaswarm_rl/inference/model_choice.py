"""Which registered model should answer: the best of a scope, or what an alias names; loaded and tried first."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from alphaswarm_rl.core.errors import ModelError, OptionError, RunError
from alphaswarm_rl.core.types import AnyObservation, Array
from alphaswarm_rl.inference.policy import LoadedPolicy, refuse_other_than_actions
from alphaswarm_rl.inference.policy_stream import PolicyStream
from alphaswarm_rl.inference.process import process_lock
from alphaswarm_rl.inference.registered_models import load_model, refuse_unvalidated
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import ModelRow, Scope
from alphaswarm_rl.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger(__name__)

#: Seconds that a look for a better model waits for the process's generators: answers draw for moments, runs for long.
_PATIENCE_S = 0.5
#: A model's row and files as they were: what must change before one that could not answer is tried again.
_Files: TypeAlias = tuple[object, ...]


@dataclass
class ServedPolicy:
    """A policy that is served, and what it remembers of whom.

    Attributes:
        policy: The policy.
        deterministic: Whether it acts without drawing.
        row: The registered model that it is of; None where it is a run's.
        run_id: The run that trained it, where that is known: a halt of that run concerns its answers too.
        streams: What it remembers, by client.
        answered: Whether it has answered anybody yet.
    """

    policy: LoadedPolicy
    deterministic: bool
    row: ModelRow | None = None
    run_id: str | None = None
    streams: dict[str | None, PolicyStream] = field(default_factory=dict)
    answered: bool = False

    @property
    def model(self) -> ModelRow:
        """The registered model that it is of."""
        assert self.row is not None
        return self.row

    def stream(self, client: str | None) -> PolicyStream:
        """A client's stream. A policy that remembers nothing has one for all, and a run's has one client."""
        if not self.policy.remembers:
            client = None
        elif client is None and self.row is not None:
            raise RunError(
                f"model {self.row.id}", "it remembers what it was asked before", "Say who asks: client=NAME."
            )
        if client not in self.streams:
            self.streams[client] = self.policy.stream()
        return self.streams[client]

    def ask(self, batch: AnyObservation, client: str | None, starts: Array) -> Array:
        """One action per observation, each in the action space. One that draws is asked under `process_lock`."""
        actions = self.stream(client).act(batch, starts, deterministic=self.deterministic)
        name = f"checkpoint {str(self.policy.checkpoint.path)!r}" if self.row is None else f"model {self.row.id}"
        refuse_other_than_actions(name, actions, self.policy.action_space)
        return actions


class ModelChoice:
    """Finds the registered model that should answer; models that cannot are passed over until they change.

    Args:
        settings: The device, and where data lie.
        registry: The registry; the caller closes it.
        alias: The alias to follow; None follows the best of the first model's scope.
        deterministic: Whether models act without drawing; None: as each one's spec evaluates.
        frames: Data frames for the data pipeline `frame`, by name.
    """

    def __init__(
        self,
        settings: Settings,
        registry: ModelRegistry,
        *,
        alias: str | None = None,
        deterministic: bool | None = True,
        frames: Mapping[str, pd.DataFrame] | None = None,
    ) -> None:
        self._settings, self._registry, self._alias = settings, registry, alias
        self._deterministic, self._frames = deterministic, frames
        #: Models that could not be loaded or did not answer, as they were then.
        self._broken: dict[int, _Files] = {}
        self._logged: dict[str, str] = {}

    def first(self, rows: Sequence[ModelRow]) -> ServedPolicy:
        """The first that loads and answers; where none does, the error of the first."""
        errors: list[Exception] = []
        for row, following in zip(rows, [*rows[1:], None], strict=True):
            try:
                model = self._prepare(row, patience=-1)
            except OptionError:  # of the settings, whatever the model
                raise
            except Exception as error:  # noqa: BLE001  whatever is wrong with it, another may work
                errors.append(error)
                self._broken[row.id] = _files(row)
                if following is not None:
                    message = "model %d cannot answer, and model %d is tried instead: %s: %s"
                    _log.error(message, row.id, following.id, type(error).__name__, error)
            else:
                assert model is not None
                return model
        raise errors[0]

    def other_than(self, current: ServedPolicy) -> ServedPolicy | None:
        """The model that should answer instead of the current one; None where that one should go on.

        While a run trains in this process none is loaded: both draw from the process's generators.
        """
        while (row := self._chosen(current.model)) is not None:
            if (row.id, row.sha256) == (current.model.id, current.model.sha256):
                self._logged.pop("alone", None)
                return None
            with _generators(_PATIENCE_S) as free:
                if not free:
                    return None
            try:
                model = self._prepare(row, patience=_PATIENCE_S)
            except Exception as error:  # noqa: BLE001  whatever is wrong with it, the one that works goes on
                self.mark_broken(row, error, instead=current.model)
                continue
            if model is not None:
                self._logged.pop("alone", None)
            return model
        if self._alias is None and "unlike" not in self._logged:
            self.log_once(
                "alone",
                f"model {current.model.id} is no longer a validated one, and no other model of {current.model.scope} "
                "can stand in: it goes on answering",
            )
        return None

    def _chosen(self, current: ModelRow) -> ModelRow | None:
        """The model that should answer, models that cannot passed over; None where there is none, or nobody can say."""
        if self._alias is None:
            return self._best(current)
        # Somebody chose the model of an alias: nobody else's choice stands in for it.
        try:
            row = self._registry.by_alias(self._alias, current.scope)
            refuse_unvalidated(self._registry, row)
        except ModelError as error:
            self.log_once(
                "alias",
                f"alias {self._alias!r} names no validated model, and model {current.id} goes on answering: {error}",
            )
            return None
        self._logged.pop("alias", None)
        return None if self._broken.get(row.id) == _files(row) else row

    def _best(self, current: ModelRow) -> ModelRow | None:
        """The best model of the scope; None where models are left that were never judged alike."""
        broken = [model_id for model_id, files in self._broken.items() if files == self._files_now(model_id)]
        try:
            row = self._registry.successor(current, passed_over=broken)
        except ModelError as error:
            self.log_once(
                "unlike", f"model {current.id} goes on answering, for nobody can say which is better: {error}"
            )
            return None
        self.log_once("unlike", None)
        return row

    def _files_now(self, model_id: int) -> _Files:
        return _files(self._registry.get(model_id))

    def _prepare(self, row: ModelRow, *, patience: float) -> ServedPolicy | None:
        """Loads a model and has it answer a sample; others use the generators meanwhile, but while it is built.

        Args:
            row: The model.
            patience: Seconds to wait for the generators, -1 for ever; None is given where they were not free.
        """
        policy = load_model(row, self._settings, frames=self._frames)
        try:
            with _generators(patience) as free:
                if not free:
                    policy.close()
                    return None
                policy.build()
            policy.warm_up()
        except BaseException:
            policy.close()
            raise
        return ServedPolicy(policy, acts_deterministically(policy, self._deterministic), row, row.run_id)

    def mark_broken(self, row: ModelRow, error: Exception, *, instead: ModelRow) -> None:
        """Passes a model over until it changes; another goes on in its place."""
        self._broken[row.id] = _files(row)
        _log.error(
            "model %d cannot answer, and model %d goes on: %s: %s", row.id, instead.id, type(error).__name__, error
        )

    def log_once(self, about: str, message: str | None) -> None:
        """An error in the log; not again and again while nothing changes. None: it is over."""
        if message is None:
            self._logged.pop(about, None)
        elif self._logged.get(about) != message:
            self._logged[about] = message
            _log.error("%s", message)


def acts_deterministically(policy: LoadedPolicy, choice: bool | None) -> bool:
    """Whether a policy acts without drawing: as somebody chose, otherwise as its spec evaluates."""
    return policy.spec.evaluation.deterministic if choice is None else choice


def best_model(registry: ModelRegistry, scope: Scope | None, env_id: str | None) -> ModelRow:
    """The best validated model; an error where there is none."""
    row = registry.best(scope, env_id=env_id)
    if row is None:
        of = f" of {scope or env_id}" if scope is not None or env_id is not None else ""
        raise ModelError(f"the best model{of}", *registry.why_none_is_best(scope, env_id=env_id))
    return row


@contextmanager
def _generators(patience: float) -> Iterator[bool]:
    """Takes the process's generators for a moment; says whether they were free within that time, -1 being for ever."""
    free = process_lock.acquire(timeout=patience)
    try:
        yield free
    finally:
        if free:
            process_lock.release()


def _files(row: ModelRow) -> _Files:
    try:
        times = tuple(sorted((path.name, path.stat().st_mtime_ns) for path in row.path.iterdir()))
    except OSError:
        times = ()
    return row.model_path, row.sha256, times
