"""Which checkpoint a verb means: a run's last, its best, one of its steps, or a folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from alphaswarm_rl.core.claims import run_folder
from alphaswarm_rl.core.errors import AlphaSwarmError, CheckpointError, RunError
from alphaswarm_rl.core.files import checked_path
from alphaswarm_rl.core.slots import PARTS
from alphaswarm_rl.inference.checkpoints import (
    Checkpoint,
    CheckpointStore,
    LoadedCheckpoint,
    load_checkpoint,
    unfit,
)
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.ledger.runs import ENDED, PRUNED, RESUMABLE
from alphaswarm_rl.spec import RLExperimentSpec

#: What a stored run is used for.
Verb = Literal["resume", "continue", "evaluate", "replay", "backtest"]

#: The parts of a spec that a policy depends on.
_POLICY_FIELDS = ("env", "obs", *(slot.name for slot in PARTS if not slot.judges), "agent")


@dataclass(frozen=True)
class Selection:
    """Finds and loads checkpoints for one spec.

    Attributes:
        ledger: Where runs are looked up.
        store: Where checkpoints lie.
        spec: The spec whose policy it is.
    """

    ledger: Ledger
    store: CheckpointStore
    spec: RLExperimentSpec

    def load(self, run: RunRow | None, choice: str | int | None, *, verb: str) -> LoadedCheckpoint | None:
        """The checkpoint, verified; None where the agent learns nothing and none is named.

        Args:
            run: The run whose checkpoint it is; None leaves only a folder.
            choice: `best`, a step, or a folder; None is the run's last.
            verb: What it is used for.
        """
        if isinstance(choice, str) and names_folder(choice):
            try:
                path = checked_path(choice)
            except ValueError as error:
                raise unfit(Path(choice), str(error)) from error
            return self._refuse_other_policy(load_checkpoint(path, expected_sha256=sha256_of_folder(self.ledger, path)))
        assert self.spec.agent is not None
        if choice is None and (run is None or run.checkpoint is None) and not self.spec.agent.build().trains:
            return None
        if run is None:
            raise RunError(
                f"spec {self.spec.name!r}",
                f"{verb} needs a trained policy",
                "Name a run, or a checkpoint folder with --checkpoint.",
            )
        if choice is None:
            return self._last(run)
        trained = self._trained(run)
        _refuse_removed(trained)
        return self._best(trained) if choice == "best" else self._step(trained, int(choice))

    def _refuse_other_policy(self, loaded: LoadedCheckpoint) -> LoadedCheckpoint:
        trained = loaded.trained_spec
        differing = [name for name in _POLICY_FIELDS if getattr(trained, name) != getattr(self.spec, name)]
        if differing:
            what = f"checkpoint {str(loaded.checkpoint.path)!r}"
            why = f"it was trained with another {' and '.join(differing)} than this spec has"
            raise CheckpointError(what, why, "Use a checkpoint of this spec, or the spec of this checkpoint.")
        return loaded

    def _last(self, run: RunRow) -> LoadedCheckpoint:
        _refuse_removed(self._trained(run))
        if run.checkpoint is None:
            raise RunError(f"run {run.id}", "it has no checkpoint", "Use a run that trained.")
        return load_checkpoint(Path(run.checkpoint), expected_sha256=run.checkpoint_sha256)

    def _best(self, run: RunRow) -> LoadedCheckpoint:
        if run.best_checkpoint is None:
            why, remedy = "it sought no best model", "Train with training.eval_during_training: true."
            raise RunError(f"run {run.id}", why, remedy)
        return self._recorded(run, Path(run.best_checkpoint))

    def _step(self, run: RunRow, step: int) -> LoadedCheckpoint:
        steps = self.store.steps(run.id)
        if step not in steps:
            kept = ", ".join(map(str, steps)) or "none"
            raise RunError(f"checkpoint at step {step} of run {run.id}", "it is not kept", f"Kept: {kept}.")
        return self._recorded(run, steps[step])

    def _recorded(self, run: RunRow, path: Path) -> LoadedCheckpoint:
        return load_checkpoint(path, expected_sha256=recorded_sha256(self.ledger, run, path))

    def _trained(self, run: RunRow) -> RunRow:
        """The training run behind an evaluation or a replay: the one whose checkpoints they use."""
        while run.target != "train" and run.parent_run_id is not None:
            run = self.ledger.run(run.parent_run_id)
        return run


def names_folder(choice: str | int | None) -> bool:
    """Whether the choice of a checkpoint is a folder rather than the last, the best or a step of a run."""
    return isinstance(choice, str) and choice != "best" and not choice.isdigit()


def recorded_sha256(ledger: Ledger, run: RunRow, path: Path) -> str:
    """The checksum that the ledger holds of one of a run's checkpoints; one it does not know is refused."""
    found = recorded_checkpoints(ledger, run).get(path.resolve())
    if found is None:
        raise CheckpointError(
            f"checkpoint {str(path)!r}", f"the ledger has no record of it in run {run.id}", "Use another checkpoint."
        )
    return found


