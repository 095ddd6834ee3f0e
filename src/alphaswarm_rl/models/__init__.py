"""The model registry: trained models, the gates that they pass, and which of them is live."""

import alphaswarm_rl.models.checks  # noqa: F401  (registers the gates that are here already)
from alphaswarm_rl.models.artefacts import verified_sha256
from alphaswarm_rl.models.gates import Evidence, Limits, gate, profile
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import (
    EvaluationRow,
    ModelRow,
    NewEvaluation,
    NewModel,
    PromotionRow,
    Scope,
    ValidationRow,
    Verdict,
)

__all__ = [
    "EvaluationRow",
    "Evidence",
    "Limits",
    "ModelRegistry",
    "ModelRow",
    "NewEvaluation",
    "NewModel",
    "PromotionRow",
    "Scope",
    "ValidationRow",
    "Verdict",
    "gate",
    "profile",
    "verified_sha256",
]
