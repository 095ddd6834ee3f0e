"""The context of a study on the runtime: every run that it asks for is an ordinary run in the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Unpack

from alphaswarm_rl.core.claims import StaleClaim
from alphaswarm_rl.core.errors import AlphaSwarmError, RunError, is_of_the_system
from alphaswarm_rl.core.study_context import PlayArguments, StopRule, StudyRun, TrainArguments
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.runtime import RLRuntime, RunResult
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.studies.changes import changed_spec


class RuntimeContext:
    """A `core.study_context.StudyContext` that trains, evaluates and replays with `RLRuntime`.

    Args:
        base: The spec that runs are variations of.
        settings: Where they run.
        overrides: What flags and environment variables changed of the base spec, stored in every run's row.
        frames: Data frames for the data pipeline `frame`, by name.
        progress: Whether a progress bar is shown for each run.
    """

    def __init__(
        self,
        base: RLExperimentSpec,
        settings: Settings,
        *,
        overrides: JsonMapping | None = None,
        frames: Mapping[str, object] | None = None,
        progress: bool = False,
    ) -> None:
        self._base = base
        self._settings = settings
        self._overrides = dict(overrides or {})
        self._frames = dict(frames or {})
        self._progress = progress

    def train(self, changes: JsonMapping | None = None, **arguments: Unpack[TrainArguments]) -> StudyRun:
        """Trains the base spec with changes; the row names each change with the study as its source."""
        window = arguments.get("window")
        dates = {} if window is None else {"training.start": window.start, "training.end": window.end}
        changed = {**(changes or {}), **dates}
        runtime = self._changed(changed, arguments.get("name"), arguments.get("stop_when"))
        return self._run(lambda: runtime.train(seed=arguments.get("seed")))

    def evaluate(
        self,
        changes: JsonMapping | None = None,
        *,
        parent: str | None = None,
        name: str | None = None,
        **arguments: Unpack[PlayArguments],
    ) -> StudyRun:
        """Judges the policy of a run under that run's own spec, or one that needs no training under a changed spec."""
        if parent is not None and changes:
            raise RunError(
                f"an evaluation of run {parent}",
                f"it changes {', '.join(changes)}, and a run is judged under its own spec",
                "Train with these changes, or leave them out.",
            )
        runtime = self._changed(changes or {}, name) if parent is None else self._stored(parent, name)
        return self._run(lambda: runtime.evaluate(**arguments))

    def replay(self, parent: str, *, name: str | None = None, **arguments: Unpack[PlayArguments]) -> StudyRun:
        """Feeds the policy of a run another window or seed, under its pinned version."""
        runtime = self._stored(parent, name)
        return self._run(
            lambda: runtime.replay(
                arguments.get("window"),
                checkpoint=arguments.get("checkpoint"),
                seed=arguments.get("seed"),
                episodes=arguments.get("episodes"),
            )
        )

    def run(self, run_id: str) -> StudyRun:
        """A run of the ledger that ended."""
        with Ledger.open(self._settings) as ledger:
            row = ledger.run(run_id)
            metrics = {evaluation.phase: evaluation.metrics for evaluation in ledger.evaluations(row.id)}
        judged = next((metrics[phase] for phase in ("evaluate", "replay", "backtest") if phase in metrics), {})
        return StudyRun(
            row.id,
            row.status,
            row.seed,
            validation=metrics.get("validation", {}),
            evaluation=judged,
            checkpoint=row.checkpoint,
            best_checkpoint=row.best_checkpoint,
            halt_reason=row.halt_reason,
            error=row.error,
        )

    def _changed(self, changes: JsonMapping, name: str | None, stop_when: StopRule | None = None) -> RLRuntime:
        source = "study" if name is None else f"study {name}"
        drawn = {path: {"value": value, "source": source} for path, value in changes.items()}
        return RLRuntime(
            changed_spec(self._base, changes) if changes else self._base,
            self._named(name),
            overrides={**self._overrides, **drawn},
            progress=self._progress,
            frames=self._frames,
            stop_when=stop_when,
        )

    def _stored(self, parent: str, name: str | None) -> RLRuntime:
        return RLRuntime.from_run(parent, self._named(name), progress=self._progress, frames=self._frames)

    def _named(self, name: str | None) -> Settings:
        """The settings under which a run's row has this name, after the one that the user gave."""
        store = self._settings.store
        whole = " ".join(filter(None, [store.run_name, name])) or None
        return self._settings.model_copy(update={"store": store.model_copy(update={"run_name": whole})})

    def _run(self, verb: Callable[[], RunResult]) -> StudyRun:
        try:
            return self.run(verb().run_id)
        except StaleClaim:  # what the run comes to is another process's to say
            raise
        except AlphaSwarmError as error:
            # The runtime notes the id of the run that failed; without one the request was refused.
            notes = getattr(error, "__notes__", ())
            if not notes or is_of_the_system(error):  # a disk that fails says nothing about the study's choice
                raise
            return replace(self.run(notes[0]), error=str(error))
