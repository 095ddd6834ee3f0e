"""What a spec's environment takes of the spec: a part that it has no use for is refused, never ignored."""

from __future__ import annotations

from typing import Any

from alphaswarm_rl.core.errors import SpecError
from alphaswarm_rl.spec.experiment import RLExperimentSpec


def refuse_unused_parts(spec: RLExperimentSpec) -> None:
    """Refuses parts and dates that the environment does not take, and asks for the data that it needs."""
    assert spec.env is not None
    slots = spec.env.build().slots()
    name = spec.env.name
    if "window" not in slots:
        for field, window in (
            ("training.start/end", spec.training.window),
            ("training.validation_start/validation_end", spec.training.validation_window),
            ("evaluation.start/end", spec.evaluation.window),
        ):
            if window:
                raise SpecError(f"spec fields {field}", f"the env {name!r} has no dates", "Leave the dates out.")
    for field, slot, value in _parts(spec):
        if value and slot not in slots:
            raise SpecError(
                f"spec field {field!r}",
                f"the env {name!r} takes none",
                "Leave it out, or use a trading environment: rl components list --kind env.",
            )
    if "data_pipeline" in slots and spec.data_pipeline is None:
        raise SpecError(
            f"env {name!r}",
            "it trades market data, and the spec has no data_pipeline",
            "Add one, such as data_pipeline: {class: synthetic}.",
        )


def _parts(spec: RLExperimentSpec) -> tuple[tuple[str, str, Any], ...]:
    """Fields with the slot that each needs, and whether the spec fills it."""
    return (
        ("universe.symbols", "data_pipeline", spec.universe.symbols),
        ("data_pipeline", "data_pipeline", spec.data_pipeline is not None),
        ("reward", "reward", spec.reward is not None),
        ("observation", "observation", spec.observation is not None),
        ("action", "action", spec.action is not None),
        ("terminations", "terminations", spec.terminations),
        (
            "training.stop_properly_penalty_coef",
            "reward",
            spec.training.stop_properly_penalty_coef is not None,
        ),
    )
