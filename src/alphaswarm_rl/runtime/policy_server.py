"""Serving the best validated model, and changing to a better one between two requests."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from alphaswarm_rl.core.errors import ModelError, OptionError, RunError
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import ModelRow, Scope
from alphaswarm_rl.runtime.asked import as_batch
from alphaswarm_rl.runtime.envelope import refuse_if_halted
from alphaswarm_rl.runtime.loaded_policy import LoadedPolicy
from alphaswarm_rl.runtime.model_loading import has_passed, load_model, model_by_id, refuse_unvalidated
from alphaswarm_rl.runtime.runtime import one_at_a_time
from alphaswarm_rl.runtime.served_model import Served, ServedModel, as_it_is, as_starts
from alphaswarm_rl.settings import Settings

_log = logging.getLogger(__name__)


class PolicyServer:
    """Answers observations with a registered model; any number of threads may ask. Made by `open`.

    While it watches, a thread looks for a better validated model of the same scope, loads it aside, has it answer a
    sample, and changes to it between two requests. The model before stays until the new one has answered: one that
    cannot never replaces one that can.

    Args:
        settings: The device, and where everything is.
        registry: The registry; the server closes it.
        row: The model that answers first.
        alias: The alias to follow; None follows the best of the model's scope.
        deterministic: Whether it acts without drawing; None: as each model's spec evaluates.
        frames: Data frames for the data pipeline `frame`, by name.
    """

    def __init__(
        self,
        settings: Settings,
        registry: ModelRegistry,
        row: ModelRow,
        *,
        alias: str | None = None,
        deterministic: bool | None = True,
        frames: Mapping[str, Any] | None = None,
    ) -> None:
        self._settings, self._registry, self._alias, self._frames = settings, registry, alias, frames
        self._deterministic = deterministic
        self._lock = threading.Lock()
        #: Models that could not be loaded or did not answer, as they were then.
        self._broken: dict[int, tuple[Any, ...]] = {}
        self._said: dict[str, str] = {}
        self._looking = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._previous: ServedModel | None = None
        with one_at_a_time:
            self._current = self._prepare(row)
        self.scope = row.scope

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        model_id: int | None = None,
        alias: str | None = None,
        scope: Scope | None = None,
        env_id: str | None = None,
        watch: bool = False,
        poll_seconds: float = 0.5,
        unvalidated: bool = False,
        deterministic: bool | None = True,
        frames: Mapping[str, Any] | None = None,
    ) -> PolicyServer:
        """Serves one model, what an alias means, or the best validated model.

        Args:
            settings: Where the registry is, and on what device the policy runs.
            model_id: The model; None: the alias's, or the best.
            alias: The alias, such as champion.
            scope: What the models are of; None where only one scope has validated models.
            env_id: The environment that they are of, where that is enough to say the scope.
            watch: Whether it changes to a better model, or to what the alias then means.
            poll_seconds: Seconds between two looks.
            unvalidated: Whether the model of `model_id` may be one that did not pass its latest validation.
            deterministic: Whether it acts without drawing; None: as each model's spec evaluates.
            frames: Data frames for the data pipeline `frame`, by name.
        """
        if model_id is not None and (alias is not None or watch):
            raise OptionError(
                f"model {model_id}", "a model that is named by its id stays", "Watch the best one or an alias instead."
            )
        if env_id is not None and (model_id is not None or alias is not None):
            raise OptionError(f"environment {env_id!r}", "the model is named already", "Leave it out.")
        if unvalidated and model_id is None:
            raise OptionError("unvalidated models", "only one that is named by its id is loaded", "Give its id.")
        with Ledger.open(settings) as ledger:
            refuse_if_halted(ledger, None)
        with ExitStack() as undo:
            registry = undo.enter_context(ModelRegistry.open(settings))
            if model_id is not None:
                row = model_by_id(registry, model_id, unvalidated=unvalidated, scope=scope)
            elif alias is not None:
                row = registry.by_alias(alias, scope)
                refuse_unvalidated(registry, row)
            else:
                row = _best(registry, scope, env_id)
            server = cls(settings, registry, row, alias=alias, deterministic=deterministic, frames=frames)
            undo.pop_all()
        if watch:
            server._start_watching(poll_seconds)
        return server

    @property
    def model(self) -> ModelRow:
        """The model that answers now."""
        return self._current.row

    @property
    def policy(self) -> LoadedPolicy:
        """Its policy."""
        return self._current.policy

    @property
    def deterministic(self) -> bool:
        """Whether it acts without drawing."""
        return self._current.deterministic

    def answer(self, observations: Any, *, client: str | None = None, episode_start: Any = None) -> Served:
        """The action for an observation as it comes from the environment, or the actions for a batch of them.

        Args:
            observations: Numbers in the shape of the observation space, or a batch of such; mappings for a Dict space.
            client: Who asks. A policy that remembers (memory, stacked frames) does so for each name apart.
            episode_start: Whether an episode begins here, for all or for each observation.
        """
        with self._lock:
            batch, alone = as_batch(observations, self._current.policy.observation_space)
            starts = as_starts(episode_start, batch)
            # A client's own mistake is told before the model is asked: it says nothing about the model.
            self._current.stream(client)
            try:
                actions = self._current.ask(batch, client, starts)
            except Exception as error:
                if self._previous is None or isinstance(error, RunError):
                    raise
                self._go_back(error)
                actions = self._current.ask(batch, client, starts)
            if not self._current.answered:
                self._current.answered = True
                self._release_previous()
            row = self._current.row
            sha256 = self._current.policy.checkpoint.sha256
            return Served(actions[0] if alone else actions, row.id, sha256)

    def forget(self, client: str) -> None:
        """Forgets what a client asked; a server whose clients come and go calls it when one is gone."""
        with self._lock:
            for model in (self._current, self._previous):
                if model is not None:
                    model.streams.pop(client, None)

    def refresh(self) -> bool:
        """Looks once for the model that should answer, and changes to it; says whether it changed.

        While a run trains in this process nothing is loaded: both draw from the process's generators.
        """
        with self._looking:
            for row in self._candidates():
                if (row.id, row.sha256) == (self._current.row.id, self._current.row.sha256):
                    self._said.pop("alone", None)
                    return False
                if self._broken.get(row.id) == as_it_is(row):
                    continue
                if not one_at_a_time.acquire(blocking=False):
                    return False
                try:
                    model = self._prepare(row)
                except Exception as error:  # noqa: BLE001  whatever is wrong with it, the one that works goes on
                    self._mark_broken(row, error)
                    continue
                finally:
                    one_at_a_time.release()
                self._change_to(model)
                return True
            self._say_once(
                "alone",
                f"model {self._current.row.id} is no longer a validated one, and no other model of {self.scope} can "
                "stand in: it goes on answering",
            )
            return False

    def _candidates(self) -> list[ModelRow]:
        """The models that should answer, the first one first; beyond the broken ones, two are enough."""
        best = self._registry.list(validated=True, scope=self.scope, top_n=len(self._broken) + 2)
        if self._alias is None:
            return best
        try:
            aliased = self._registry.by_alias(self._alias, self.scope)
        except ModelError as error:
            self._say_once("alias", str(error))
            return best
        self._said.pop("alias", None)
        return [aliased, *best] if has_passed(self._registry, aliased) else best

    def _prepare(self, row: ModelRow) -> ServedModel:
        """Loads a model and has it answer a sample."""
        policy = load_model(row, self._settings, frames=self._frames)
        try:
            policy.warm_up()
        except BaseException:
            policy.close()
            raise
        evaluated_so = policy.spec.evaluation.deterministic
        return ServedModel(row, policy, evaluated_so if self._deterministic is None else self._deterministic)

    def _change_to(self, model: ServedModel) -> None:
        with self._lock:
            before = self._current
            if before.answered or self._previous is None:
                self._release_previous()
                self._previous = before
            else:  # it was there too briefly to show that it can answer
                before.policy.close()
            self._current = model
            self._said.pop("alone", None)
        _log.info("model %d answers from now on, instead of model %d", model.row.id, before.row.id)

    def _go_back(self, error: Exception) -> None:
        assert self._previous is not None
        failed, self._current, self._previous = self._current, self._previous, None
        self._mark_broken(failed.row, error)
        failed.policy.close()

    def _mark_broken(self, row: ModelRow, error: Exception) -> None:
        self._broken[row.id] = as_it_is(row)
        _log.error(
            "model %d cannot answer, and model %d goes on: %s: %s",
            row.id,
            self._current.row.id,
            type(error).__name__,
            error,
        )

    def _release_previous(self) -> None:
        if self._previous is not None:
            self._previous.policy.close()
            self._previous = None

    def _start_watching(self, poll_seconds: float) -> None:
        def watch() -> None:
            while not self._stop.wait(poll_seconds):
                try:
                    self.refresh()
                    self._said.pop("registry", None)
                except Exception as error:  # noqa: BLE001  whoever asks is answered all the same
                    self._say_once("registry", f"the registry cannot be looked at: {type(error).__name__}: {error}")

        self._thread = threading.Thread(target=watch, name="alphaswarm-rl-watch", daemon=True)
        self._thread.start()

    def _say_once(self, about: str, message: str) -> None:
        """An error in the log; not again and again while nothing changes."""
        if self._said.get(about) != message:
            self._said[about] = message
            _log.error("%s", message)

    def close(self) -> None:
        """Stops watching and frees everything."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._release_previous()
            self._current.policy.close()
        self._registry.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _best(registry: ModelRegistry, scope: Scope | None, env_id: str | None) -> ModelRow:
    row = registry.best(scope, env_id=env_id)
    if row is None:
        of = f" of {scope or env_id}" if scope is not None or env_id is not None else ""
        raise ModelError(
            f"the best model{of}",
            "no model has passed its latest validation",
            "See which there are, and why they failed: rl models list, rl models show ID.",
        )
    return row
