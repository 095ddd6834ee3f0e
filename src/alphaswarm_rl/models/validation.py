"""Putting a model through the gates, and keeping what they said and saw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, RowMapping, select, update

from alphaswarm_rl.core.claims import Claim
from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.db.engine import read, write
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.models import queries
from alphaswarm_rl.models.artefacts import verified_sha256
from alphaswarm_rl.models.claims import lock_for
from alphaswarm_rl.models.gates import ACTIONS_VARY, UPDATES, Evidence, Limits, gates_of, judge
from alphaswarm_rl.models.records import add_evaluation, evaluations_of
from alphaswarm_rl.models.rows import EvaluationRow, ModelRow, NewEvaluation, ValidationRow, Verdict
from alphaswarm_rl.models.tables import models, validations
from alphaswarm_rl.statistics.samples import thinned

#: Most points of a training curve that gates see, so that what they saw can be kept whole.
_POINTS = 400


def validate(
    engine: Engine,
    model_id: int,
    *,
    evaluation: NewEvaluation | None,
    curve: Sequence[tuple[float, float]],
    profile: str,
    limits: Limits,
    dry_run: bool,
    claim: Claim | None = None,
) -> ValidationRow:
    """Runs the gates of a profile; the model is validated when all pass, and is not any more when one fails."""
    gates_of(profile)  # a wrong name is told before a large file is read
    points = tuple(thinned(sorted(curve), _POINTS))
    with read(engine) as connection:
        problem = _file_problem(queries.get(connection, model_id))
    while True:
        before, model, known = _known(engine, model_id, evaluation)
        # Gates may take their time, so nobody waits for them; if they are overtaken by an evaluation they judge again.
        evidence = Evidence(model, tuple(known), points, limits, problem)
        verdicts = judge(profile, evidence)
        with write(engine) as connection:
            lock_for(connection, claim)
            if evaluations_of(connection, model_id) != before:
                continue
            with connection.begin_nested() as attempt:
                if evaluation is not None:
                    added = add_evaluation(connection, model_id, evaluation)
                    evidence = replace(evidence, evaluations=(*before, added))
                row = _stored(connection, profile, evidence, verdicts)
                if dry_run:
                    attempt.rollback()
            return row


def _known(
    engine: Engine, model_id: int, evaluation: NewEvaluation | None
) -> tuple[list[EvaluationRow], ModelRow, list[EvaluationRow]]:
    """The stored evaluations, and the model and its evaluations as they are with the new one."""
    if evaluation is None:
        with read(engine) as connection:
            existing = evaluations_of(connection, model_id)
            return existing, queries.get(connection, model_id), existing
    # The database itself says how the rows will be; nobody else sees them yet.
    with write(engine) as connection:
        existing = evaluations_of(connection, model_id)
        with connection.begin_nested() as attempt:
            add_evaluation(connection, model_id, evaluation)
            found = existing, queries.get(connection, model_id), evaluations_of(connection, model_id)
            attempt.rollback()
    return found


def _stored(connection: Connection, profile: str, evidence: Evidence, verdicts: tuple[Verdict, ...]) -> ValidationRow:
    model_id, passed = evidence.model.id, all(verdict.passed for verdict in verdicts)
    values = {
        "model_id": model_id,
        "at": utc_now(),
        "profile": profile,
        "passed": passed,
        "checks": [asdict(verdict) for verdict in verdicts],
        "evidence": _kept(evidence),
        "limits": asdict(evidence.limits),
        "evaluation_id": evidence.evaluations[-1].id if evidence.evaluations else None,
    }
    connection.execute(update(models).where(models.c.id == model_id).values(validated=passed))
    return _row(queries.inserted(connection, validations, values))


def validations_of(connection: Connection, model_id: int) -> list[ValidationRow]:
    """The validations of a model, the oldest first."""
    statement = select(validations).where(validations.c.model_id == model_id).order_by(validations.c.id)
    return [_row(row) for row in connection.execute(statement).mappings()]


def _row(mapping: RowMapping) -> ValidationRow:
    return ValidationRow.of({**mapping, "checks": tuple(Verdict(**check) for check in mapping["checks"])})


def _file_problem(model: ModelRow) -> str | None:
    try:
        verified_sha256(Path(model.model_path), model.sha256)
    except ModelError as error:
        return error.why
    return None


def _kept(evidence: Evidence) -> dict[str, Any]:
    """What the gates saw, without what the rows of model and evaluations have and keep."""
    newest = evidence.newest
    return {
        "sha256": evidence.model.sha256,
        "file_problem": evidence.file_problem,
        "total_timesteps": evidence.model.total_timesteps,
        "evaluations": [row.id for row in evidence.evaluations],
        "newest": None
        if newest is None
        else {
            "id": newest.id,
            "episodes": newest.episodes,
            "mean_reward": newest.mean_reward,
            "std_reward": newest.std_reward,
            "mean_episode_length": newest.mean_episode_length,
            "lower_bound": newest.lower_bound,
            "in_sample": newest.in_sample,
            # The curve itself stands in the evaluation's row.
            **{name: newest.metrics.get(name) for name in (UPDATES, ACTIONS_VARY)},
            "bars": None if evidence.account is None else evidence.account.bars,
        },
        "curve": [[x, y if math.isfinite(y) else None] for x, y in evidence.curve],
    }
