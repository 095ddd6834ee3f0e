"""Answering observations with a trained policy: of a checkpoint, of a run, or of the model that is best now.

`PolicyServer.open` serves registered models and may change to a better one between two requests; `of_run` serves the
policy of one run as long as it is open. Each looks at the kill switch for every answer, unless the settings say
`infer.offline`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from alphaswarm_rl.core.errors import OptionError, RunError
from alphaswarm_rl.core.types import Array, JsonObject
from alphaswarm_rl.inference.checkpoints import LoadedCheckpoint, load_checkpoint
from alphaswarm_rl.inference.model_choice import ModelChoice, ServedPolicy, acts_deterministically, best_model
from alphaswarm_rl.inference.observation_batch import as_batch, as_starts
from alphaswarm_rl.inference.policy import LoadedPolicy
from alphaswarm_rl.inference.process import process_lock
from alphaswarm_rl.inference.registered_models import model_by_id, refuse_unvalidated
from alphaswarm_rl.inference.selection import recorded_sha256, trainer_of
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.brake import Brake
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import ModelRow, Scope
from alphaswarm_rl.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

    from alphaswarm_rl.arrays.moments import Moment
    from alphaswarm_rl.execution.equity_guard import EquityGuard
    from alphaswarm_rl.inference.account import Account
    from alphaswarm_rl.inference.decision_stream import DecisionStream, TradingDecision
    from alphaswarm_rl.market.panel import MarketPanel

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answer:
    """An answer, made by exactly one policy.

    Attributes:
        actions: One action where one observation was asked, otherwise one per observation.
        checkpoint_sha256: Checksum of the checkpoint that answered.
        model_id: The registered model that answered; None where a run or a checkpoint did.
    """

    actions: Array
    checkpoint_sha256: str
    model_id: int | None = None

    def as_dict(self) -> JsonObject:
        """The answer as JSON."""
        model = {} if self.model_id is None else {"model_id": self.model_id}
        return {"action": self.actions.tolist(), **model, "checkpoint_sha256": self.checkpoint_sha256}


class PolicyServer:
    """Answers observations with a trained policy; any number of threads may ask. Made by `open`, `of_run`, `of`.

    While it watches, a thread looks for a better validated model of the same scope, loads it aside, has it answer a
    sample, and changes to it between two requests. The model before stays until the new one has answered: one that
    cannot never replaces one that can.

    Whoever needs both takes `process_lock` before `_lock`: no thread that waits for a run keeps others from answers.

    Args:
        served: What answers first.
        choice: Finds the model that should answer later; None: what answers first answers always.
        brake: The kill switch, which refuses answers; None: nobody looks at it.
        close: Frees what else was opened.
    """

    def __init__(
        self,
        served: ServedPolicy,
        *,
        choice: ModelChoice | None = None,
        brake: Brake | None = None,
        close: ExitStack | None = None,
    ) -> None:
        self._current = served
        self._previous: ServedPolicy | None = None
        self._choice, self._brake, self._opened = choice, brake, close
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @classmethod
    def of(
        cls,
        loaded: LoadedCheckpoint,
        settings: Settings,
        *,
        deterministic: bool | None = True,
        frames: Mapping[str, pd.DataFrame] | None = None,
    ) -> PolicyServer:
        """Serves a checkpoint that was loaded.

        Args:
            loaded: The verified checkpoint.
            settings: The device, and where the kill switch is.
            deterministic: Whether it acts without drawing; None: as its spec evaluates.
            frames: Data frames for the data pipeline `frame`, by name.
        """
        with ExitStack() as undo:
            brake = _open_brake(settings, undo)
            run_id = None
            if brake is not None:
                run_id = _trainer_id(settings, loaded.checkpoint.path)
                brake.refuse(run_id)
            served = _serve(loaded, settings, deterministic, frames, run_id=run_id)
            return cls(served, brake=brake, close=undo.pop_all())

    @classmethod
    def of_run(
        cls,
        settings: Settings,
        *,
        run: str | None = None,
        deterministic: bool | None = True,
        poll_seconds: float = 0.5,
        frames: Mapping[str, pd.DataFrame] | None = None,
    ) -> PolicyServer:
        """Serves the policy of a run, of the settings' model path, or of the newest run that has a checkpoint.

        Args:
            settings: Where runs are, and on what device the policy runs.
            run: The run; None: the model path or the newest.
            deterministic: Whether it acts without drawing; None: as its spec evaluates.
            poll_seconds: Seconds between two questions to the kill switch, half a second at most.
            frames: Data frames for the data pipeline `frame`, by name.
        """
        with ExitStack() as undo:
            brake = _open_brake(settings, undo, poll_seconds)
            loaded, run_id = _run_checkpoint(settings, run)
            if brake is not None:
                brake.refuse(run_id)
            served = _serve(loaded, settings, deterministic, frames, run_id=run_id)
            return cls(served, brake=brake, close=undo.pop_all())

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        model_id: int | None = None,
        alias: str | None = None,
        scope: Scope | str | None = None,
        env_id: str | None = None,
        watch: bool = False,
        poll_seconds: float = 0.5,
        unvalidated: bool = False,
        deterministic: bool | None = True,
        frames: Mapping[str, pd.DataFrame] | None = None,
    ) -> PolicyServer:
        """Serves one model, what an alias means, or the best validated model.

        Args:
            settings: Where the registry is, and on what device the policy runs.
            model_id: The model; None: the alias's, or the best.
            alias: The alias, such as champion.
            scope: What the models are of, or what names it as in `rl infer --scope`; None where only one scope has
                validated models.
            env_id: The environment that they are of, where that is enough to say the scope.
            watch: Whether it changes to a better model, or to what the alias then means.
            poll_seconds: Seconds between two looks at the registry, and two questions to the kill switch; of those
                half a second at most.
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
            brake = _open_brake(settings, undo, poll_seconds)
            registry = undo.enter_context(ModelRegistry.open(settings, make=False))
            scope = registry.scope(scope) if isinstance(scope, str) else scope
            if model_id is not None:
                rows = [model_by_id(registry, model_id, unvalidated=unvalidated, scope=scope)]
            elif alias is not None:
                rows = [registry.by_alias(alias, scope)]
                refuse_unvalidated(registry, rows[0])
            else:
                best = best_model(registry, scope, env_id)
                # Should it not answer, the next of those that were judged as it was.
                alike = registry.list(validated=True, scope=best.scope, judgement_key=best.judgement_key)
                rows = [best, *(row for row in alike if row.id != best.id)]
            choice = ModelChoice(settings, registry, alias=alias, deterministic=deterministic, frames=frames)
            server = cls(choice.first(rows), choice=choice, brake=brake, close=undo.pop_all())
        if watch:
            server._start_watching(poll_seconds)
        return server

    @property
    def model(self) -> ModelRow:
        """The registered model that answers now."""
        return self._current.model

    @property
    def scope(self) -> Scope:
        """The models that may answer."""
        return self._current.policy.scope if self._current.row is None else self._current.row.scope

    @property
    def policy(self) -> LoadedPolicy:
        """The policy that answers now."""
        return self._current.policy

    @property
    def served_row(self) -> ModelRow | None:
        """The registered model that answers now; None where a run or a checkpoint does."""
        return self._current.row

    @property
    def run_id(self) -> str | None:
        """The run that trained the policy; None where nobody knows it."""
        return self._current.run_id

    @property
    def deterministic(self) -> bool:
        """Whether it acts without drawing."""
        return self._current.deterministic

    def answer(
        self, observations: object, *, client: str | None = None, episode_start: bool | Array | None = None
    ) -> Answer:
        """The action for an observation as it comes from the environment, or the actions for a batch of them.

        Args:
            observations: Numbers in the shape of the observation space, or a batch of such; mappings for a Dict space.
            client: Who asks. A policy that remembers (memory, stacked frames) does so for each name apart.
            episode_start: Whether an episode begins here, for all or for each observation.
        """
        while True:
            self.refuse_if_halted()  # here too: it may wait for the ledger, which must hold no lock
            draws = self._draws()
            with process_lock if draws else nullcontext(), self._lock:
                self.refuse_if_halted()
                if draws or not self._draws():  # otherwise it changed meanwhile to a model that draws
                    return self._answer(observations, client, episode_start)

    def refuse_if_halted(self) -> None:
        """Refuses an answer while the kill switch is engaged or silent; one that is offline refuses none.

        Raises:
            RunError: The kill switch is engaged, for everything, for the bot that answers or for the run that trained
                the policy, or is silent.
        """
        if self._brake is not None:
            self._brake.refuse(self._current.run_id)

    def _draws(self) -> bool:
        """Whether the answer may be drawn, from the process's generators: by the model, or by the one before it."""
        models = (self._current, self._previous)
        return any(model is not None and not model.deterministic for model in models)

    def _answer(self, observations: object, client: str | None, episode_start: bool | Array | None) -> Answer:
        batch, alone = as_batch(observations, self._current.policy.observation_space)
        if not alone and self._current.row is None:
            raise RunError("the observation", "it is a batch of them", "Send one at a time.")
        starts = as_starts(episode_start, batch)
        # A client's own mistake is reported before the model is asked: it says nothing about the model.
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
        return Answer(actions[0] if alone else actions, sha256, None if row is None else row.id)

    def decide(
        self,
        bars: MarketPanel,
        account: Account,
        *,
        start: Moment | None = None,
        equity_guard: EquityGuard | None = None,
    ) -> TradingDecision:
        """What the policy decides about an account at the close of the last bar; no environment is built.

        Args:
            bars: All bars so far with their features, as the run's data pipeline builds them, before any scaling.
            account: What is held.
            start: The first date of the window that is traded; None: of the policy's evaluation.
            equity_guard: Sees the account's equity first, and engages the kill switch where a loss reaches its limit:
                then nothing is decided. It knows what it was shown, so it is the same one at every bar.

        Raises:
            RunError: The kill switch is engaged or silent, or the account's losses engage it.
            DataError: The bars are too few, or of other assets.
            OrderError: The account does not fit, or lacks what some part of the policy reads.
            EnvError: The policy cannot decide from bars and an account.
        """
        self.refuse_if_halted()
        return self._decisions(bars, start, carries=False, equity_guard=equity_guard).decide(account)

    def decision_stream(
        self, bars: MarketPanel, *, start: Moment | None = None, equity_guard: EquityGuard | None = None
    ) -> DecisionStream:
        """Decisions bar by bar, with features that are carried from one to the next; arguments as for `decide`.

        It stays with the policy that answers now, whatever model is served later.
        """
        self.refuse_if_halted()
        return self._decisions(bars, start, carries=True, equity_guard=equity_guard)

    def _decisions(
        self, bars: MarketPanel, start: Moment | None, *, carries: bool, equity_guard: EquityGuard | None
    ) -> DecisionStream:
        from alphaswarm_rl.inference.decision_bars import decision_bars
        from alphaswarm_rl.inference.decision_stream import DecisionStream

        served = self._current
        policy = served.policy
        window = policy.spec.evaluation.start if start is None else start
        cut = decision_bars(bars, policy.plan.traded_market(), window)

        def refuse_if_halted() -> None:
            if self._brake is not None:
                self._brake.refuse(served.run_id)

        @contextmanager
        def asking() -> Iterator[None]:
            with nullcontext() if served.deterministic else process_lock, self._lock:
                yield

        return DecisionStream(
            policy,
            cut,
            carries=carries,
            deterministic=served.deterministic,
            run_id=served.run_id or policy.checkpoint.sha256,
            refuse_if_halted=refuse_if_halted,
            guard=asking,
            equity_guard=equity_guard,
        )

    def roll_out(self, episodes: int, *, env_id: str | None = None) -> Iterator[JsonObject]:
        """Plays episodes with the policy that answers now, one line per step; see `LoadedPolicy.roll_out`.

        Raises:
            RunError: The kill switch is engaged: no further step is played.
        """
        row = self._current.row
        lines = self.policy.roll_out(
            episodes, env_id=env_id, deterministic=self.deterministic, before_step=self.refuse_if_halted
        )
        for line in lines:
            self.refuse_if_halted()  # a step may take long
            yield line if row is None else {**line, "model_id": row.id}

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
            model = None if self._choice is None else self._choice.other_than(self._current)
            if model is None:
                return False
            with self._lock:
                before = self._current
                if before.answered or self._previous is None:
                    self._release_previous()
                    self._previous = before
                else:  # it was there too briefly to show that it can answer
                    before.policy.close()
                self._current = model
            _log.info("model %d answers from now on, instead of model %d", model.model.id, before.model.id)
            return True

    def _go_back(self, error: Exception) -> None:
        assert self._previous is not None
        assert self._choice is not None
        failed, self._current, self._previous = self._current, self._previous, None
        self._choice.mark_broken(failed.model, error, instead=self._current.model)
        failed.policy.close()

    def _release_previous(self) -> None:
        if self._previous is not None:
            self._previous.policy.close()
            self._previous = None

    def _start_watching(self, seconds: float) -> None:
        choice = self._choice
        assert choice is not None

        def watch() -> None:
            while not self._stop.wait(seconds):
                try:
                    self.refresh()
                    choice.log_once("registry", None)
                except Exception as error:  # noqa: BLE001  whoever asks is answered all the same
                    choice.log_once("registry", f"the registry cannot be looked at: {type(error).__name__}: {error}")

        self._thread = threading.Thread(target=watch, name="alphaswarm-rl-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops watching and frees everything."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._release_previous()
            self._current.policy.close()
        if self._opened is not None:
            self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _open_brake(settings: Settings, undo: ExitStack, poll_seconds: float | None = None) -> Brake | None:
    """The kill switch, which does not refuse now; None where the settings say to go without it."""
    if settings.infer.offline:
        _log.warning("offline: answers are given whatever the kill switch says")
        return None
    ledger = undo.enter_context(Ledger.open(settings))
    brake = undo.enter_context(Brake(ledger, settings.ledger, poll_seconds=poll_seconds, bot=settings.infer.bot))
    brake.refuse()
    return brake


def _serve(
    loaded: LoadedCheckpoint,
    settings: Settings,
    deterministic: bool | None,
    frames: Mapping[str, pd.DataFrame] | None,
    *,
    run_id: str | None = None,
) -> ServedPolicy:
    policy = LoadedPolicy(loaded, settings, frames=frames)
    policy.build()
    return ServedPolicy(policy, acts_deterministically(policy, deterministic), run_id=run_id)


def _trainer_id(settings: Settings, folder: Path) -> str | None:
    """The run that trained a checkpoint; None where the ledger knows none."""
    with Ledger.open(settings) as ledger:
        trainer = trainer_of(ledger, folder)
    return None if trainer is None else trainer.id


def _run_checkpoint(settings: Settings, run: str | None) -> tuple[LoadedCheckpoint, str | None]:
    """The checkpoint that is meant, and the run that trained it where that is known."""
    path = settings.infer.model_path if run is None else None
    if path is not None and settings.infer.offline:
        return load_checkpoint(path.expanduser()), None
    with Ledger.open(settings) as ledger:
        if path is not None:
            folder = path.expanduser()
            trainer = trainer_of(ledger, folder)
            sha256 = None if trainer is None else recorded_sha256(ledger, trainer, folder)
            return load_checkpoint(folder, expected_sha256=sha256), None if trainer is None else trainer.id
        if run is None:
            row = next((each for each in ledger.runs(target="train", limit=None) if each.checkpoint is not None), None)
        else:
            row = ledger.run(run)
    if row is None:
        raise RunError("inference", "no run has a checkpoint yet", "Train one: rl train SPEC.")
    if row.checkpoint is None or row.removed_at is not None:
        raise RunError(f"run {row.id}", "it has no checkpoint", "Use a run that trained and was not removed.")
    return load_checkpoint(Path(row.checkpoint), expected_sha256=row.checkpoint_sha256), row.id
