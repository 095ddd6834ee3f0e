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
    from alphaswarm_rl.cli.doctor_checks import examine

    findings = examine(session)
    healthy = all(finding.state != "broken" for finding in findings)
    width = max(len(finding.name) for finding in findings)
    lines = [f"{finding.state:<7} {finding.name.ljust(width)}  {finding.text}" for finding in findings]
    session.answer(
        {"healthy": healthy, "findings": [vars(finding) for finding in findings]},
        [*lines, "", "healthy" if healthy else "something is broken"],
    )
    if not healthy:
        raise click.exceptions.Exit(BROKEN)
