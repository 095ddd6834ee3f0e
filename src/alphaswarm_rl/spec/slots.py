"""What a spec's environment and agent take of it: a part that they have no use for is refused, never ignored."""

from __future__ import annotations

from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.errors import ComponentError, SpecError
from alphaswarm_rl.core.kinds import Agent
from alphaswarm_rl.core.slots import DATA_PIPELINE, PARTS, WINDOW
from alphaswarm_rl.spec.experiment import RLExperimentSpec


def refuse_unused_parts(spec: RLExperimentSpec) -> None:
    """Refuses parts and dates that the environment or the agent does not take, and asks for the data it needs."""
    assert spec.env is not None
    _refuse_unused_advantage(spec)
    _refuse_short_windows(spec)
    if spec.training.init_from is not None and spec.agent is not None and not spec.agent.build().trains:
        raise SpecError(
            "spec field 'training.init_from'", f"the agent {spec.agent.label!r} learns nothing", "Leave it out."
        )
    slots = spec.env.build().slots()
    name = spec.env.name
    if WINDOW not in slots:
        for field, window in (
            ("training.start/end", spec.training.window),
            ("training.validation_start/validation_end", spec.training.validation_window),
            ("evaluation.start/end", spec.evaluation.window),
        ):
            if window:
                raise SpecError(f"spec fields {field}", f"the env {name!r} has no dates", "Leave the dates out.")
    for field, slot, value in _fields(spec):
        if value and slot not in slots:
            raise SpecError(
                f"spec field {field!r}",
                f"the env {name!r} takes none",
                "Leave it out, or use a trading environment: rl components list --kind env.",
            )
    if spec.universe.model is not None and spec.training.start is None:
        raise SpecError(
            "spec field 'universe.model'",
            "it chooses from what was known at training.start, and the spec has none",
            "Give training: {start: DATE}, some bars after the data begin.",
        )
    if DATA_PIPELINE in slots and spec.data_pipeline is None:
        raise SpecError(
            f"env {name!r}",
            "it trades market data, and the spec has no data_pipeline",
            "Add one, such as data_pipeline: {class: synthetic}.",
        )


def _refuse_unused_advantage(spec: RLExperimentSpec) -> None:
    if spec.training.advantage is None or spec.agent is None:
        return
    agent = spec.agent.build()
    if agent.takes_advantage:
        agent.check_advantage(spec.training.advantage.build())
        return
    takers = [cls.rl_alias for cls in catalogue.listing("agent") if issubclass(cls, Agent) and cls.takes_advantage]
    raise SpecError(
        "spec field 'training.advantage'",
        f"the agent {spec.agent.name!r} takes no advantage estimator",
        "Leave it out" + (f", or use an agent that takes one: {', '.join(takers)}." if takers else "."),
    )


def _refuse_short_windows(spec: RLExperimentSpec) -> None:
    if spec.agent is None:
        return
    assert spec.env is not None
    agent, frames = spec.agent.build(), spec.obs.stack_frames
    try:
        agent.check_frames(frames)
    except ComponentError:
        # Frames are the steps of a window only where an observation is one row of numbers; elsewhere the observation
        # says how many steps it has, and the agent looks again when it is built.
        if spec.env.build().flat_observations():
            raise


def _fields(spec: RLExperimentSpec) -> tuple[tuple[str, str, object], ...]:
    """Fields with the slot that each needs and what the spec says there; what is false is not there."""
    return (
        ("universe.symbols", DATA_PIPELINE, spec.universe.symbols),
        ("universe.model", DATA_PIPELINE, spec.universe.model),
        *((name, name, getattr(spec, name)) for name in (DATA_PIPELINE, *(slot.name for slot in PARTS))),
        (
            "training.stop_properly_penalty_coef",
            "reward",
            spec.training.stop_properly_penalty_coef is not None,
        ),
    )
