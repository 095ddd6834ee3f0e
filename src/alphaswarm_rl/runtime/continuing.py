"""A run that has ended, trained further: by a run of its own, under the version of the longer training."""

from __future__ import annotations

from dataclasses import dataclass, replace

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.inference.checkpoints import LoadedCheckpoint
from alphaswarm_rl.inference.windows import training_windows
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.ledger.runs import ENDED
from alphaswarm_rl.runtime import start
from alphaswarm_rl.runtime.fingerprints import machine_drift
from alphaswarm_rl.runtime.result import RunResult
from alphaswarm_rl.runtime.run import RunSetup
from alphaswarm_rl.runtime.session import TrainingSession
from alphaswarm_rl.runtime.train import Resumed, run_training
from alphaswarm_rl.spec import RLExperimentSpec


def train_further(setup: RunSetup, ledger: Ledger, run_id: str, total_timesteps: int) -> RunResult:
    """Opens a run of the longer version and trains from where another run ended.

    Args:
        setup: The spec of that run, and where it is run.
        ledger: Where its row is.
        run_id: The run.
        total_timesteps: Transitions in all.
    """
    ledger.refuse_if_halted(run_id)
    parent = ledger.run(run_id)
    _refuse(parent)
    chosen = Resumed.choose(ledger, parent, None)
    checkpoint = chosen.loaded.checkpoint
    if total_timesteps <= checkpoint.timesteps:
        why = f"it has been trained for {checkpoint.timesteps} transitions, and {total_timesteps} are no more than that"
        raise RunError(f"run {parent.id}", why, f"Give more: --total-timesteps {2 * checkpoint.timesteps}.")
    setup = replace(setup, spec=_longer(setup.spec, total_timesteps))
    builder = _builder(setup, parent, chosen.loaded)
    window = setup.spec.training.window
    row = start.create_row(
        setup,
        ledger,
        "train",
        ledger.persist_spec(setup.spec, notes=f"continues run {parent.id}"),
        seed=parent.seed,
        window=window,
        notices=start.hindsight(setup, seed=parent.seed),
        total_timesteps=total_timesteps,
        timesteps=checkpoint.timesteps,
        parent_run_id=parent.id,
        arguments={"continues": {"run": parent.id, "step": checkpoint.timesteps, "sha256": checkpoint.sha256}},
    )
    return run_training(setup, ledger, row, Continued(parent, chosen.loaded, chosen.notices), builder)


def _refuse(parent: RunRow) -> None:
    what = f"run {parent.id}"
    if parent.target != "train":
        raise RunError(what, f"it is a run of {parent.target!r}", "Only training runs are trained further.")
    if parent.removed_at is not None:
        raise RunError(what, "its files were removed", "Train the spec again: rl train.")
    if parent.status not in ENDED:
        raise RunError(what, f"it is {parent.status}", "Wait for its end, or halt it: rl halt.")
    if parent.checkpoint is None:
        raise RunError(what, "it has no checkpoint to go on from", "Train the spec again: rl train.")


def _longer(spec: RLExperimentSpec, total_timesteps: int) -> RLExperimentSpec:
    data = spec.as_data()
    data["training"]["total_timesteps"] = total_timesteps
    return RLExperimentSpec.from_data(data, source=f"spec {spec.name!r} for {total_timesteps} transitions", stored=True)


def _builder(setup: RunSetup, parent: RunRow, loaded: LoadedCheckpoint) -> Builder:
    """The builder of the longer training; data that are not those of the run are refused before there is a row."""
    training = setup.spec.training
    builder = start.checked_builder(setup, seed=parent.seed, window=training.window)
    builder.restore_data(loaded.states)
    builder.load_data((*start.played_windows(setup.spec).values(), *training_windows(training)))
    if builder.data_fingerprint(training.window) != parent.data_fingerprint:
        raise RunError(
            f"run {parent.id}",
            "its data have changed since it was trained",
            f"Put the data back, or begin with its weights alone: rl train SPEC --init-from {parent.id}.",
        )
    return builder


@dataclass(frozen=True)
class Continued:
    """A training that goes on from the end of another run.

    Attributes:
        parent: That run.
        loaded: The checkpoint that it goes on from.
        notices: What is wrong with later ones.
    """

    parent: RunRow
    loaded: LoadedCheckpoint
    notices: tuple[str, ...]

    @property
    def details(self) -> JsonObject:
        """The run and the step that it goes on from."""
        return {"continues": self.parent.id, "continued_at": self.loaded.checkpoint.timesteps}

    def prepare(self, builder: Builder) -> list[str]:
        """Scalers were put back when the data were compared."""
        return list(self.notices)

    def begin(self, session: TrainingSession) -> None:
        """Puts everything back that learns or counts; checkpoints are the new run's own from here on."""
        run, done = session.run, self.loaded.checkpoint.timesteps
        how = session.restore(self.loaded)
        session.checkpoint = None
        fresh = " (episodes start fresh)" if how == "approximate" else ""
        run.update(resume=how, timesteps=done)
        notices = [f"continues run {self.parent.id} from step {done}; resume: {how}{fresh}"]
        schedules = session.builder.agent.schedules()
        if schedules:
            notices.append(
                f"{', '.join(schedules)} of the agent run over the whole training: from step {done} on over "
                f"{run.spec.training.total_timesteps} transitions, before over {self.parent.total_timesteps}; "
                "a training of that length at once would differ from its first step"
            )
        if how == "exact" and getattr(session.learner, "is_cut", False):
            notices.append(
                f"the last rollout of run {self.parent.id} was cut short by its total and learnt from: a training of "
                "this length at once would have filled it first"
            )
        if run.spec.training.eval_during_training:
            notices.append("the best model is sought among those of this run alone")
        run.add_notices([*notices, *machine_drift(self.parent, run.spec)])
