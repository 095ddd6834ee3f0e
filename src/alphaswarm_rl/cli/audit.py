"""`rl audit`: does a spec keep its promises?"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.operations.references import spec_of

if TYPE_CHECKING:
    from alphaswarm_rl.audit.spec_lookahead import Report

_LEAK = 1


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
    from alphaswarm_rl.audit.spec_lookahead import audit_spec
    from alphaswarm_rl.inference.building import lake_of

    settings = session.settings
    report = audit_spec(
        spec_of(session.load_settings, spec_or_run), root=settings.data.root, lake=lake_of(settings), seed=seed
    )
    rows = [
        (
            finding.kind,
            finding.component,
            finding.column,
            finding.timestamp[:19],
            finding.how,
            "declared" if finding.declared else "LEAK",
        )
        for finding in report.findings
    ]
    lines = [_extent(report), f"{len(report.checked)} components: {', '.join(report.checked)}"]
    if rows:
        lines += columns(("KIND", "COMPONENT", "FIRST COLUMN", "BAR", "HOW", ""), rows)
    lines.append("nothing looks ahead" if report.clean else "something looks ahead and does not say so")
    findings = [asdict(finding) for finding in report.findings]
    document = {
        "bars": report.bars,
        "window_bars": report.window_bars,
        "checked": list(report.checked),
        "findings": findings,
        "clean": report.clean,
    }
    session.answer(document, lines)
    if not report.clean:
        raise click.exceptions.Exit(_LEAK)


def _extent(report: Report) -> str:
    if report.bars < report.window_bars:
        return f"looked at {report.bars} of {report.window_bars} bars: episodes end there"
    return f"looked at {report.bars} bars"
