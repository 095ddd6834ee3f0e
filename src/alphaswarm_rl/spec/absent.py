"""Fields whose part of the system is not built yet: refused unless at their default, never ignored.

When a part arrives it takes its line out of here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alphaswarm_rl.core.errors import PartNotHere, SpecError
from alphaswarm_rl.spec.experiment import RLExperimentSpec
from alphaswarm_rl.spec.slots import refuse_unused_parts


@dataclass(frozen=True)
class WaitingField:
    """A field that waits for its part."""

    path: str
    default: Any
    part: str


_WAITING = (
    WaitingField("ensembler", None, "the ensemblers"),
    WaitingField("training.extras", {}, "a part that declares keys there"),
    WaitingField("evaluation.extras", {}, "a part that declares keys there"),
    WaitingField("extras", {}, "a part that declares keys there"),
)

#: The verbs each kind of spec may be run with.
_VERBS = {
    "training": ("train", "evaluate", "replay", "backtest"),
    "research": ("train", "evaluate", "replay", "backtest"),
    "evaluation": ("evaluate", "replay", "backtest"),
    "paper": (),
    "ensemble": (),
}


def waiting_fields() -> tuple[WaitingField, ...]:
    """Every field that is hashed and does nothing yet."""
    return _WAITING


def refuse_absent(spec: RLExperimentSpec) -> None:
    """Refuses a spec that uses a part which is not there or not taken, and one that lacks what every run needs."""
    for field in _WAITING:
        value: Any = spec
        for name in field.path.split("."):
            value = getattr(value, name)
        if value != field.default:
            raise PartNotHere(
                f"spec field {field.path!r}",
                f"it needs {field.part}, which is not part of this version",
                "Leave it out.",
            )
    if not _VERBS[spec.kind]:
        raise _no_verb(spec)
    for name in ("env", "agent"):
        if getattr(spec, name) is None:
            raise SpecError(
                f"spec {spec.name!r}", f"it has no {name}", f"Add {name}: {{class: ALIAS, kwargs: {{...}}}}."
            )
    refuse_unused_parts(spec)


def refuse_verb(spec: RLExperimentSpec, verb: str) -> None:
    """Refuses a verb that the spec's kind does not allow."""
    allowed = _VERBS[spec.kind]
    if verb in allowed:
        return
    if not allowed:
        raise _no_verb(spec)
    raise SpecError(f"spec kind {spec.kind!r}", f"it cannot be run with {verb!r}", f"It allows: {', '.join(allowed)}.")


def _no_verb(spec: RLExperimentSpec) -> PartNotHere:
    return PartNotHere(
        f"spec kind {spec.kind!r}", "the part that runs such specs is not part of this version", "Use kind: training."
    )
