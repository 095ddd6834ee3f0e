"""Why an episode ends: one file per reason.

The reasons that are failures are here by name too; they are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alphaswarm_rl.terminations.drawdown import DrawdownTermination
    from alphaswarm_rl.terminations.margin_call import MarginCallTermination
    from alphaswarm_rl.terminations.risk_breach import RiskBreachTermination

_HOMES = {
    "DrawdownTermination": "drawdown",
    "MarginCallTermination": "margin_call",
    "RiskBreachTermination": "risk_breach",
}

__all__ = ["DrawdownTermination", "MarginCallTermination", "RiskBreachTermination"]


def __getattr__(name: str) -> type:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: type = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found
