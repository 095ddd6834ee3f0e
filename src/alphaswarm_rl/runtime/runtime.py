"""RLRuntime: train, resume, evaluate, replay, backtest."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.errors import RunError, SpecError, nearest
from alphaswarm_rl.core.run_listener import Event
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.core.window import Window, WindowLike
from alphaswarm_rl.execution.engine_choice import EngineChoice, Sizing
from alphaswarm_rl.inference.initial_weights import pinned
from alphaswarm_rl.inference.process import cpu_threads, process_lock
from alphaswarm_rl.inference.selection import Verb, latest_for, newest_trained
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.ledger import Ledger, RunRow, VersionRow
from alphaswarm_rl.ledger.specs import spec_of_version
from alphaswarm_rl.options.settings import load_settings
from alphaswarm_rl.runtime.continuing import train_further
from alphaswarm_rl.runtime.evaluate import Arguments, EvaluatingVerb, evaluate
from alphaswarm_rl.runtime.events import Sink
from alphaswarm_rl.runtime.result import RunFailed, RunResult
from alphaswarm_rl.runtime.run import RunSetup
from alphaswarm_rl.runtime.train import resume, train
from alphaswarm_rl.runtime.training_plan import TrainingPlan
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec, load_spec, refuse_absent, refuse_verb

if TYPE_CHECKING:
    from pyarrow import Table

__all__ = ["RLRuntime", "RunFailed", "RunResult"]


class RLRuntime:
    """Runs one spec.

    Args:
        spec: The spec, its data, its YAML file, or the name of a preset.
        settings: Where it runs; None reads the environment and the settings file, whose defaults need no server.
        overrides: What flags and environment variables changed, stored in the run row.
        progress: Whether a progress bar is shown on standard error.
        sinks: More receivers of the run's events.
        frames: Data frames for the data pipeline `frame`, by name.
        stop_when: Hears every event of a training; a text that it returns halts the run, as its reason.
    """

    def __init__(
        self,
        spec: RLExperimentSpec | JsonMapping | str | Path,
        settings: Settings | None = None,
        *,
        overrides: JsonMapping | None = None,
        progress: bool = False,
        sinks: Sequence[Sink] = (),
        frames: Mapping[str, object] | None = None,
        stop_when: Callable[[Event], str | None] | None = None,
    ) -> None:
        self.settings = load_settings({}, os.environ) if settings is None else settings
        catalogue.load_plugins(self.settings.plugins)
        self.spec = pinned(_as_spec(spec), self.settings)
        self._setup = RunSetup(
            self.spec,
            self.settings,
            dict(overrides or {}),
            progress,
            tuple(sinks),
            dict(frames or {}),
            stop_when,
        )
        self._run: RunRow | None = None
        refuse_absent(self.spec)

    @classmethod
    def from_run(
        cls,
        run: str,
        settings: Settings | None = None,
        *,
        overrides: JsonMapping | None = None,
        progress: bool = False,
        sinks: Sequence[Sink] = (),
        frames: Mapping[str, object] | None = None,
        verb: Verb | None = None,
    ) -> RLRuntime:
        """The runtime of a stored run: its pinned version, whatever the files say today.

        Args:
            run: A run's id, a unique beginning of it, or `latest`.
            settings: Where the ledger is; None reads the environment and the settings file.
            overrides: Where the arguments of the next run come from, stored in its row.
            progress: Whether a progress bar is shown on standard error.
            sinks: More receivers of the run's events.
            frames: Data frames for the data pipeline `frame`, by name; no run keeps them.
            verb: What the run is used for: `latest` is then the newest that the verb can use, else the newest of all.
        """
        settings = load_settings({}, os.environ) if settings is None else settings
        with Ledger.open(settings) as ledger:
            row = latest_for(ledger, verb) if run == "latest" and verb is not None else ledger.run(run)
            version = ledger.version(row.version_id)
        catalogue.load_plugins(settings.plugins)
        spec = _stored(row, version)
        runtime = cls(spec, settings, overrides=overrides, progress=progress, sinks=sinks, frames=frames)
        runtime._run = row
        return runtime

    def train(self, *, seed: int | str | None = None) -> RunResult:
        """Trains the spec's agent, evaluates it, and leaves a checkpoint.

        Args:
            seed: Seed of this run; `random` draws one and pins it; None takes the spec's.
        """
        refuse_verb(self.spec, "train")
        with process_lock, Ledger.open(self.settings) as ledger, cpu_threads(self.settings.infer.threads):
            result = train(self._setup, ledger, seed=seed)
            self._run = ledger.run(result.run_id)
            return result

    def rehearse(self, *, seed: int | str | None = None) -> TrainingPlan:
        """Everything of `train` up to its first step: checks, reads and builds it, and writes nothing.

        Of a spec that is only evaluated it is what `evaluate` does. The ledger is not opened: whether a halt would
        refuse the run is not looked at.

        Args:
            seed: Seed of the run; `random` draws one; None takes the spec's.
        """
        from alphaswarm_rl.runtime.rehearsal import rehearse

        refuse_verb(self.spec, "evaluate" if self.spec.kind == "evaluation" else "train")
        with process_lock, cpu_threads(self.settings.infer.threads):
            return rehearse(self._setup, seed=seed)

    def resume(self, *, step: int | None = None) -> RunResult:
        """Continues an interrupted, halted or failed training run, in its own row.

        Args:
            step: Which of its checkpoints it goes on from; None takes the newest that is intact.
        """
        if self._run is None:
            why = "it was not made from a run, and has trained none"
            raise RunError("this runtime", why, "Use RLRuntime.from_run(run).")
        with process_lock, Ledger.open(self.settings) as ledger, cpu_threads(self.settings.infer.threads):
            return resume(self._setup, ledger, self._run.id, step=step)

    def train_further(self, total_timesteps: int) -> RunResult:
        """Trains a run that has ended further, in a run of its own, from its newest intact checkpoint.

        The new version is that of a training which is as long at once: so are the bytes of its checkpoint where the run
        resumes exactly and none of the agent's parameters runs over the whole training.

        Args:
            total_timesteps: Transitions in all, those of the run included.
        """
        if self._run is None:
            raise RunError("this runtime", "it was not made from a run", "Use RLRuntime.from_run(run).")
        refuse_verb(self.spec, "train")
        with process_lock, Ledger.open(self.settings) as ledger, cpu_threads(self.settings.infer.threads):
            return train_further(self._setup, ledger, self._run.id, total_timesteps)

    def evaluate(
        self,
        *,
        run: str | None = None,
        checkpoint: str | int | None = None,
        seed: int | str | None = None,
        window: WindowLike | None = None,
        episodes: int | None = None,
        deterministic: bool | None = None,
        strict: bool = False,
        validation: bool = False,
        beside: str | None = None,
    ) -> RunResult:
        """Evaluates a policy on the evaluation window, in a row of its own.

        Args:
            run: The run that made the policy; None takes the runtime's own: of `from_run`, or what it trained last.
            checkpoint: `best`, a step, or a folder; None takes the run's last.
            seed: Seed of the episodes; None takes the parent run's; `random` draws one.
            window: Other dates than the spec's: a `Window`, a pair of dates, or `{"start": ..., "end": ...}`.
            episodes: Another number of episodes than the spec's.
            deterministic: Another way to act than the spec's.
            strict: Refuse, instead of warn, when components changed since the version was stored.
            validation: Whether the window is one of validation: a score there chooses among models, and the episodes
                are those that a training's own validations play.
            beside: The run that a rule is judged beside, as a baseline: `latest` never means such a run.
        """
        arguments = Arguments(
            checkpoint=checkpoint,
            seed=seed,
            window=_window(window),
            episodes=episodes,
            deterministic=deterministic,
            validation=validation or None,
            beside=beside,
        )
        return self._evaluate("evaluate", run, arguments, strict=strict)

    def replay(
        self,
        new_window: WindowLike | None = None,
        *,
        run: str | None = None,
        checkpoint: str | int | None = None,
        seed: int | str | None = None,
        episodes: int | None = None,
        deterministic: bool | None = None,
        strict: bool = False,
    ) -> RunResult:
        """Feeds a trained policy another window or seed, under its pinned version; see `evaluate` for the arguments.

        Without a run of its own, the runtime takes the newest completed training run of the spec's version.
        """
        arguments = Arguments(
            checkpoint=checkpoint, seed=seed, window=_window(new_window), episodes=episodes, deterministic=deterministic
        )
        return self._evaluate("replay", run, arguments, strict=strict)

    def backtest(
        self,
        engine: str = "native",
        *,
        sizing: Sizing | None = None,
        run: str | None = None,
        checkpoint: str | int | None = None,
        seed: int | str | None = None,
        window: WindowLike | None = None,
        deterministic: bool | None = None,
        strict: bool = False,
    ) -> RunResult:
        """Plays a policy on a backtest engine, one episode over the whole window, under its pinned version.

        Positions and fills are recorded as those of an evaluation.

        Args:
            engine: Alias of the engine: `native` or `backtrader`.
            sizing: When weights become units, `at_fill` or `at_decision`; None: as the environment has it.
            run: The run that made the policy, as for `evaluate`, like all that follow.
            checkpoint: `best`, a step, or a folder; None takes the run's last.
            seed: Seed of what the policy draws; None takes the parent run's.
            window: Other dates than the evaluation's.
            deterministic: Another way to act than the spec's.
            strict: Refuse, instead of warn, when components changed since the version was stored.
        """
        arguments = Arguments(
            checkpoint=checkpoint,
            seed=seed,
            window=_window(window),
            episodes=1,
            deterministic=deterministic,
            engine=engine,
            sizing=sizing,
        )
        return self._evaluate("backtest", run, arguments, strict=strict, engine=EngineChoice(engine, sizing))

    def rows(self, kind: str, run: str) -> Table:
        """The recorded steps of a run that this runtime made, as an Arrow table.

        Args:
            kind: `trajectories`, `equity_curves`, `action_logs`, `reward_decomposition`, `positions` or `fills`.
            run: The run's id, as in its result.
        """
        if kind not in KINDS:
            raise RunError(f"steps of kind {kind!r}", "there are no such", nearest(kind, KINDS))
        store = self._setup.stores.get(run)
        if store is None:
            raise RunError(
                f"the steps of run {run}",
                "this runtime did not record them",
                f"Read those of other runs from the tables: rl runs trajectories {run}.",
            )
        return store.rows(kind)

    def _evaluate(
        self,
        verb: EvaluatingVerb,
        run: str | None,
        arguments: Arguments,
        *,
        strict: bool,
        engine: EngineChoice | None = None,
    ) -> RunResult:
        refuse_verb(self.spec, verb)
        setup = self._setup if engine is None else replace(self._setup, engine=engine)
        with process_lock, Ledger.open(self.settings) as ledger, cpu_threads(self.settings.infer.threads):
            parent = self._parent(ledger, verb, run, arguments)
            return evaluate(setup, ledger, verb, parent, arguments, strict=strict)

    def _parent(self, ledger: Ledger, verb: EvaluatingVerb, run: str | None, arguments: Arguments) -> RunRow | None:
        """The run whose policy plays; None where it is a folder's, or that of a rule."""
        if run is not None:
            return latest_for(ledger, verb) if run == "latest" else ledger.run(run)
        if self._run is not None:
            return ledger.run(self._run.id)  # it may have gone on since
        assert self.spec.agent is not None
        needs_run = self.spec.agent.build().trains and not arguments.names_folder
        return newest_trained(ledger, self.spec) if verb == "replay" and needs_run else None


def _window(value: WindowLike | None) -> Window | None:
    return None if value is None else Window.of(value)


def _stored(row: RunRow, version: VersionRow) -> RLExperimentSpec:
    """The spec of a run's version; one that cannot be read names the plug-ins that the run was made with."""
    try:
        return spec_of_version(version)
    except SpecError as error:
        absent = [name for name in row.code_fingerprint.get("plugins", {}) if name not in catalogue.plugins()]
        if not absent:
            raise
        named = " ".join(f"--plugin {name}" for name in absent)
        remedy = f"Run {row.id} was made with {', '.join(absent)}: {named}, or plugins: in settings.yaml."
        raise SpecError(error.what, error.why, remedy) from error


def _as_spec(spec: RLExperimentSpec | JsonMapping | str | Path) -> RLExperimentSpec:
    if isinstance(spec, RLExperimentSpec):
        return spec
    return load_spec(spec) if isinstance(spec, str | Path) else RLExperimentSpec.from_data(spec)
