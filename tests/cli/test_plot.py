"""Curves in the terminal."""

import io

from alphaswarm_rl.cli.plot import plot_lines
from alphaswarm_rl.operations.run_steps import AccountCurve

VALUES = (100.0, 110.0, 99.0, 121.0)
CURVE = AccountCurve("run 1", ("2024-01-01T00:00:00", None, None, "2024-01-04"), VALUES, (0.0, 0.0, -0.1, 0.0))


def test_value_and_drawdown_are_drawn_between_their_extremes(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    text = "\n".join(plot_lines(CURVE, io.TextIOWrapper(io.BytesIO(), encoding="utf-8")))
    assert "value, run 1" in text
    assert "2024-01-01" in text
    assert "121.0┤" in text
    assert "-10.0┤" in text
    assert max(map(len, text.splitlines())) <= 60


def test_an_output_without_such_characters_gets_plain_ones(monkeypatch):
    monkeypatch.setenv("COLUMNS", "10")
    lines = plot_lines(CURVE, io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    "\n".join(lines).encode("ascii")
    assert max(map(len, lines)) <= 40
    assert any("*" in line for line in lines)


def test_one_value_is_drawn_too():
    assert plot_lines(AccountCurve("run 1", (None,), (5.0,), (0.0,)), io.StringIO())
