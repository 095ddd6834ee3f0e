"""The truth suite's figures as text and as a page."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime

from alphaswarm_rl.bench.truth import Row

#: Names of the columns.
HEADER = ("TASK", "AGENT", "SEEDS", "STEPS", "FRACTION", "90 % INTERVAL", "NEEDED", "REACHED", "J", "OPTIMUM", "BASE")
_UNKNOWN = "-"


def cells(row: Row) -> tuple[str, ...]:
    """One line of the table."""
    mean_j = sum(seed.j for seed in row.seeds) / len(row.seeds)
    return (
        row.task,
        row.agent,
        str(len(row.seeds)),
        f"{row.seeds[0].steps:,}",
        f"{row.fraction:.4f}",
        _UNKNOWN if row.low is None or row.high is None else f"{row.low:.4f} to {row.high:.4f}",
        f"{row.needed:.2f}",
        _UNKNOWN if row.reached is None else "yes" if row.reached else "no",
        f"{mean_j:.5g}",
        f"{row.j_opt:.5g}",
        f"{row.j_base:.5g} ({row.base})",
    )


def remarks(rows: Sequence[Row]) -> list[str]:
    """Costs on noise beside the random policy's, and warnings."""
    lines = []
    for row in rows:
        if row.cost_ratio is not None:
            cost = sum(seed.cost for seed in row.seeds) / len(row.seeds)
            highest = "" if row.low is None else f"; at most {1.0 - row.low:.2%} by its 90 % interval"
            lines.append(
                f"{row.task}, {row.agent}: costs of {cost:.5f} per step are {row.cost_ratio:.2%} of the random "
                f"policy's {-row.j_base:.5f}{highest}"
            )
    return [*lines, *(f"warning: {warning}" for row in rows for warning in row.warnings)]


def page(rows: Sequence[Row], command: str) -> str:
    """docs/results/truth.md.

    Args:
        rows: The figures.
        command: What was called.
    """
    import torch

    table = [HEADER, tuple("---" for _ in HEADER), *(cells(row) for row in rows)]
    each = [
        ("TASK", "AGENT", "SEED", "FRACTION", "J", "OPTIMUM, PLAYED", "BASE, PLAYED", "SPREAD OF ACTIONS", "SECONDS"),
        tuple("---" for _ in range(9)),
        *(
            (
                row.task,
                row.agent,
                str(seed.seed),
                f"{seed.fraction:.4f}",
                f"{seed.j:.5g}",
                f"{seed.played_opt:.5g}",
                f"{seed.played_base:.5g}",
                f"{seed.spread:.3f}",
                f"{seed.seconds:.0f}",
            )
            for row in rows
            for seed in row.seeds
        ),
    ]
    lines = [
        "# How much of a known optimum is reached",
        "",
        f"Written by `{command}` on {datetime.now(UTC):%Y-%m-%d}; {platform.machine()}, Python "
        f"{platform.python_version()}, torch {torch.__version__}. What the tasks are and what the columns mean: "
        "[the truth suite](../truth.md).",
        "",
        *_lines(table),
        "",
        *(f"- {remark}" for remark in remarks(rows)),
        "",
        "Each training:",
        "",
        *_lines(each),
    ]
    return "\n".join(lines) + "\n"


def _lines(table: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in table]
