"""What a training begins with, where its spec names trained weights: found, verified, and handed to its agent.

`pinned` writes the checksum of the checkpoint beside the name in `training.init_from`, before the spec is hashed;
`load` reads that checkpoint before a training has a row, and `prepare` and `begin_with` give it to what is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alphaswarm_rl.core.contracts import AnyVectorEnv, Learner
from alphaswarm_rl.core.errors import CheckpointError, SpecError, UnfitCheckpoint
from alphaswarm_rl.core.files import checked_path
from alphaswarm_rl.core.types import AnySpace
from alphaswarm_rl.envs.preprocessing import PreprocessedEnv
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.inference.checkpoints import LoadedCheckpoint, load_checkpoint, restoring, unfit
from alphaswarm_rl.inference.policy_plan import PolicyPlan, read_plan
from alphaswarm_rl.inference.selection import sha256_of_folder, trainer_of
from alphaswarm_rl.inference.spaces import same_numbers
from alphaswarm_rl.inference.trained_checkpoints import checkpoint_of_model, checkpoint_of_run
from alphaswarm_rl.inference.windows import seen_windows
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.spec.init_from import InitFrom

_PURPOSE = "training.init_from"


@dataclass(frozen=True)
class InitialWeights:
    """A checkpoint that a training begins with.

    Attributes:
        called: What people call it.
        loaded: The checkpoint, verified.
        run_id: The training run that wrote it, where the ledger knows it.
    """

    called: str
    loaded: LoadedCheckpoint
    run_id: str | None

    @property
    def notice(self) -> str:
        """What a run's row says of it."""
        at = self.loaded.checkpoint
        return f"initial weights: {self.called} at step {at.timesteps}, checkpoint sha256 {at.sha256}"


def pinned(spec: RLExperimentSpec, settings: Settings) -> RLExperimentSpec:
    """The spec with the checksum of the checkpoint that `training.init_from` names; others are as they were."""
    named = spec.training.init_from
    if named is None or named.is_pinned:
        return spec
    found = _find(named, settings)
    update = {"sha256": found.loaded.checkpoint.sha256, "seen": seen_windows(found.loaded.trained_spec)}
    training = spec.training.model_copy(update={"init_from": named.model_copy(update=update)})
    return spec.model_copy(update={"training": training})


def load(spec: RLExperimentSpec, settings: Settings) -> InitialWeights | None:
    """The checkpoint that a pinned spec begins with; None where it begins with random weights."""
    named = spec.training.init_from
    if named is None:
        return None
    found = _find(named, settings)
    _refuse_other_policy(found, spec)
    return found


def prepare(initial: InitialWeights, builder: Builder) -> list[str]:
    """Lets data be scaled as the weights are used to, before any are loaded; gives the notices of the run's row."""
    if builder.data is None:
        return [initial.notice]
    if initial.loaded.trained_spec.data_pipeline == builder.spec.data_pipeline:
        builder.restore_data(initial.loaded.states)
        return [initial.notice]
    other = f"initial weights: {initial.called} was trained on another data_pipeline; data are scaled as this spec says"
    return [initial.notice, other]


def begin_with(initial: InitialWeights, learner: Learner, env: AnyVectorEnv, plan: PolicyPlan) -> list[str]:
    """Hands weights and normaliser to a new learner and its environment; spaces that do not fit are refused by name.

    Args:
        initial: The checkpoint.
        learner: The agent.
        env: Its environment, behind whoever watches it.
        plan: What answering with the new agent will need.

    Returns:
        Notices of the run's row.
    """
    notices = []
    if initial.loaded.policy is not None:
        theirs = read_plan(initial.loaded.policy, checkpoint=str(initial.loaded.checkpoint.path))
        _refuse_other_space(initial, "observation", theirs.observation.space, plan.observation.space)
        _refuse_other_space(initial, "action", theirs.action.space, plan.action.space)
        differing = _differing(theirs.observation.features, plan.observation.features)
        if differing is not None:
            notices = [
                f"initial weights: {initial.called} was shown {differing[0]} where this spec shows {differing[1]}"
            ]
    try:
        with restoring(initial.loaded.checkpoint.path):
            learner.begin_with(initial.loaded.states["learner"])
            statistics = initial.loaded.states.get("preprocessing")
            if statistics is not None and isinstance(env, PreprocessedEnv):
                env.load_statistics(statistics)
    except UnfitCheckpoint as error:
        raise _unfit(initial, error.why, "agent, networks and normalisation") from error
    return notices


