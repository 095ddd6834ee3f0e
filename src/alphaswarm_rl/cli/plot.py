"""Curves drawn in the terminal: without colours, so that a pipe and a page can keep them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from alphaswarm_rl.operations.run_steps import AccountCurve

_LARGEST_WIDTH, _SMALLEST_WIDTH = 120, 40
_VALUE_LINES, _DRAWDOWN_LINES = 14, 9
_TICKS = 4
_DAY = len("2024-01-31")
#: What frames and dots are where an output cannot show them.
_ASCII = {ord(drawn): plain for drawn, plain in zip("┌┐└┘─│┤┬", "++++-|||", strict=True)}


def plot_lines(curve: AccountCurve, out: TextIO) -> list[str]:
    """An account's value and its drawdown, as lines that fit the terminal."""
    width = min(max(shutil.get_terminal_size().columns, _SMALLEST_WIDTH), _LARGEST_WIDTH)
    simple = not _can_show("⣀┌", out)
    labels = [str(number) if time is None else time[:_DAY] for number, time in enumerate(curve.times)]
    value = _drawn(f"value, {curve.title}", labels, curve.values, width, _VALUE_LINES, simple=simple)
    percents = [100.0 * depth for depth in curve.drawdowns]
    return [*value, *_drawn("drawdown, %", labels, percents, width, _DRAWDOWN_LINES, simple=simple)]


def _drawn(
    title: str, labels: Sequence[str], values: Sequence[float], width: int, height: int, *, simple: bool
) -> list[str]:
    import plotext  # type: ignore[import-untyped]

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limit_size(False, False)
    plotext.plotsize(width, height)
    plotext.title(title)
    plotext.plot(list(range(len(values))), list(values), marker="*" if simple else "braille")
    last = len(labels) - 1
    places = sorted({round(last * tick / (_TICKS - 1)) for tick in range(_TICKS)})
    plotext.xticks(places, [labels[place] for place in places])
    text = plotext.uncolorize(plotext.build())
    if simple:
        text = text.translate(_ASCII)
    return [line.rstrip() for line in text.splitlines()]


def _can_show(characters: str, out: TextIO) -> bool:
    try:
        characters.encode(getattr(out, "encoding", None) or "utf-8")
    except (LookupError, UnicodeEncodeError):
        return False
    return True
