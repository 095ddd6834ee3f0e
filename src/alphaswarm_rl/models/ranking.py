"""Which of some models is the best: only scores that were judged alike are compared.

A model has a score under every judgement that it was put to, of which the newest counts. One beats another where both
have a score under the same judgement, the newest that they share, and its own is the higher. The best is the one that
none beats. Where several are left, nobody judged them alike, and none of them is the best.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import ColumnElement, Connection, func, select

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.models import queries
from alphaswarm_rl.models.rows import ModelRow
from alphaswarm_rl.models.tables import evaluations, models

#: What orders scores of one judgement, as `queries.BEST_FIRST` does: the higher is the better.
_Rank: TypeAlias = tuple[bool, float, float, int, int]
_LOWEST = float("-inf")
#: Models that a query names one by one; of more, it asks for all.
_FEW = 500


@dataclass(frozen=True)
class _Score:
    evaluation_id: int
    rank: _Rank


_Scores: TypeAlias = Mapping[str, _Score]


class Standings:
    """How models stand to each other, by every judgement that they share.

    Args:
        scores: The scores of each model by judgement key.
    """

    def __init__(self, scores: Mapping[int, _Scores]) -> None:
        self._scores = scores

    @classmethod
    def of(cls, connection: Connection, rows: Sequence[ModelRow]) -> Standings:
        """The standings of these models."""
        known = {row.id: row for row in rows}
        asked = [evaluations.c.judgement_key.is_not(None)]
        if len(known) <= _FEW:
            asked.append(evaluations.c.model_id.in_(known))
        newest = (
            select(func.max(evaluations.c.id))
            .where(*asked)
            .group_by(evaluations.c.model_id, evaluations.c.judgement_key)
        )
        columns = (evaluations.c[name] for name in ("id", "model_id", "judgement_key", "lower_bound", "mean_reward"))
        found: dict[int, dict[str, _Score]] = {model_id: {} for model_id in known}
        for row in connection.execute(select(*columns).where(evaluations.c.id.in_(newest))):
            if row.model_id in known:
                rank = _rank(known[row.model_id], row.lower_bound, row.mean_reward)
                found[row.model_id][row.judgement_key] = _Score(row.id, rank)
        return cls(found)

    def shared(self, first: int, second: int) -> str | None:
        """The newest judgement that two models share; None where they were never judged alike."""
        ours, theirs = self._scores[first], self._scores[second]
        both = [key for key in ours if key in theirs]
        return max(both, key=lambda key: max(ours[key].evaluation_id, theirs[key].evaluation_id), default=None)

    def beats(self, first: int, second: int) -> bool:
        """Whether one model has the higher score under the newest judgement that both share."""
        key = self.shared(first, second)
        return key is not None and self._scores[first][key].rank > self._scores[second][key].rank

    def unbeaten(self, among: Collection[int]) -> list[int]:
        """Those of some models that none of them beats."""
        by_key: dict[str, list[int]] = {}
        for model_id in among:
            for key in self._scores[model_id]:
                by_key.setdefault(key, []).append(model_id)
        first = {key: max(ids, key=lambda model_id: self._scores[model_id][key].rank) for key, ids in by_key.items()}
        return [model_id for model_id in among if not self._is_beaten(model_id, by_key, first)]

    def _is_beaten(self, model_id: int, by_key: Mapping[str, Sequence[int]], first: Mapping[str, int]) -> bool:
        keys = self._scores[model_id]
        if len(keys) == 1:
            # It shares no other judgement with anybody, so the first of this one beats it or is it.
            return first[next(iter(keys))] != model_id
        rivals = {rival for key in keys for rival in by_key[key]}
        return any(self.beats(rival, model_id) for rival in rivals if rival != model_id)


def better(connection: Connection, first: ModelRow, second: ModelRow) -> int | None:
    """The one of two models with the higher score under the newest judgement that they share; None: they share none."""
    standings = Standings.of(connection, [first, second])
    if standings.shared(first.id, second.id) is None:
        return None
    return first.id if standings.beats(first.id, second.id) else second.id


def best(connection: Connection, conditions: Sequence[ColumnElement[bool]]) -> ModelRow | None:
    """The best of these models; None where there is none whose score chooses.

    Raises:
        ModelError: They are of more than one scope, or several are left that were never judged alike.
    """
    queries.refuse_several_scopes(connection, conditions)
    rows, standings = _choosing(connection, conditions)
    return None if not rows else _one(_leaders(rows, standings))


def successor(
    connection: Connection, conditions: Sequence[ColumnElement[bool]], current: int, passed_over: Collection[int]
) -> ModelRow | None:
    """The model of these that should answer where one answers now: itself, unless another beats it or it is gone.

    Args:
        connection: The transaction.
        conditions: What models must be; all are of one scope.
        current: The model that answers.
        passed_over: Models that cannot answer.

    Raises:
        ModelError: It should not answer, and those that could were never judged alike.
    """
    rows, standings = _choosing(connection, [*conditions, models.c.id.not_in(passed_over)])
    if not rows:
        return None
    left = _leaders(rows, standings)
    for row in left:
        if row.id == current:
            return row
    among = {row.id for row in rows}
    direct = [row for row in left if standings is not None and current in among and standings.beats(row.id, current)]
    return _one(direct or left)


def _choosing(
    connection: Connection, conditions: Sequence[ColumnElement[bool]]
) -> tuple[list[ModelRow], Standings | None]:
    """Models whose scores choose, and how they stand to each other; of those that were judged alike the first alone."""
    chosen = [*conditions, models.c.judgement_key.is_not(None)]
    keys = connection.execute(select(models.c.judgement_key).where(*chosen).distinct().limit(2)).all()
    if len(keys) < 2:
        return queries.listed(connection, chosen, 1), None
    rows = queries.listed(connection, chosen, None)
    return rows, Standings.of(connection, rows)


def _leaders(rows: Sequence[ModelRow], standings: Standings | None) -> Sequence[ModelRow]:
    """The models that none beats; where each is beaten by another, and they go round in a circle, all of them."""
    if standings is None:
        return rows
    unbeaten = set(standings.unbeaten([row.id for row in rows]))
    return [row for row in rows if row.id in unbeaten] or rows


def _one(rows: Sequence[ModelRow]) -> ModelRow:
    if len(rows) > 1:
        ids = " and ".join(str(row.id) for row in rows[:10])
        raise ModelError(
            "the best model",
            f"models {ids} were judged on different dates, data or costs, and such scores are not compared",
            f"Judge two of them alike: rl models judge {rows[0].id} --against {rows[1].id}.",
        )
    return rows[0]


def unjudged(connection: Connection, conditions: Sequence[ColumnElement[bool]]) -> list[ModelRow]:
    """Those of some models whose scores choose nothing, though they have some."""
    apart = (models.c.judgement_key.is_(None), models.c.mean_reward.is_not(None))
    return queries.listed(connection, [*conditions, *apart], None)


def _rank(model: ModelRow, bound: float | None, mean: float | None) -> _Rank:
    by_mean = _LOWEST if bound is not None or mean is None else mean
    return bound is not None, _LOWEST if bound is None else bound, by_mean, model.timestamp, model.id