def _differing(theirs: Sequence[str] | None, ours: Sequence[str] | None) -> tuple[str, str] | None:
    """The first number of an observation that has another name now; None where all are alike, or have no names."""
    pairs = zip(theirs or (), ours or (), strict=False)
    return next((pair for pair in pairs if pair[0] != pair[1]), None)


def _refuse_other_policy(initial: InitialWeights, spec: RLExperimentSpec) -> None:
    trained = initial.loaded.trained_spec
    assert spec.agent is not None
    if trained.agent is None or trained.agent.name != spec.agent.name:
        other = "no agent" if trained.agent is None else f"the agent {trained.agent.label!r}"
        raise _unfit(initial, f"it is of {other}, and this spec's is {spec.agent.label!r}", "agent")
    for name in ("normalize", "stack_frames"):
        theirs, ours = getattr(trained.obs, name), getattr(spec.obs, name)
        if theirs != ours:
            raise _unfit(initial, f"it was trained with obs.{name} {theirs}, and this spec has {ours}", f"obs.{name}")


def _refuse_other_space(initial: InitialWeights, side: str, theirs: AnySpace, ours: AnySpace) -> None:
    if not same_numbers(theirs, ours):
        raise _unfit(
            initial, f"it was trained for the {side} space {theirs}, and the environment's is {ours}", "environment"
        )


def _unfit(initial: InitialWeights, why: str, part: str) -> UnfitCheckpoint:
    return UnfitCheckpoint(
        f"training.init_from: {initial.called}", why, f"Begin with a checkpoint of the same {part}, or leave it out."
    )


def _find(named: InitFrom, settings: Settings) -> InitialWeights:
    """The checkpoint by its name, else by its checksum."""
    if named.run is not None:
        with Ledger.open(settings) as ledger:
            checkpoint = named.checkpoint if isinstance(named.checkpoint, int) else str(named.checkpoint)
            run, loaded = checkpoint_of_run(ledger, settings, named.run, checkpoint, purpose=_PURPOSE)
        found = InitialWeights(f"run {run.id}", loaded, run.id)
    elif named.model is not None:
        row, loaded = checkpoint_of_model(settings, named.model)
        found = InitialWeights(f"model {row.id}", loaded, _trainer(settings, loaded.checkpoint.path))
    elif named.folder is not None:
        found = _in_folder(named.folder, settings)
    else:
        found = _by_checksum(str(named.sha256), settings)
    sha256 = found.loaded.checkpoint.sha256
    if named.sha256 not in (None, sha256):
        raise CheckpointError(
            f"training.init_from: {found.called}",
            f"its checkpoint has the SHA-256 {sha256}, not {named.sha256}",
            "Name the checkpoint that was meant, or its checksum.",
        )
    return found


def _in_folder(folder: str, settings: Settings) -> InitialWeights:
    try:
        path = settings.data_path / checked_path(folder).expanduser()
    except ValueError as error:
        raise unfit(Path(folder), str(error)) from error
    with Ledger.open(settings) as ledger:
        recorded, trainer = sha256_of_folder(ledger, path), trainer_of(ledger, path)
    loaded = load_checkpoint(path, expected_sha256=recorded)
    return InitialWeights(f"checkpoint {folder!r}", loaded, None if trainer is None else trainer.id)


def _trainer(settings: Settings, path: Path) -> str | None:
    with Ledger.open(settings) as ledger:
        trainer = trainer_of(ledger, path)
    return None if trainer is None else trainer.id


def _by_checksum(sha256: str, settings: Settings) -> InitialWeights:
    """The checkpoint of that checksum, wherever ledger or registry know one."""
    with Ledger.open(settings) as ledger:
        known = ledger.checkpoints_of(sha256)
    for run_id, place in known:
        if Path(place).is_dir():
            return InitialWeights(f"run {run_id}", load_checkpoint(Path(place), expected_sha256=sha256), run_id)
    has_registry = settings.registry_file is None or settings.registry_file.exists()
    if settings.registry.enable and has_registry:
        with ModelRegistry.open(settings, make=False) as registry:
            row = registry.find(sha256=sha256)
        if row is not None and row.path.is_dir():
            loaded = load_checkpoint(row.path, expected_sha256=sha256)
            return InitialWeights(f"model {row.id}", loaded, _trainer(settings, row.path))
    gone = f"run {known[0][0]} wrote it, and it is not there any more" if known else "no run and no model has it"
    raise SpecError(
        f"training.init_from: the checkpoint with SHA-256 {sha256}",
        gone,
        "Name its folder beside the checksum, as checkpoint, or register it: rl models add FOLDER METRICS.",
    )
