"""Audits: does a spec keep its promises?"""

from __future__ import annotations

from alphaswarm_rl.audit.lookahead import undeclared
from alphaswarm_rl.audit.spec_lookahead import Report, audit_spec
from alphaswarm_rl.core.errors import AlphaSwarmError
from alphaswarm_rl.core.refs import walk_refs
from alphaswarm_rl.inference.builder import lake_of
from alphaswarm_rl.operations.data import Data, Index
from alphaswarm_rl.operations.operation import operation
from alphaswarm_rl.operations.references import spec_of
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec

#: Where the modules of this package's own components are.
_OURS = "alphaswarm_rl."


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


def hindsight_of_others(spec: RLExperimentSpec, settings: Settings) -> list[str]:
    """What a training is warned of: components of others that look ahead; ours are audited by tests.

    Args:
        spec: The spec that is trained.
        settings: Where its data are.
    """
    if spec.data_pipeline is None or all(ref.resolved[0].__module__.startswith(_OURS) for ref in walk_refs(spec)):
        return []
    try:
        report = audit_spec(spec, root=settings.data.root, lake=lake_of(settings))
    except AlphaSwarmError as error:
        return [f"whether components look ahead is not known, the audit failed: {error}"]
    return [
        f"look-ahead: {finding.kind} {finding.component!r} ({finding.column}) {finding.how}, first seen at "
        f"{finding.timestamp}: rl audit lookahead"
        for finding in undeclared(report.findings)
    ]
