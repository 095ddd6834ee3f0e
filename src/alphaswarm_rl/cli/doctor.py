"""`rl doctor`."""

from __future__ import annotations

import click

from alphaswarm_rl.cli.reporting import BROKEN
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.verb import verb


@verb("doctor")
def doctor(session: Session) -> None:
    """Check this installation and say what is wrong with it.

    Ends with exit code 1 when something that is needed is broken. What is only missing (an extra, a compiler) is shown
    with the way to get it, and breaks nothing.

    Args:
        session: This call.
    """
    from alphaswarm_rl.operations.doctor import DoctorRequest, doctor

    named = None if session.settings_file is None else str(session.settings_file)
    found = doctor(session.load_settings, DoctorRequest(named, session.plugins))
    width = max(len(finding.name) for finding in found.findings)
    lines = [f"{finding.state:<7} {finding.name.ljust(width)}  {finding.text}" for finding in found.findings]
    session.answer(found, [*lines, "", "healthy" if found.healthy else "something is broken"])
    if not found.healthy:
        raise click.exceptions.Exit(BROKEN)
