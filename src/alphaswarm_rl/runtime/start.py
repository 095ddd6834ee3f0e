"""How a run starts: the request is checked, its row is created with all that it depends on, its data are loaded."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Mapping, Sequence

from alphaswarm_rl.arrays.backend import resolve_device
from alphaswarm_rl.audit.hindsight import hindsight_of_others, names_others
from alphaswarm_rl.core.contracts import AnyVectorEnv
from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.core.seeding import LARGEST_SEED
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.ledger import Ledger, RunRow, VersionRow
from alphaswarm_rl.ledger.mirror import fill_mirror
from alphaswarm_rl.runtime.fingerprints import component_drift, machine_fingerprint, spec_code_fingerprint
from alphaswarm_rl.runtime.run import Run, RunSetup, Verb
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.telemetry.routes import routes
from alphaswarm_rl.tracking.listener import destination_for

_log = logging.getLogger(__name__)


def checked_builder(setup: RunSetup, *, seed: int, window: Window) -> Builder:
    """The builder of a new run; what can be refused is refused now, before there is a row.

    Args:
        setup: What is run where.
        seed: Seed of the run.
        window: The dates that it plays.
    """
    builder = setup.builder(seed=seed, device=resolve_device(setup.settings.infer.device))
    builder.env.notices()  # resolves its name
    builder.refuse_window(window)
    destination_for(setup.spec, setup.settings)
    routes(setup.settings, os.environ)  # refuses an address of telemetry that is none
    if setup.frames and builder.data is None:
        raise RunError(
            f"the frames {', '.join(sorted(setup.frames))}",
            "the spec has no data_pipeline that could take them",
            "Hand none in, or add data_pipeline: {class: frame, kwargs: {name: NAME}}.",
        )
    return builder


def played_windows(spec: RLExperimentSpec) -> dict[str, Window]:
    """The windows that a training plays, by name, its own first."""
    training, evaluation = spec.training, spec.evaluation
    windows = {"training": training.window}
    if training.eval_during_training:
        windows["validation"] = training.validation_window
    if evaluation.episodes:
        windows["evaluation"] = evaluation.window
    return windows


def create_row(
    setup: RunSetup,
    ledger: Ledger,
    verb: Verb,
    version: VersionRow,
    *,
    seed: int,
    window: Window,
    notices: Sequence[str] = (),
    **columns: object,
) -> RunRow:
    """The row of a new run, with all that it depends on; components that changed since are a notice in it.

    Args:
        setup: What is run where.
        ledger: Where the row goes.
        verb: What is done.
        version: The stored version of the spec.
        seed: Seed of all its randomness.
        window: The dates that it plays.
        notices: What its row says from the start, beside what changed.
        **columns: What only some verbs have: the parent, the checkpoint, the arguments.
    """
    spec, settings = setup.spec, setup.settings
    device = resolve_device(settings.infer.device)
    fill_mirror(ledger)
    return ledger.create_run(
        spec_id=version.spec_id,
        version_id=version.id,
        family=spec.slug,
        name=settings.store.run_name,
        target=verb,
        seed=seed,
        spec_hash=version.spec_hash,
        exec_hash=spec.exec_hash,
        code_fingerprint=spec_code_fingerprint(spec),
        machine=machine_fingerprint(device),
        device=device,
        window_start=window.start,
        window_end=window.end,
        overrides=dict(setup.overrides),
        notices=[*component_drift(version, spec), *notices],
        **columns,
    )


def hindsight(setup: RunSetup, *, seed: int) -> tuple[str, ...]:
    """What the row of a training says from the start of components of others that look ahead.

    It is looked at before there is a row, by a builder of its own: an audit takes time, and it tries what it audits.

    Args:
        setup: What is trained where.
        seed: Seed of the run, which its bars may be made from.
    """
    if not names_others(setup.spec):
        return ()
    found = hindsight_of_others(setup.builder(seed=seed, device="cpu"))
    for notice in found:  # a run may take hours: whoever waits is told before it begins
        _log.warning("%s", notice)
    return found


def builder_of(run: Run) -> Builder:
    """A builder for a run that has its row."""
    return run.setup.builder(seed=run.row.seed, device=resolve_device(run.row.device))


def load_data(
    run: Run,
    builder: Builder,
    windows: Mapping[str, Window],
    *,
    seen: tuple[Window, ...],
    trained_on: tuple[RunRow, Window] | None = None,
) -> None:
    """Emits the first two events of a run and loads its data; data that changed since the run began are refused.

    Args:
        run: The run.
        builder: Its builder, which then has the data of all these windows.
        windows: The windows it plays, by name, its own first.
        seen: The windows whose bars the policy is trained on: what is in-sample is judged by them.
        trained_on: The run that trained the policy, and its window, where its bars can be compared with today's.
    """
    row, window = run.row, next(iter(windows.values()))
    run.emit(
        "start",
        target=row.target,
        spec=run.spec.slug,
        version_id=row.version_id,
        spec_hash=row.spec_hash,
        seed=row.seed,
    )
    builder.load_data((*windows.values(), *seen))
    fingerprint = builder.data_fingerprint(window)
    if row.resumed and fingerprint != row.data_fingerprint:
        raise RunError(
            f"run {row.id}",
            "its data have changed since it began",
            "Put the data back, or train the spec again: rl train.",
        )
    found = builder.notices(judges=not {"evaluation", "replay", "backtest"}.isdisjoint(windows), windows=windows)
    doubts = builder.doubts(windows.values())
    for doubt in doubts:  # a run may take hours: whoever waits is told before it begins
        _log.warning("%s", doubt)
    found += doubts
    if trained_on is not None and builder.has_other_bars(*trained_on):
        found.append(f"the bars of the training window are not those that run {trained_on[0].id} was trained on")
    known = row.notices or []
    notices = [*known, *(notice for notice in found if notice not in known)]
    run.update(data_fingerprint=fingerprint, notices=notices)
    run.emit(
        "data.loaded",
        data_fingerprint=fingerprint,
        window=[window.start, window.end],
        notices=notices,
        **_describe_bars(builder, window),
    )


def _describe_bars(builder: Builder, window: Window) -> JsonObject:
    if builder.data is None:
        return {}
    panel = builder.data.raw(window)
    first, last = panel.timestamps[[panel.warmup, -1]].astype("datetime64[s]").astype(str).tolist()
    choice = builder.data.choice
    return {
        **({} if choice is None else {"universe": choice.describe()}),
        "assets": panel.num_assets,
        "bars": panel.num_bars - panel.warmup,
        "warmup_bars": panel.warmup,
        "first_bar": first,
        "last_bar": last,
    }


def report_env(run: Run, env: AnyVectorEnv) -> None:
    """Emits that the environment is built."""
    run.emit(
        "env.built",
        num_envs=env.num_envs,
        observation_space=str(env.single_observation_space),
        action_space=str(env.single_action_space),
    )


def report_agent(run: Run, builder: Builder, env: AnyVectorEnv, **details: object) -> None:
    """Emits that the agent is built, and hands both to the listeners."""
    run.emit("agent.built", agent=builder.agent.rl_alias, device=builder.device, **details)
    for listener in run.listeners:
        listener.on_built(env)


def draw_seed(requested: int | str | None, default: int) -> int:
    """The seed that a run pins: the requested one, a drawn one for `random`, or the default."""
    if requested is None:
        return default
    if requested == "random":
        return secrets.randbelow(LARGEST_SEED + 1)
    if not str(requested).isdigit() or int(requested) > LARGEST_SEED:
        why = f"it is not a whole number from 0 to {LARGEST_SEED}"
        raise RunError(f"seed {requested!r}", why, "Give such a number, or: random.")
    return int(requested)
