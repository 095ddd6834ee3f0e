"""Checks of what must hold among the rows of one run, as queries of DuckDB's.

Most other tables are held against `trajectories` by a sum of hashes of their keys, which needs no memory: only where
that differs are the rows themselves compared, to say which. Positions and fills are held against the account, too: a
step's money must add up.
"""

# Names of tables and columns in the queries are this module's own.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alphaswarm_rl.lake.tables import Kind

if TYPE_CHECKING:
    import duckdb

#: What tells apart the rows of one step.
_WITHIN_A_STEP: dict[Kind, str] = {
    "trajectories": "0",
    "equity_curves": "0",
    "action_logs": "asset_idx",
    "reward_decomposition": "term_name",
    "positions": "asset_idx",
    "fills": "fill_idx",
}
_KEY = "phase, env_idx, episode, step"
#: How far contributions may be from the reward they sum to, relative to their size, and money from adding up.
_TOLERANCE = 1e-9
#: What a step's positions and fills must come to, to within a part of the account's size.
_MONEY = f"""
    WITH held AS (
        SELECT {_KEY}, sum(value) AS value, sum(abs(value)) + sum(abs(value_before)) AS size, sum(carry) AS carry,
            sum(dividends) AS dividends, sum(quantity - quantity_before) FILTER (asset_idx < 0) AS cash,
            sum((quantity - quantity_before - split_quantity) * price) FILTER (asset_idx >= 0) AS moved
        FROM positions GROUP BY ALL
    ), paid AS (
        SELECT {_KEY}, sum(commission + spread + impact) AS cost, sum(amount * f.price) AS spent,
            sum(amount * p.price) AS moved
        FROM (SELECT *, CASE side WHEN 'buy' THEN quantity ELSE -quantity END AS amount FROM fills) f
        LEFT JOIN positions p USING ({_KEY}, asset_idx) GROUP BY ALL
    )
    SELECT phase, spent IS NULL AND coalesce(of_equity <= least AND of_carry <= least, false) AS unfilled, count(*),
        min((env_idx, episode, step))
    FROM (
        SELECT {_KEY}, greatest(size, 1.0) * {_TOLERANCE} AS least, spent,
            abs(value - portfolio_value) AS of_equity,
            abs(held.cash - (dividends - held.carry - coalesce(spent, 0) - coalesce(paid.cost, 0))) AS of_cash,
            abs(held.moved - coalesce(paid.moved, 0)) AS of_units,
            abs(coalesce(paid.cost, 0) - e.cost) AS of_cost, abs(held.carry - e.carry) AS of_carry
        FROM held LEFT JOIN paid USING ({_KEY}) LEFT JOIN equity_curves e USING ({_KEY})
    ) WHERE NOT coalesce(of_equity <= least AND of_cash <= least AND of_units <= least AND of_cost <= least
        AND of_carry <= least, false)
    GROUP BY phase, unfilled ORDER BY phase, unfilled
"""


@dataclass(frozen=True)
class Flaw:
    """Something that does not hold."""

    kind: Kind
    phase: str
    check: str
    text: str


def flaws(connection: duckdb.DuckDBPyConnection, *, every_episode: bool, continues: bool = False) -> list[Flaw]:
    """What is wrong with the rows of a run.

    Args:
        connection: Has one view per kind, with the run's rows.
        every_episode: Whether all training episodes were recorded.
        continues: Whether the training went on from another run's: in the middle of episodes that are not the first.
    """
    found = [*_duplicates(connection, "trajectories")]
    found += _gaps(connection, doubled=bool(found), continues=continues)
    if every_episode:
        found += _missing_episodes(connection, continues=continues)
    expected = _sums(connection, "trajectories")
    steps = {phase: sums for (phase, _), sums in expected.items()}
    for kind in ("equity_curves", "action_logs", "reward_decomposition", "positions"):
        found += _against_steps(connection, kind, steps)
    found += [*_duplicates(connection, "fills"), *_astray_fills(connection)]
    if not found:  # what is missing or doubled does not add up anyway
        found += _money(connection)
    doubled = {flaw.phase for flaw in found if flaw.check == "duplicates"}
    return found + [flaw for flaw in _rewards(connection) if flaw.phase not in doubled]


def _against_steps(connection: duckdb.DuckDBPyConnection, kind: Kind, steps: dict[str, tuple[int, int]]) -> list[Flaw]:
    sums_by_part = _sums(connection, kind)
    if kind == "equity_curves" and not sums_by_part:
        return []  # an environment without accounts
    recorded = {phase for phase, _ in sums_by_part}
    # Positions are recorded of some phases alone.
    phases = recorded if kind == "positions" else recorded | set(steps)
    differing = {
        phase
        for phase in phases
        if {sums for (other, _), sums in sums_by_part.items() if other == phase} != {steps.get(phase, (0, 0))}
    }
    if not differing:
        return []
    found = [*_duplicates(connection, kind)]
    if kind != "reward_decomposition":  # not every reward has terms in every step
        found += [flaw for flaw in _incomplete(connection, kind) if flaw.phase in differing]
    return found


def _sums(connection: duckdb.DuckDBPyConnection, kind: Kind) -> dict[tuple[str, str | int], tuple[int, int]]:
    """Rows, and the sum of their keys' hashes, by phase and by what tells rows of a step apart."""
    query = f"""
        SELECT phase, {_WITHIN_A_STEP[kind]} AS part, count(*), sum(hash(env_idx, episode, step))
        FROM {kind} GROUP BY ALL
    """
    return {(phase, part): (count, int(total)) for phase, part, count, total in connection.execute(query).fetchall()}


