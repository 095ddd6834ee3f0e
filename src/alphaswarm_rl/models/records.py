"""Writing models and their evaluations."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, select, update

from alphaswarm_rl.core.claims import Claim
from alphaswarm_rl.core.control_characters import refuse_control_characters
from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.db.engine import lock_table, write
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.models import queries
from alphaswarm_rl.models.claims import lock_for
from alphaswarm_rl.models.places import put_away
from alphaswarm_rl.models.rows import SOURCES, EvaluationRow, ModelRow, NewEvaluation, NewModel
from alphaswarm_rl.models.tables import evaluations, models
from alphaswarm_rl.statistics.samples import episodes_lower_bound

_SHA256 = re.compile(r"[0-9a-f]{64}")
_NO_TAG = re.compile(r'[",\\]')


def register(engine: Engine, model: NewModel, claim: Claim | None = None) -> ModelRow:
    """Stores a model; one that is there already, with the same path and checksum, gets the tags and the parent."""
    values = _checked(model)
    with write(engine) as connection:
        lock_for(connection, claim)
        _refuse_absent(model)
        known = _at_path(connection, values["model_path"])
        parent = None if model.parent_model_id is None else queries.get(connection, model.parent_model_id)
        if parent is not None and parent.scope != model.scope:
            raise ModelError(
                f"model {parent.id}",
                f"it is no parent of a model of {model.scope}: it is of {parent.scope}",
                "Name a model of the same scope: rl models list.",
            )
        if known is not None and known.sha256 == values["sha256"]:
            return _completed(connection, known, values["tags"], parent)
        if known is not None:
            put_away(connection, known, who="registry", because="its file was replaced")
        return queries.get(connection, queries.inserted(connection, models, values)["id"])


def _refuse_absent(model: NewModel) -> None:
    if not model.model_path.exists():
        raise ModelError(
            f"model {str(model.model_path)!r}", "there is no such file or folder", "Name one that is there."
        )


def add_evaluation(connection: Connection, model_id: int, evaluation: NewEvaluation) -> EvaluationRow:
    """Stores an evaluation, and its figures in the model's row: the newest one that chooses counts, else the newest.

    The model is not validated any more until a validation has seen it.
    """
    values = _checked_evaluation(model_id, evaluation)
    lock_table(connection, models.name)
    model = queries.get(connection, model_id)
    stored = queries.inserted(connection, evaluations, values)
    columns: dict[str, Any] = {"validated": False}
    if values["judgement_key"] is not None or model.judgement_key is None:
        figures = ("mean_reward", "std_reward", "mean_episode_length", "lower_bound", "judgement_key")
        columns |= {name: values[name] for name in figures}
        columns |= {f"eval_{name}": values[name] for name in ("episodes", "seed", "window_start", "window_end")}
    connection.execute(update(models).where(models.c.id == model_id).values(columns))
    return EvaluationRow.of(stored)


def evaluations_of(connection: Connection, model_id: int) -> list[EvaluationRow]:
    """The evaluations of a model, the oldest first."""
    statement = select(evaluations).where(evaluations.c.model_id == model_id).order_by(evaluations.c.id)
    return [EvaluationRow.of(row) for row in connection.execute(statement).mappings()]


def _at_path(connection: Connection, path: str) -> ModelRow | None:
    statement = select(models).where(models.c.model_path == path, queries.NOT_ARCHIVED)
    return next(iter(queries.rows(connection, statement.order_by(models.c.id.desc()).limit(1))), None)


def _completed(connection: Connection, known: ModelRow, tags: Sequence[str], parent: ModelRow | None) -> ModelRow:
    """A model that is there, with further tags, and with its parent if it had none."""
    changed: dict[str, Any] = {}
    if not set(tags) <= set(known.tags):
        changed["tags"] = list(dict.fromkeys([*known.tags, *tags]))
    if parent is not None and parent.id != known.parent_model_id:
        # A parent is there before its child, so nothing is its own ancestor.
        if known.parent_model_id is not None or parent.id >= known.id:
            has = "none" if known.parent_model_id is None else f"model {known.parent_model_id}"
            raise ModelError(f"model {known.id}", f"its parent is {has}, not model {parent.id}", "Leave --parent out.")
        changed["parent_model_id"] = parent.id
    if not changed:
        return known
    connection.execute(update(models).where(models.c.id == known.id).values(changed))
    return queries.get(connection, known.id)


def _checked(model: NewModel) -> dict[str, Any]:
    what = f"model {str(model.model_path)!r}"
    for name, value in (("algorithm", model.algorithm), ("environment", model.scope.env_id)):
        if not value.strip():
            raise ModelError(what, f"its {name} has no name", f"Name the {name}.")
    if model.sha256 is not None and _SHA256.fullmatch(model.sha256) is None:
        raise ModelError(what, f"{model.sha256!r} is no SHA-256", "Give 64 hex digits, or none.")
    if model.total_timesteps is not None and model.total_timesteps < 0:
        raise ModelError(what, f"it learnt from {model.total_timesteps} transitions", "Give 0 or more.")
    for tag in model.tags:
        refuse_control_characters("a tag of the model", tag, ModelError)
        if not tag.strip() or tag != tag.strip() or _NO_TAG.search(tag):
            why = "it is empty, or has a comma, a quotation mark, a backslash or blanks around it"
            raise ModelError(f"tag {tag!r}", why, "Use a plain word.")
    columns = {name: value for name, value in vars(model).items() if name != "scope"}
    return {
        **columns,
        **vars(model.scope),
        # Resolved: the same file is the same text, whichever way leads there.
        "model_path": str(Path(model.model_path).resolve()),
        "hyperparams": dict(model.hyperparams),
        "tags": list(dict.fromkeys(model.tags)),
        "timestamp": _made_at(model),
        "judgement_key": None,
    }


def _made_at(model: NewModel) -> int:
    """When a model was made, in seconds since 1970; what lies ahead is refused, for it would be the newest for ever."""
    now = int(time.time())
    if model.timestamp is None:
        return now
    if not 0 <= model.timestamp <= now:
        what = f"model {str(model.model_path)!r}"
        raise ModelError(what, f"its timestamp {model.timestamp} is not of the past", "Give seconds since 1970.")
    return model.timestamp


def _checked_evaluation(model_id: int, evaluation: NewEvaluation) -> dict[str, Any]:
    what = f"evaluation of model {model_id}"
    if evaluation.episodes < 1:
        raise ModelError(what, f"it has {evaluation.episodes} episodes", "Give 1 or more.")
    if evaluation.returns is not None and len(evaluation.returns) != evaluation.episodes:
        why = f"it has {evaluation.episodes} episodes and {len(evaluation.returns)} returns"
        raise ModelError(what, why, "Give one return per episode, or none.")
    for name, value in (("std_reward", evaluation.std_reward), ("mean_episode_length", evaluation.mean_episode_length)):
        if value is not None and value < 0:
            raise ModelError(what, f"{name} is {value}", "Give 0 or more.")
    if evaluation.source not in SOURCES:
        raise ModelError(what, f"its source is {evaluation.source!r}", f"Give {', '.join(SOURCES)}.")
    returns = None if evaluation.returns is None else [float(value) for value in evaluation.returns]
    bound = episodes_lower_bound(evaluation.episodes, evaluation.mean_reward, evaluation.std_reward, returns)
    plain: Mapping[str, Any] = {
        name: value for name, value in vars(evaluation).items() if name not in ("judgement", "chooses")
    }
    return {
        **plain,
        "returns": returns,
        "metrics": dict(evaluation.metrics),
        "judgement": None if evaluation.judgement is None else evaluation.judgement.as_dict(),
        "judgement_key": evaluation.judgement_key,
        "model_id": model_id,
        "at": utc_now(),
        "lower_bound": bound,
    }
