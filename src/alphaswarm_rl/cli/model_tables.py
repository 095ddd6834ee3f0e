"""How models, and what has happened to them, look as text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING

from alphaswarm_rl.cli.text import SHORT_ID, columns, pairs

if TYPE_CHECKING:
    from alphaswarm_rl.operations.model_lifecycle import JudgedModels
    from alphaswarm_rl.operations.models import (
        EvaluationRow,
        ModelHistory,
        PromotionRow,
        RegisteredModel,
        ValidationRow,
    )

#: Columns of a model that are shown in their own way, or say nothing to people.
_ELSEWHERE = ("env_signature", "observation_signature", "action_signature", "validated", "timestamp", "hyperparams")


_IN_TABLE = attrgetter(
    "env_id", "agent", "total_timesteps", "lower_bound", "mean_reward", "std_reward", "eval_episodes"
)
_OF_EVALUATION = attrgetter("at", "source", "episodes", "mean_reward", "std_reward", "lower_bound", "seed")


def model_table(models: Sequence[RegisteredModel]) -> list[str]:
    """The models, one line each."""
    made, numbers = ("ID", "RUN", "ENV", "ALGORITHM"), ("STEPS", "LOWER BOUND", "MEAN", "STD", "EPISODES")
    titles = (*made, *numbers, "JUDGED ON", "COMPARED", "VALIDATED", "STATUS", "ALIASES", "SCOPE")
    rows = [
        (
            model.row.id,
            None if model.row.run_id is None else model.row.run_id[:SHORT_ID],
            *_IN_TABLE(model.row),
            _window(model.row.eval_window_start, model.row.eval_window_end),
            None if model.row.mean_reward is None else model.row.judgement_key or "no",
            model.row.validated,
            f"{model.row.deployment_status}{', protected' if model.row.protected else ''}",
            ", ".join(model.aliases) or None,
            model.scope,
        )
        for model in models
    ]
    return columns(titles, rows)


def model_lines(model: RegisteredModel) -> list[str]:
    """Everything about one model, as names and values."""
    row = model.row
    known = {name: value for name, value in vars(row).items() if name not in _ELSEWHERE}
    made = datetime.fromtimestamp(row.timestamp, UTC)
    return pairs(
        {**known, "validated": row.validated, "registered": made, "scope": model.scope, "aliases": model.aliases}
    )


def judged_lines(judged: JudgedModels) -> list[str]:
    """The scores of models that were judged on the same dates, and which is better."""
    titles = ("MODEL", "MEAN", "LOWER BOUND", "EPISODES", "VALIDATED", "RUN")
    cells = [
        (row.model_id, row.mean_reward, row.lower_bound, row.episodes, row.validated, row.run_id)
        for row in judged.models
    ]
    if judged.better is not None:
        verdict = [f"model {judged.better} comes first: by its score, of equal ones the newer"]
    else:
        verdict = [f"not judged alike: {difference}" for difference in judged.differences]
    return [f"judged on {_window(judged.start, judged.end)}", *columns(titles, cells), *verdict]


def _window(start: str | None, end: str | None) -> str | None:
    return None if start is None and end is None else f"{start or 'the first bar'} to {end or 'the last bar'}"


def verdict_lines(row: ValidationRow) -> list[str]:
    """What the gates said."""
    word = "passed" if row.passed else "did not pass"
    table = columns(
        ("GATE", "", "REASON"), [(check.gate, "pass" if check.passed else "FAIL", check.reason) for check in row.checks]
    )
    return [f"model {row.model_id} {word} the gates of profile {row.profile!r}", *table]


def history_lines(history: ModelHistory) -> list[str]:
    """A model's evaluations, validations and promotions; nothing where there are none."""
    lines = _titled("evaluations", _evaluations(history.evaluations)) if history.evaluations else []
    for row in history.validations:
        lines += _titled(f"validation of {row.at:%Y-%m-%d %H:%M:%S}", verdict_lines(row))
    return [*lines, *(_titled("promotions", _promotions(history.promotions)) if history.promotions else [])]


def archived_table(models: Sequence[RegisteredModel]) -> list[str]:
    """Models that were archived, and why; nothing where there are none."""
    rows = [model.row for model in models]
    table = columns(
        ("ID", "ENV", "LOWER BOUND", "MEAN", "WHY"),
        [(row.id, row.env_id, row.lower_bound, row.mean_reward, row.archived_because) for row in rows],
    )
    return table if rows else []


def _titled(title: str, lines: Sequence[str]) -> list[str]:
    return [f"{title}:", *lines, ""]


def _evaluations(rows: Sequence[EvaluationRow]) -> list[str]:
    titles = ("AT", "SOURCE", "EPISODES", "MEAN", "STD", "LOWER BOUND", "SEED", "WINDOW", "IN SAMPLE", "COMPARED")
    cells = [
        (
            *_OF_EVALUATION(row),
            _window(row.window_start, row.window_end),
            row.in_sample,
            row.judgement_key or "no",
        )
        for row in rows
    ]
    return columns(titles, cells)


def _promotions(rows: Sequence[PromotionRow]) -> list[str]:
    return columns(
        ("AT", "WHO", "ACTION", "FROM", "TO", "ALIAS", "WHY"),
        [(row.at, row.who, row.action, row.from_status, row.to_status, row.alias, row.why) for row in rows],
    )