def recorded_checkpoints(ledger: Ledger, run: RunRow) -> dict[Path, str]:
    """The checkpoints that the ledger names, kept or not, with their checksums."""
    saved = [event.payload for event in ledger.events(run.id) if event.stage == "train.checkpoint"]
    found = {Path(item["path"]).resolve(): str(item["sha256"]) for item in saved}
    if run.checkpoint is not None and run.checkpoint_sha256 is not None:
        found[Path(run.checkpoint).resolve()] = run.checkpoint_sha256
    return found


def is_reported(ledger: Ledger, run: RunRow, checkpoint: Checkpoint) -> bool:
    """Whether an event of the run names a checkpoint: the row forgets it with the next one."""
    saved = (event.payload for event in ledger.events(run.id) if event.stage == "train.checkpoint")
    return any(payload["path"] == str(checkpoint.path) for payload in saved)


def saved_checkpoints(ledger: Ledger, run: RunRow) -> list[Checkpoint]:
    """The checkpoints that a training run stands on, kept or not, the newest first.

    What a resume from an earlier one left behind is not among them, even where somebody still holds it.
    """
    found: dict[int, Checkpoint] = {}
    for event in ledger.events(run.id):
        if event.stage == "train.checkpoint":
            saved = Checkpoint(Path(event.payload["path"]), event.payload["sha256"], event.payload["timesteps"])
            found[saved.timesteps] = saved
        elif event.stage == "agent.built" and "resumed_at" in event.payload:
            found = {step: saved for step, saved in found.items() if step <= event.payload["resumed_at"]}
    if run.checkpoint is not None and run.checkpoint_sha256 is not None:
        path = Path(run.checkpoint)
        last = Checkpoint(path, run.checkpoint_sha256, int(path.name))
        found = {step: saved for step, saved in found.items() if step <= last.timesteps} | {last.timesteps: last}
    return [found[step] for step in sorted(found, reverse=True)]


def sha256_of_folder(ledger: Ledger, path: Path) -> str | None:
    """The checksum that the ledger holds of a checkpoint folder; None where it is of no run it knows."""
    run = trainer_of(ledger, path)
    return None if run is None else recorded_sha256(ledger, run, path)


def trainer_of(ledger: Ledger, path: Path) -> RunRow | None:
    """The training run that wrote a checkpoint folder; None where the ledger knows none."""
    run_id = run_folder(path.resolve()).name
    runs = ledger.runs(target="train", limit=None, include_removed=True)
    return next((run for run in runs if run.id == run_id), None)


def latest_for(ledger: Ledger, verb: Verb) -> RunRow:
    """The newest run that a verb can use; rules that were judged beside another run, as baselines, are passed over.

    Args:
        ledger: Where runs are looked up.
        verb: resume takes a stopped training run that has a checkpoint, continue any training run that has ended and
            has one; the others a run with a checkpoint, or one of an agent that needs none.
    """
    if verb == "resume":
        usable, none = _can_go_on, "no training run has stopped with a checkpoint"
    elif verb == "continue":
        usable, none = _can_be_continued, "no training run that has ended has a checkpoint"
    else:
        usable, none = partial(_can_be_judged, ledger), "no run has a checkpoint or an agent that needs none"
    found = next((run for run in ledger.runs(limit=None) if run.beside is None and usable(run)), None)
    if found is None:
        raise RunError(f"the latest run to {verb}", none, "See: rl runs list. Or train one: rl train SPEC.")
    return found


def newest_trained(ledger: Ledger, spec: RLExperimentSpec) -> RunRow:
    """The newest run that trained this very version to its end, and whose checkpoint is there."""
    for run in ledger.runs(status="completed", target="train", limit=None):
        if run.spec_hash == spec.spec_hash and run.checkpoint is not None and Path(run.checkpoint).is_dir():
            return run
    raise RunError(
        f"spec {spec.name!r}",
        f"no training run of this version ({spec.spec_hash[:12]}) is completed and has its checkpoint",
        "Train it first: RLRuntime(spec).train(). Or name a run: replay(window, run=RUN).",
    )


def _can_go_on(run: RunRow) -> bool:
    # A trial that its study gave up is not what anybody means to go on with; by its id it can be.
    pruned = run.halt_reason is not None and run.halt_reason.startswith(PRUNED)
    return run.target == "train" and run.status in RESUMABLE and run.checkpoint is not None and not pruned


def _can_be_continued(run: RunRow) -> bool:
    return run.target == "train" and run.status in ENDED and run.checkpoint is not None and run.removed_at is None


def _can_be_judged(ledger: Ledger, run: RunRow) -> bool:
    if run.checkpoint is not None:
        return Path(run.checkpoint).is_dir()
    payload = ledger.version(run.version_id).payload
    try:
        agent = RLExperimentSpec.from_data(payload, stored=True).agent
        return agent is not None and not agent.build().trains
    except AlphaSwarmError:  # a version that this code cannot read is none that it can run
        return False


def _refuse_removed(run: RunRow) -> None:
    if run.removed_at is not None:
        raise RunError(f"run {run.id}", "its files were removed", "Use another run.")
