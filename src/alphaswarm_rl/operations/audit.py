"""Audits: does a spec keep its promises?"""

from __future__ import annotations

from dataclasses import dataclass

from alphaswarm_rl.audit.lookahead import Finding
from alphaswarm_rl.audit.spec_lookahead import audit_spec
from alphaswarm_rl.inference.builder import lake_of
from alphaswarm_rl.operations.operation import operation
from alphaswarm_rl.operations.references import spec_of
from alphaswarm_rl.settings import Settings


@dataclass(frozen=True)
class AuditLookahead:
    """Which spec is audited.

    Attributes:
        spec_or_run: A YAML file, a preset or a run.
        seed: Seed of made data, actions and noise.
    """

    spec_or_run: str
    seed: int = 0


@dataclass(frozen=True)
class LookaheadReport:
    """What an audit found.

    Attributes:
        bars: Bars of the training window that were looked at: those that episodes reach.
        window_bars: All bars of the training window that can be decided on.
        checked: The components that were, as kind:alias.
        findings: What looks ahead.
        clean: Whether nothing looks ahead that does not say so.
    """

    bars: int
    window_bars: int
    checked: tuple[str, ...]
    findings: tuple[Finding, ...]
    clean: bool


@operation("audit.lookahead")
def audit_lookahead(settings: Settings, request: AuditLookahead) -> LookaheadReport:
    """Replaces the future by noise; whatever changes at or before that bar has looked ahead."""
    spec = spec_of(lambda: settings, request.spec_or_run)
    report = audit_spec(spec, root=settings.data.root, lake=lake_of(settings), seed=request.seed)
    return LookaheadReport(report.bars, report.window_bars, report.checked, report.findings, report.clean)
