"""The slots of environments: one table of the parts that a spec fills, an environment takes and a request carries.

A spec has a field of each slot's name. `EnvComponent.takes` names the slots that an environment has a use for, and
`EnvRequest.parts` holds what fills them, built: a component, or a tuple of them where a slot takes several. A trading
environment has parts of its own for the slots that a spec leaves empty; its portfolio stages are a parameter of the
environment itself. Beside these there are its dates and its data, of which a request carries the panel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alphaswarm_rl.core.refs import ComponentRef, reference

if TYPE_CHECKING:
    from alphaswarm_rl.core.kinds import SmallComponent

#: The dates that an environment may show.
WINDOW = "window"
#: Market data: the name in a spec and in `takes`, and the name under which a request carries the panel.
DATA_PIPELINE = "data_pipeline"
PANEL = "panel"


@dataclass(frozen=True)
class Slot:
    """A place for a part of an environment.

    Attributes:
        name: The spec's field, and the name in `takes` and in a request's `parts`.
        kind: Kind of the components that fill it.
        pieces: The small components that what fills it consists of.
        several: Whether it takes several components.
        judges: Whether it decides what a reward means; other slots decide what a policy sees and does.
    """

    name: str
    kind: str
    pieces: Callable[[Any], Iterable[SmallComponent]]
    several: bool = False
    judges: bool = False

    def references(self, value: object) -> tuple[ComponentRef, ...]:
        """The references that `value` means: one reference, or a sequence of them where the slot takes several."""
        values: Iterable[object] = value if self.several else (value,)  # type: ignore[assignment]
        return tuple(reference(one, self.kind) for one in values)

    def build(self, value: object) -> Any:
        """The component of a reference, or the tuple of them where the slot takes several."""
        built = tuple(ref.build() for ref in self.references(value))
        return built if self.several else built[0]


#: The slots that a spec fills.
PARTS = (
    Slot("reward", "reward", lambda reward: [named.term for named in reward.terms()], judges=True),
    Slot("observation", "observation", lambda observation: observation.builders()),
    Slot("action", "action", lambda action: (action,)),
    Slot("terminations", "termination", tuple, several=True, judges=True),
)
#: The slot that a trading environment fills by its own parameter.
PORTFOLIO = Slot("portfolio", "portfolio_stage", tuple, several=True)
#: All that a spec may give a trading environment.
TRADING = frozenset({WINDOW, DATA_PIPELINE, *(slot.name for slot in PARTS)})


def slot(name: str) -> Slot:
    """The slot of that name."""
    return next(slot for slot in (*PARTS, PORTFOLIO) if slot.name == name)


def build_parts(values: Mapping[str, object]) -> dict[str, Any]:
    """What `EnvRequest.parts` holds of references by slot; slots with None are left out."""
    return {slot.name: slot.build(values[slot.name]) for slot in PARTS if values.get(slot.name) is not None}
