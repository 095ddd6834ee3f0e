"""Flags that take a time, such as 24h."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import click

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _duration(ctx: click.Context, param: click.Parameter, value: str | None) -> timedelta | None:
    if value is None:
        return None
    found = re.fullmatch(r"(\d{1,6})([smhd])", value)
    if found is None:
        raise click.BadParameter(f"{value!r} is no time: write a number and s, m, h or d, such as 24h", ctx, param)
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def time_option(flag: str, default: str | None, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A flag that takes a number and a unit; without a default it may be left out."""
    shown = default is not None
    return click.option(flag, callback=_duration, default=default, show_default=shown, metavar="TIME", help=text)
