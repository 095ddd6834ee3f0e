"""What a run brought: its events, its episodes and its evaluations.

Events are numbered, so that a reader can go on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Engine, and_, delete, func, select

from alphaswarm_rl.core.types import EvaluationPhase, JsonMapping, JsonObject
from alphaswarm_rl.db.engine import read, write
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.ledger.rows import EpisodeRow, EvaluationRow, EventRow
from alphaswarm_rl.ledger.statements import checked, new_id
from alphaswarm_rl.ledger.tables import episodes, equity_curve_refs, evaluations, events, trajectory_refs


def add_event(engine: Engine, run_id: str, seq: int, stage: str, ts: datetime, payload: JsonMapping) -> None:
    """Stores one event; a number that is taken already is an error."""
    values = {"run_id": run_id, "seq": seq, "stage": stage, "ts": ts, "payload": dict(payload)}
    with write(engine) as connection:
        connection.execute(events.insert().values(values))


def next_seq(engine: Engine, run_id: str) -> int:
    """The number after the run's last event; 1 when it has none."""
    last = select(func.coalesce(func.max(events.c.seq), 0)).where(events.c.run_id == run_id)
    with read(engine) as connection:
        newest: int = connection.execute(last).scalar_one()
    return newest + 1


def list_events(engine: Engine, run_id: str, *, after: int, limit: int | None) -> list[EventRow]:
    """The run's events behind number `after`, in order."""
    statement = select(events).where(events.c.run_id == run_id, events.c.seq > after).order_by(events.c.seq)
    with read(engine) as connection:
        return [EventRow.of(row) for row in connection.execute(statement.limit(limit)).mappings()]


def add_episodes(engine: Engine, run_id: str, rows: Iterable[JsonMapping]) -> int:
    """Stores a batch of episodes in one transaction and returns how many rows it was.

    Args:
        engine: The database.
        run_id: The run.
        rows: Columns of `rl_episodes` but `run_id`; a row without `last_episode` and `count` is one episode.
    """
    batch = [_episode(run_id, row) for row in rows]
    if batch:
        with write(engine) as connection:
            connection.execute(episodes.insert(), batch)
    return len(batch)


def list_episodes(engine: Engine, run_id: str, *, phase: str | None) -> list[EpisodeRow]:
    """The run's episodes in order."""
    statement = select(episodes).where(episodes.c.run_id == run_id).order_by(episodes.c.phase, episodes.c.episode)
    if phase is not None:
        statement = statement.where(episodes.c.phase == phase)
    with read(engine) as connection:
        return [EpisodeRow.of(row) for row in connection.execute(statement).mappings()]


def add_evaluation(
    engine: Engine,
    run_id: str,
    *,
    phase: EvaluationPhase,
    timesteps: int,
    seed: int,
    episodes: int,
    deterministic: bool,
    started_at: datetime,
    **columns: object,
) -> EvaluationRow:
    """Stores one evaluation; it ended now unless `ended_at` says otherwise."""
    values = {
        "id": new_id(),
        "run_id": run_id,
        "phase": phase,
        "timesteps": timesteps,
        "seed": seed,
        "episodes": episodes,
        "deterministic": deterministic,
        "started_at": started_at,
        "ended_at": utc_now(),
        **checked(evaluations, columns),
    }
    with write(engine) as connection:
        connection.execute(evaluations.insert().values(values))
        stored = connection.execute(select(evaluations).where(evaluations.c.id == values["id"])).mappings().one()
        return EvaluationRow.of(stored)


def list_evaluations(engine: Engine, run_id: str) -> list[EvaluationRow]:
    """The run's evaluations in the order in which they were made."""
    order = (evaluations.c.timesteps, evaluations.c.started_at, evaluations.c.id)
    statement = select(evaluations).where(evaluations.c.run_id == run_id).order_by(*order)
    with read(engine) as connection:
        return [EvaluationRow.of(row) for row in connection.execute(statement).mappings()]


def drop_beyond(engine: Engine, run_id: str, timesteps: int, *, judged_too: bool) -> dict[str, int]:
    """Deletes what the run brought after a checkpoint, and returns how many rows of which table.

    A resumed run does those steps again. Events stay: they tell what happened, not what counts.

    Args:
        engine: The database.
        run_id: The run.
        timesteps: Transitions at the checkpoint.
        judged_too: Deletes what judged the policy of this very checkpoint too: the resumed run judges it again.
    """
    dropped = {}
    with write(engine) as connection:
        for table in (episodes, evaluations, trajectory_refs, equity_curve_refs):
            beyond = table.c.timesteps > timesteps
            if judged_too:
                beyond |= and_(table.c.timesteps == timesteps, table.c.phase != "train")
            dropped[table.name] = connection.execute(delete(table).where(table.c.run_id == run_id, beyond)).rowcount
    return dropped


def _episode(run_id: str, row: JsonMapping) -> JsonObject:
    given = checked(episodes, row, fixed=("run_id",))
    # One batch is one statement, so every row has to name the same columns.
    optional = {"last_episode": given.get("episode"), "count": 1, "env_idx": None}
    return {"run_id": run_id, "mean_reward": None, "portfolio_value": None, **optional, **given}
