"""How a run begins: its row with all that it pins, its first events, its builder."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alphaswarm_rl.arrays.backend import resolve_device
from alphaswarm_rl.core.contracts import OpenStore
from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.core.seeding import LARGEST_SEED
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.inference.building import Builder, lake_of
from alphaswarm_rl.inference.checkpoints import Checkpoint
from alphaswarm_rl.inference.frozen_policies import FrozenPolicies
from alphaswarm_rl.ledger import Ledger, RunRow, VersionRow
from alphaswarm_rl.recording.recording import Recording
from alphaswarm_rl.runtime.envelope import RunScope
from alphaswarm_rl.runtime.events import Event, Sink
from alphaswarm_rl.runtime.fingerprints import code_fingerprint, machine_fingerprint
from alphaswarm_rl.runtime.media import save_gif
from alphaswarm_rl.runtime.rollout import Evaluation
from alphaswarm_rl.runtime.tracking_description import destination_for
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.telemetry.routes import routes


@dataclass(frozen=True)
class RunContext:
    """What every verb needs to know.

    Attributes:
        spec: What is run.
        settings: Where it is run.
        overrides: What flags and environment variables changed, with the source of each.
        progress: Whether a progress bar is shown.
        sinks: More receivers of the run's events.
        frames: Data frames that the caller handed in, by name.
        stores: The trajectory stores of runs that were made, by run.
        stop_when: Hears every event of a run; a text that it answers with halts the run, as its reason.
    """

    spec: RLExperimentSpec
    settings: Settings
    overrides: Mapping[str, Any]
    progress: bool
    sinks: tuple[Sink, ...]
    frames: Mapping[str, Any] = field(default_factory=dict)
    stores: dict[str, OpenStore] = field(default_factory=dict)
    stop_when: Callable[[Event], str | None] | None = None

    def record(self, ledger: Ledger, run: RunRow) -> Recording:
        """The recording of a run; its store can be asked for rows as long as the runtime lives."""
        recording = Recording.open(self.spec, self.settings, ledger, run)
        if recording.store is not None:
            self.stores[run.id] = recording.store
        return recording

    def builder(self, *, seed: int, device: str) -> Builder:
        """The builder of this spec for one run."""
        return Builder(
            self.spec,
            seed=seed,
            device=device,
            root=self.settings.data_path,
            frames=self.frames,
            lake=lake_of(self.settings),
            frozen=FrozenPolicies(self.settings, self.frames),
        )


def create_run(
    context: RunContext,
    ledger: Ledger,
    version: VersionRow,
    target: str,
    *,
    seed: int,
    window: Window,
    parent: RunRow | None = None,
    checkpoint: Checkpoint | None = None,
    **columns: Any,
) -> RunRow:
    """The row of a new run, with everything it depends on; a component that changed since is said in a notice."""
    spec, settings = context.spec, context.settings
    device = resolve_device(settings.infer.device)
    return ledger.create_run(
        spec_id=version.spec_id,
        version_id=version.id,
        parent_run_id=None if parent is None else parent.id,
        family=spec.slug,
        name=settings.store.run_name,
        target=target,
        seed=seed,
        spec_hash=version.spec_hash,
        exec_hash=spec.exec_hash,
        code_fingerprint=_code(spec),
        machine=machine_fingerprint(device),
        device=device,
        window_start=window.start,
        window_end=window.end,
        checkpoint=None if checkpoint is None else str(checkpoint.path),
        checkpoint_sha256=None if checkpoint is None else checkpoint.sha256,
        overrides=dict(context.overrides),
        notices=component_drift(version, spec),
        **columns,
    )


def check_request(context: RunContext, window: Window) -> None:
    """Refuses what can be refused before there is a run: a wrong request leaves no row."""
    builder = context.builder(seed=0, device="cpu")
    builder.env.notices()  # resolves its name
    builder.refuse_window(window)
    destination_for(context.spec, context.settings)
    routes(context.settings, os.environ)  # an address of telemetry that is none
    if context.frames and builder.data is None:
        raise RunError(
            f"the frames {', '.join(sorted(context.frames))}",
            "the spec has no data_pipeline that could take them",
            "Hand none in, or add data_pipeline: {class: frame, kwargs: {name: NAME}}.",
        )


@dataclass(frozen=True)
class TrainedOn:
    """The training behind a policy that is judged: its run, and the window it saw."""

    run: RunRow
    window: Window


def start(
    context: RunContext,
    ledger: Ledger,
    scope: RunScope,
    windows: Mapping[str, Window],
    *,
    others: tuple[Window, ...],
    judges: bool,
    trained_on: TrainedOn | None = None,
) -> Builder:
    """The builder of a run, after its first two events; data that changed since the run began are refused.

    Args:
        context: What is run where.
        ledger: Where the row is.
        scope: The run.
        windows: The windows it plays, by name, its own first.
        others: The windows whose bars it needs beside those.
        judges: Whether there will be an evaluation.
        trained_on: Whose bars the policy was trained on, where they may be compared with today's.
    """
    run, window = scope.run, next(iter(windows.values()))
    scope.bus.emit(
        "start",
        target=run.target,
        spec=context.spec.slug,
        version_id=run.version_id,
        spec_hash=run.spec_hash,
        seed=run.seed,
    )
    builder = context.builder(seed=run.seed, device=resolve_device(run.device))
    builder.load_data((*windows.values(), *others))
    fingerprint = builder.data_fingerprint(window)
    if run.resumed and fingerprint != run.data_fingerprint:
        raise RunError(
            f"run {run.id}",
            "its data have changed since it began",
            "Put the data back, or train the spec again: rl train.",
        )
    found = builder.notices(judges=judges, windows=windows)
    if trained_on is not None and builder.has_other_bars(trained_on.run, trained_on.window):
        found.append(f"the bars of the training window are not those that run {trained_on.run.id} was trained on")
    noticed = run.notices or []
    notices = [*noticed, *(note for note in found if note not in noticed)]
    ledger.update_run(run.id, data_fingerprint=fingerprint, notices=notices)
    scope.bus.emit(
        "data.loaded",
        data_fingerprint=fingerprint,
        window=[window.start, window.end],
        notices=notices,
        **_describe_data(builder, window),
    )
    return builder


def _describe_data(builder: Builder, window: Window) -> dict[str, Any]:
    if builder.data is None:
        return {}
    panel = builder.data.raw(window)
    first, last = panel.timestamps[[panel.warmup, -1]].astype("datetime64[s]").astype(str).tolist()
    return {
        "assets": panel.num_assets,
        "bars": panel.num_bars - panel.warmup,
        "warmup_bars": panel.warmup,
        "first_bar": first,
        "last_bar": last,
    }


def component_drift(version: VersionRow, spec: RLExperimentSpec) -> list[str]:
    """Which components behave differently from when the version was first stored."""
    stored, current = version.component_versions, spec.component_versions
    return [
        f"code differs: {name.partition(':')[2]} {stored[name]} -> {current.get(name, 'gone')}"
        for name in sorted(stored)
        if current.get(name) != stored[name]
    ]


def changed_surroundings(run: RunRow, spec: RLExperimentSpec) -> list[str]:
    """What differs between the machine and the code a run began with and those it is resumed with."""
    pairs = ((run.machine, machine_fingerprint(run.device)), (run.code_fingerprint, _code(spec)))
    return [
        f"resumed with another {name}: {before.get(name)} -> {now[name]}"
        for before, now in pairs
        for name in now
        if before.get(name) != now[name]
    ]


def _code(spec: RLExperimentSpec) -> dict[str, Any]:
    return {**code_fingerprint(), "components": spec.component_versions}


def run_metrics(context: RunContext, run: RunRow, evaluation: Evaluation | None) -> dict[str, Any]:
    """The metrics of a run's evaluation; its recording, if there is one, is written now."""
    if evaluation is None:
        return {}
    metrics = dict(evaluation.metrics)
    if evaluation.frames:
        path = context.settings.below_home(Path("media")) / f"{run.id}.gif"
        metrics["recording"] = str(save_gif(evaluation.frames, path))
    return metrics


def draw_seed(wanted: int | str | None, default: int) -> int:
    """The seed that a run pins."""
    if wanted is None:
        return default
    if wanted == "random":
        return secrets.randbelow(LARGEST_SEED + 1)
    if not str(wanted).isdigit() or int(wanted) > LARGEST_SEED:
        why = f"it is not a whole number from 0 to {LARGEST_SEED}"
        raise RunError(f"seed {wanted!r}", why, "Give such a number, or: random.")
    return int(wanted)


def describe_env(env: Any) -> dict[str, Any]:
    """What the env.built event says."""
    return {
        "num_envs": env.num_envs,
        "observation_space": str(env.single_observation_space),
        "action_space": str(env.single_action_space),
    }
