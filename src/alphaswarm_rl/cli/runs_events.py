"""`rl runs events`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import as_json_line, shown
from alphaswarm_rl.cli.verb import verb

if TYPE_CHECKING:
    from alphaswarm_rl.ledger import EventRow, Ledger

_LIVE = ("pending", "running")
_SECONDS_BETWEEN_LOOKS = 0.5


@verb("runs.events")
@click.argument("run")
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Only events behind that number.")
@click.option("--follow", is_flag=True, help="Go on until the run ends.")
def events(session: Session, run: str, after: int, follow: bool) -> None:
    """Show a run's events in their order.

    Args:
        session: This call.
        run: The run's id, the beginning of it, or latest.
        after: Only events behind that number.
        follow: Whether to wait for more until the run ends.
    """
    from alphaswarm_rl.ledger import Ledger

    with Ledger.open(session.settings) as ledger:
        found = _events(ledger, ledger.run(run).id, after, follow=follow)
        if session.as_json:
            _write_array(session, found)
        else:
            for event in found:
                session.write(_line(event))


def _events(ledger: Ledger, run_id: str, after: int, *, follow: bool) -> Iterator[EventRow]:
    while True:
        # The state is asked for before the events: what a run writes before it ends is then never missed.
        live = follow and ledger.run(run_id).status in _LIVE
        for event in ledger.events(run_id, after):
            after = event.seq
            yield event
        if not live:
            return
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _write_array(session: Session, events: Iterator[EventRow]) -> None:
    # One document, and yet every event is there as soon as it happened.
    session.write("[", newline=False)
    for number, event in enumerate(events):
        session.write(f"{',' if number else ''}\n  {as_json_line(event.as_dict())}", newline=False)
    session.write("\n]")


def _line(event: EventRow) -> str:
    details = {
        name: value for name, value in event.payload.items() if value not in (None, "", [], {}) and name != "traceback"
    }
    return f"{event.seq:>5}  {shown(event.ts)}  {event.stage:<16}  {shown(details)}".rstrip()
