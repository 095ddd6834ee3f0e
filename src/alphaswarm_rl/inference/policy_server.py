"""Serving the best validated model, and changing to a better one between two requests."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from types import TracebackType
from typing import Any, Self

from alphaswarm_rl.core.errors import ModelError, OptionError, RunError
from alphaswarm_rl.core.process_lock import one_at_a_time
from alphaswarm_rl.inference.halt_look import HaltLook
from alphaswarm_rl.inference.loaded_policy import LoadedPolicy
from alphaswarm_rl.inference.model_loading import model_by_id, refuse_unvalidated
from alphaswarm_rl.inference.observation_batch import as_batch
from alphaswarm_rl.inference.served_model import Served, ServedModel, as_it_is, as_starts, generators, prepare
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import ModelRow, Scope
from alphaswarm_rl.settings import Settings

_log = logging.getLogger(__name__)

#: Seconds that a look for a better model waits for the process's generators: answers draw for moments, runs for long.
_PATIENCE_S = 0.5


class PolicyServer:
    """Answers observations with a registered model; any number of threads may ask. Made by `open`.

    While it watches, a thread looks for a better validated model of the same scope, loads it aside, has it answer a
    sample, and changes to it between two requests. The model before stays until the new one has answered: one that
    cannot never replaces one that can.

    Whoever needs both takes `one_at_a_time` before `_lock`: no thread that waits for a run keeps others from answers.

    Args:
        settings: The device, and where everything is.
        registry: The registry; the server closes it.
        ledger: The ledger, for its kill switch; the server closes it.
        rows: The models of which the first that works answers first.
        poll_seconds: Seconds between two looks, at the registry and at the kill switch.
        alias: The alias to follow; None follows the best of the model's scope.
        deterministic: Whether it acts without drawing; None: as each model's spec evaluates.
        frames: Data frames for the data pipeline `frame`, by name.
    """

    def __init__(
        self,
        settings: Settings,
        registry: ModelRegistry,
        ledger: Ledger,
        rows: Sequence[ModelRow],
        *,
        poll_seconds: float = 0.5,
        alias: str | None = None,
        deterministic: bool | None = True,
        frames: Mapping[str, Any] | None = None,
    ) -> None:
        self._settings, self._registry, self._alias, self._frames = settings, registry, alias, frames
        self._deterministic = deterministic
        self._ledger, self._poll_seconds = ledger, poll_seconds
        self._halts = HaltLook(ledger, poll_seconds)
        self._lock = threading.Lock()
        #: Models that could not be loaded or did not answer, as they were then.
        self._broken: dict[int, tuple[Any, ...]] = {}
        self._said: dict[str, str] = {}
        self._looking = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._previous: ServedModel | None = None
        self._current = self._first_that_works(rows)
        self.scope = self._current.row.scope

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
            poll_seconds: Seconds between two looks, at the registry and at the kill switch.
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
        with ExitStack() as undo:
            ledger = undo.enter_context(Ledger.open(settings))
            ledger.refuse_if_halted()
            registry = undo.enter_context(ModelRegistry.open(settings, make=False))
            if model_id is not None:
                rows = [model_by_id(registry, model_id, unvalidated=unvalidated, scope=scope)]
            elif alias is not None:
                rows = [registry.by_alias(alias, scope)]
                refuse_unvalidated(registry, rows[0])
            else:
                rows = registry.list(validated=True, scope=_best(registry, scope, env_id).scope)
            server = cls(
                settings,
                registry,
                ledger,
                rows,
                poll_seconds=poll_seconds,
                alias=alias,
                deterministic=deterministic,
                frames=frames,
            )
            undo.pop_all()
        if watch:
            server._start_watching()
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
        while True:
            self._halts.look()
            draws = self._draws()
            with one_at_a_time if draws else nullcontext(), self._lock:
                self._halts.refuse()
                if draws or not self._draws():  # otherwise it changed meanwhile to a model that draws
                    return self._answer(observations, client, episode_start)

    def _draws(self) -> bool:
        """Whether the answer may be drawn, from the process's generators: by the model, or by the one before it."""
        models = (self._current, self._previous)
        return any(model is not None and not model.deterministic for model in models)

    def _answer(self, observations: Any, client: str | None, episode_start: Any) -> Served:
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

        While a run trains in this process nothing changes: both draw from the process's generators.
        """
        with self._looking:
            for row in self._candidates():
                if (row.id, row.sha256) == (self._current.row.id, self._current.row.sha256):
                    self._said.pop("alone", None)
                    return False
                if self._broken.get(row.id) == as_it_is(row):
                    continue
                with generators(_PATIENCE_S) as ours:
                    if not ours:
                        return False
                try:
                    model = self._prepare(row, patience=_PATIENCE_S)
                except Exception as error:  # noqa: BLE001  whatever is wrong with it, the one that works goes on
                    self._mark_broken(row, error)
                    continue
                if model is None:
                    return False
                self._change_to(model)
                return True
            if self._alias is None:
                self._say_once(
                    "alone",
                    f"model {self._current.row.id} is no longer a validated one, and no other model of {self.scope} "
                    "can stand in: it goes on answering",
                )
            return False

    def _candidates(self) -> list[ModelRow]:
        """The models that should answer, the first one first; beyond the broken ones, two are enough."""
        if self._alias is None:
            return self._registry.list(validated=True, scope=self.scope, top_n=len(self._broken) + 2)
        # Somebody chose the model of an alias: nobody else's choice stands in for it.
        try:
            row = self._registry.by_alias(self._alias, self.scope)
            refuse_unvalidated(self._registry, row)
        except ModelError as error:
            self._say_once(
                "alias",
                f"alias {self._alias!r} names no validated model, and model {self._current.row.id} goes on answering: "
                f"{error}",
            )
            return []
        self._said.pop("alias", None)
        return [row]

    def _first_that_works(self, rows: Sequence[ModelRow]) -> ServedModel:
        """The first that loads and answers; where none does, the error of the first."""
        errors: list[Exception] = []
        for row, following in zip(rows, [*rows[1:], None], strict=True):
            try:
                model = self._prepare(row, patience=-1)
            except OptionError:  # of the settings, whatever the model
                raise
            except Exception as error:  # noqa: BLE001  whatever is wrong with it, another may work
                errors.append(error)
                self._broken[row.id] = as_it_is(row)
                if following is not None:
                    message = "model %d cannot answer, and model %d is tried instead: %s: %s"
                    _log.error(message, row.id, following.id, type(error).__name__, error)
            else:
                assert model is not None
                return model
        raise errors[0]

    def _prepare(self, row: ModelRow, *, patience: float) -> ServedModel | None:
        return prepare(row, self._settings, frames=self._frames, deterministic=self._deterministic, patience=patience)

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

    def _start_watching(self) -> None:
        def watch() -> None:
            while not self._stop.wait(self._poll_seconds):
                self._halts.look()
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
        self._ledger.close()

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
