"""How agents, sizes, windows and the figures of an account are put to people."""

from __future__ import annotations

from collections.abc import Mapping

from alphaswarm_rl.core.types import JsonMapping

#: How an account did, in the order in which it is shown.
PORTFOLIO_METRICS = (
    "total_return",
    "annual_return",
    "sharpe",
    "sortino",
    "max_drawdown",
    "volatility",
    "turnover",
    "cost",
    "final_value",
)


#: The agent that runs a policy, and its parameter that names the policy.
CARRIER = "policy"


def agent_name(agent: JsonMapping | None) -> str | None:
    """What an agent is called, from its reference in canonical form: one that runs a policy has the policy's name."""
    if agent is None:
        return None
    name, kwargs = agent.get("class"), agent.get("kwargs") or {}
    policy = kwargs.get(CARRIER) if name == CARRIER else None
    return policy["class"] if isinstance(policy, Mapping) and "class" in policy else name


def size(count: int) -> str:
    """A number of bytes for people."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def window_text(values: JsonMapping) -> str | None:
    """The window of metrics or of a row, as text; None where there are no dates."""
    start, end = values.get("window_start"), values.get("window_end")
    return None if start is None and end is None else f"{start or '...'} to {end or '...'}"
