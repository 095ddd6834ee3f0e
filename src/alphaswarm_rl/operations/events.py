"""Who calls an operation, and what it tells them on the way to its result.

Events are frozen dataclasses of plain data, as requests and results are: a terminal prints them as lines, a server may
send them on as they come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TypeAlias

from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.operations.data import Data


class Notice(Data):
    """Something that the user should know, beside the result."""

    text: str


class Progress(Data):
    """What is being done, as a line for people."""

    text: str


class SpecResolved(Data):
    """Which spec is about to run, and what changed it.

    Attributes:
        slug: The spec's slug.
        spec_hash: Its hash, after every override.
        overrides: By overridden path `{"value": ..., "source": ...}`.
    """

    slug: str
    spec_hash: str
    overrides: Mapping[str, JsonMapping]


class ArgumentsResolved(Data):
    """Arguments of a run that change no version, by name as `{"value": ..., "source": ...}`."""

    arguments: Mapping[str, JsonMapping]


class TrialEnded(Data):
    """One trial of a study.

    Attributes:
        number: Its number in the study.
        state: How it ended.
        value: What it reached.
        run_id: Its run.
        params: What was tried, by path.
        error: Why it failed.
    """

    number: int
    state: str
    value: float | None
    run_id: str | None
    params: JsonMapping
    error: str | None


Event: TypeAlias = Notice | Progress | SpecResolved | ArgumentsResolved | TrialEnded
#: Hears every event, in order.
Listener: TypeAlias = Callable[[Event], None]


def _ignore(event: Event) -> None:
    pass


class Caller(Data):
    """What only a caller in the same process can hand in.

    Attributes:
        listen: Hears of everything on the way to the result.
        environ: Environment variables that may change a spec, or the arguments of a run.
        progress: Whether progress bars are drawn on standard error.
    """

    listen: Listener = _ignore
    environ: Mapping[str, str] = field(default_factory=dict)
    progress: bool = False


#: A caller who wants the result alone.
NOBODY = Caller()
