"""Audits: does a spec keep its promises?"""

from __future__ import annotations

from alphaswarm_rl.audit.spec_lookahead import Report, audit_spec
from alphaswarm_rl.inference.builder import lake_of
from alphaswarm_rl.operations.data import Data, Index
from alphaswarm_rl.operations.operation import operation
from alphaswarm_rl.operations.references import spec_of
from alphaswarm_rl.settings import Settings


class AuditLookahead(Data):
    """Which spec is audited.

    Attributes:
        spec_or_run: A YAML file, a preset or a run.
        seed: Seed of made data, actions and noise.
    """

    spec_or_run: str
    seed: Index = 0


class Audit(Data, merged="report"):
    """What an audit found, and whether nothing looks ahead that does not say so."""

    report: Report
    clean: bool


@operation("audit.lookahead")
def audit_lookahead(settings: Settings, request: AuditLookahead) -> Audit:
    """Replaces the future by noise; whatever changes at or before that bar has looked ahead."""
    spec = spec_of(lambda: settings, request.spec_or_run)
    report = audit_spec(spec, root=settings.data.root, lake=lake_of(settings), seed=request.seed)
    return Audit(report, report.clean)