def _duplicates(connection: duckdb.DuckDBPyConnection, kind: Kind) -> Iterator[Flaw]:
    query = f"""
        SELECT phase, count(*), min((env_idx, episode, step)) FROM (
            SELECT {_KEY}, {_WITHIN_A_STEP[kind]} AS part FROM {kind} GROUP BY ALL HAVING count(*) > 1
        ) GROUP BY phase ORDER BY phase
    """
    for phase, count, example in connection.execute(query).fetchall():
        yield Flaw(kind, phase, "duplicates", f"{_many(count, 'row')} more than once, the first {_at(example)}")


def _gaps(connection: duckdb.DuckDBPyConnection, *, doubled: bool, continues: bool) -> Iterator[Flaw]:
    rows = f"(SELECT DISTINCT {_KEY} FROM trajectories)" if doubled else "trajectories"
    # The first episode of each environment may have begun in the run before.
    begun = "phase = 'train' AND episode = first_episode" if continues else "false"
    query = f"""
        SELECT phase, count(*), min((env_idx, episode)) FROM (
            SELECT phase, env_idx, episode, min(step) AS first, max(step) + 1 AS stop, count(*) AS steps,
                min(episode) OVER (PARTITION BY phase, env_idx) AS first_episode
            FROM {rows} GROUP BY phase, env_idx, episode
        ) WHERE stop - first <> steps OR (first <> 0 AND NOT ({begun})) GROUP BY phase ORDER BY phase
    """
    for phase, count, example in connection.execute(query).fetchall():
        text = f"steps are missing in {_many(count, 'episode')}, the first {_at(example)}"
        yield Flaw("trajectories", phase, "gaps", text)


def _missing_episodes(connection: duckdb.DuckDBPyConnection, *, continues: bool) -> Iterator[Flaw]:
    first = "min(episode)" if continues else "0"
    query = f"""
        SELECT env_idx, max(episode) + 1 - {first} - count(*) FROM (
            SELECT DISTINCT env_idx, episode FROM trajectories WHERE phase = 'train'
        ) GROUP BY env_idx HAVING min(episode) <> {first} OR max(episode) + 1 - {first} <> count(*) ORDER BY env_idx
    """
    found = connection.execute(query).fetchall()
    if found:
        text = f"{_many(sum(count for _, count in found), 'episode')} missing, the first {_at(found[0][:1])}"
        yield Flaw("trajectories", "train", "episodes", text)


def _incomplete(connection: duckdb.DuckDBPyConnection, kind: Kind) -> Iterator[Flaw]:
    part = _WITHIN_A_STEP[kind]
    query = f"""
        WITH have AS (SELECT {_KEY}, count(DISTINCT {part}) AS parts FROM {kind} GROUP BY ALL),
        want AS (SELECT DISTINCT {_KEY}, true AS wanted FROM trajectories),
        whole AS (SELECT phase, count(DISTINCT {part}) AS parts FROM {kind} GROUP BY phase)
        SELECT phase, count(*), count(*) FILTER (wanted IS NULL), min((env_idx, episode, step))
        FROM want FULL JOIN have USING ({_KEY}) LEFT JOIN whole USING (phase)
        WHERE wanted IS NULL OR coalesce(have.parts, 0) < greatest(whole.parts, 1)
        GROUP BY phase ORDER BY phase
    """
    for phase, count, astray, example in connection.execute(query).fetchall():
        if count > astray:
            text = f"{_many(count - astray, 'step')} of trajectories without all rows here, the first {_at(example)}"
            yield Flaw(kind, phase, "incomplete", text)
        if astray:
            text = f"{_many(astray, 'step')} here and not in trajectories, the first {_at(example)}"
            yield Flaw(kind, phase, "incomplete", text)


def _astray_fills(connection: duckdb.DuckDBPyConnection) -> Iterator[Flaw]:
    query = f"""
        SELECT phase, count(*), min((env_idx, episode, step)) FROM fills
        ANTI JOIN positions USING ({_KEY}, asset_idx) GROUP BY phase ORDER BY phase
    """
    for phase, count, example in connection.execute(query).fetchall():
        yield Flaw("fills", phase, "incomplete", f"{_many(count, 'fill')} without a position, the first {_at(example)}")


def _money(connection: duckdb.DuckDBPyConnection) -> Iterator[Flaw]:
    for phase, unfilled, count, example in connection.execute(_MONEY).fetchall():
        if unfilled:  # how many fills a step has no other table says: that they are missing shows in the money alone
            text = f"{_many(count, 'step')} whose positions changed without a fill, the first {_at(example)}"
            yield Flaw("fills", phase, "incomplete", text)
            continue
        text = f"positions, fills and equity do not add up in {_many(count, 'step')}, the first {_at(example)}"
        yield Flaw("positions", phase, "money", text)


def _rewards(connection: duckdb.DuckDBPyConnection) -> Iterator[Flaw]:
    query = f"""
        SELECT phase, count(*), min((env_idx, episode, step)) FROM (
            SELECT {_KEY}, sum(contribution) AS total, sum(abs(contribution)) AS size
            FROM reward_decomposition GROUP BY ALL
        ) LEFT JOIN trajectories USING ({_KEY})
        WHERE reward IS NULL
            OR NOT (total = reward OR abs(total - reward) <= {_TOLERANCE} * greatest(size, abs(reward)))
        GROUP BY phase ORDER BY phase
    """
    for phase, count, example in connection.execute(query).fetchall():
        text = f"contributions do not sum to the reward in {_many(count, 'step')}, the first {_at(example)}"
        yield Flaw("reward_decomposition", phase, "rewards", text)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _at(place: Sequence[int]) -> str:
    return "at " + ", ".join(f"{name} {value}" for name, value in zip(("env", "episode", "step"), place, strict=False))
