"""What a training is warned of: components of others that look ahead."""

from __future__ import annotations

from typing import Any

from alphaswarm_rl.audit.lookahead import undeclared
from alphaswarm_rl.audit.spec_lookahead import audit_built
from alphaswarm_rl.core.component import RLComponent
from alphaswarm_rl.core.errors import is_of_the_system
from alphaswarm_rl.core.hashing import canonical_json, sha256_text
from alphaswarm_rl.core.refs import refs_in
from alphaswarm_rl.core.slots import PARTS
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.spec import RLExperimentSpec

#: Where the modules of this package's own components are; tests audit those.
_OURS = "alphaswarm_rl."
#: The fields of a spec that an audit looks at, beside the dates of its training.
_AUDITED = ("env", "data_pipeline", "universe", *(slot.name for slot in PARTS))
#: How many audits a process remembers: the trials of a study differ in what is not audited.
_MOST_REMEMBERED = 32

_remembered: dict[tuple[Any, ...], tuple[str, ...]] = {}


def names_others(spec: RLExperimentSpec) -> bool:
    """Whether a spec with market data names a component of others among those that an audit looks at."""
    ours = all(cls.__module__.startswith(_OURS) for cls in _audited(spec))
    return spec.data_pipeline is not None and not ours


def _audited(spec: RLExperimentSpec) -> tuple[type[RLComponent], ...]:
    return tuple(ref.resolved[0] for name in _AUDITED for ref in refs_in(getattr(spec, name)))


def hindsight_of_others(builder: Builder) -> tuple[str, ...]:
    """A notice for each component of others that looks ahead in what is built; ours are audited by tests.

    The same components on the same bars are audited once in a process.

    Args:
        builder: Builds what is trained; it loads the bars of the training.
    """
    if not names_others(builder.spec):
        return ()
    try:
        key = (_digest(builder), *_audited(builder.spec))
        if key not in _remembered:
            found = undeclared(audit_built(builder).findings)
            if len(_remembered) >= _MOST_REMEMBERED:
                _remembered.clear()
            _remembered[key] = tuple(
                f"look-ahead: {finding.kind} {finding.component!r} ({finding.column}) {finding.how}, first seen at "
                f"{finding.timestamp}: rl audit lookahead"
                for finding in found
            )
        return _remembered[key]
    except Exception as error:  # code of others may raise anything, and a training can do without its audit
        if is_of_the_system(error):
            raise
        return (f"whether components look ahead is not known, the audit failed: {str(error) or repr(error)}",)


def _digest(builder: Builder) -> str:
    """SHA-256 of what an audit depends on, beside the classes."""
    spec, training = builder.spec.canonical(), builder.spec.training
    audited = {name: spec[name] for name in _AUDITED}
    bars = builder.data_fingerprint(training.window)
    others = [training.start, training.end, training.stop_properly_penalty_coef, bars]
    return sha256_text(canonical_json([audited, others]))
