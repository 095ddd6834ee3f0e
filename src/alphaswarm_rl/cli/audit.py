"""`rl audit`: does a spec keep its promises?"""

from __future__ import annotations

import click

from alphaswarm_rl.cli.reporting import BROKEN
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb


@click.group()
def audit() -> None:
    """Audit a spec: does anything in it know the future?"""


@verb("audit.lookahead", group=audit)
@click.argument("spec_or_run", metavar="SPEC|RUN")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of made data, actions and noise.")
def lookahead(session: Session, spec_or_run: str, seed: int) -> None:
    """Replace the future by noise; whatever changes at or before that bar has looked ahead.

    The data pipeline's features, the observation, the action, the portfolio stages, the reward and the terminations
    are computed twice on the training window, the second time with everything after a bar replaced, at three bars that
    episodes reach. A feature that comes with the bars is compared with the return that follows. Parts that are declared
    training_only are reported as such. Exits with 1 when something looks ahead that does not say so.

    Args:
        session: This call.
        spec_or_run: A YAML file, a preset or a run.
        seed: Seed of made data, actions and noise.
    """
    from alphaswarm_rl.operations.audit import AuditLookahead, audit_lookahead

    result = audit_lookahead(session.settings, AuditLookahead(spec_or_run, seed))
    report = result.report
    cut = report.bars < report.window_bars
    extent = f"{report.bars} of {report.window_bars} bars: episodes end there" if cut else f"{report.bars} bars"
    lines = [f"looked at {extent}", f"{len(report.checked)} components: {', '.join(report.checked)}"]
    if report.findings:
        rows = [
            (row.kind, row.component, row.column, row.timestamp[:19], row.how, "declared" if row.declared else "LEAK")
            for row in report.findings
        ]
        lines += columns(("KIND", "COMPONENT", "FIRST COLUMN", "BAR", "HOW", ""), rows)
    lines.append("nothing looks ahead" if result.clean else "something looks ahead and does not say so")
    session.answer(result, lines)
    if not result.clean:
        raise click.exceptions.Exit(BROKEN)
