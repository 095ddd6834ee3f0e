"""What a run brought: its events, its episodes and its evaluations.

Events are numbered, so that a reader can go on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import and_, delete, func, select

from alphaswarm_rl.core.types import EvaluationPhase, JsonMapping, JsonObject
from alphaswarm_rl.db.engine import read
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.ledger.claims import ClaimedDatabase
from alphaswarm_rl.ledger.rows import EpisodeRow, EvaluationRow, EventRow
from alphaswarm_rl.ledger.statements import checked, new_id
from alphaswarm_rl.ledger.tables import episodes, equity_curve_refs, evaluations, events, runs, trajectory_refs


class ResultTables(ClaimedDatabase):
    """What a run brought: its events, its episodes and its evaluations."""

    def append_event(self, run_id: str, seq: int, stage: str, ts: datetime, payload: JsonMapping) -> None:
        """Stores one event."""
        values = {"run_id": run_id, "seq": seq, "stage": stage, "ts": ts, "payload": dict(payload)}
        with self._write() as connection:
            connection.execute(events.insert().values(values))

    def next_seq(self, run_id: str) -> int:
        """The number of the run's next event, from 1."""
        last = select(func.coalesce(func.max(events.c.seq), 0)).where(events.c.run_id == run_id)
        with read(self.engine) as connection:
            newest: int = connection.execute(last).scalar_one()
        return newest + 1

    def events(self, run_id: str, after: int = 0, limit: int | None = None) -> list[EventRow]:
        """The run's events behind number `after`."""
        statement = select(events).where(events.c.run_id == run_id, events.c.seq > after).order_by(events.c.seq)
        return self._rows(EventRow, statement.limit(limit))

    def checkpoints_of(self, sha256: str) -> list[tuple[str, str]]:
        """The checkpoints of that checksum as (run, folder), kept or not, the newest run first."""
        is_it = events.c.payload["sha256"].as_string() == sha256
        saved = (
            select(runs.c.id, events.c.payload["path"].as_string(), runs.c.number)
            .join(runs, runs.c.id == events.c.run_id)
            .where(events.c.stage == "train.checkpoint", is_it)
        )
        last = select(runs.c.id, runs.c.checkpoint, runs.c.number).where(
            runs.c.checkpoint_sha256 == sha256, runs.c.target == "train"
        )
        with read(self.engine) as connection:
            found = {
                (run, folder): number for each in (saved, last) for run, folder, number in connection.execute(each)
            }
        return sorted(found, key=lambda pair: (-found[pair], pair[1]))

    def add_episodes(self, run_id: str, rows: Iterable[JsonMapping]) -> int:
        """Stores a batch of episodes (the columns but `run_id`) and returns its size."""
        batch = [_episode(run_id, row) for row in rows]
        if batch:
            with self._write() as connection:
                connection.execute(episodes.insert(), batch)
        return len(batch)

    def episodes(self, run_id: str, phase: str | None = None) -> list[EpisodeRow]:
        """The run's episodes."""
        statement = select(episodes).where(episodes.c.run_id == run_id).order_by(episodes.c.phase, episodes.c.episode)
        if phase is not None:
            statement = statement.where(episodes.c.phase == phase)
        return self._rows(EpisodeRow, statement)

    def training_curve(self, run_id: str, until: int | None) -> list[tuple[int, float]]:
        """Transitions and return of the episodes of a training run, in order; NaN where an episode has no return.

        Args:
            run_id: The run.
            until: Transitions that a model learnt from: what came later says nothing about it. None takes all.
        """
        return [
            (row.timesteps, float("nan") if row.mean_reward is None else row.mean_reward)
            for row in self.episodes(run_id, phase="train")
            if until is None or row.timesteps <= until
        ]

    def add_evaluation(
        self,
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
        """Stores one evaluation; `ended_at` is now unless given."""
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
        with self._write() as connection:
            connection.execute(evaluations.insert().values(values))
            stored = connection.execute(select(evaluations).where(evaluations.c.id == values["id"])).mappings().one()
            return EvaluationRow.of(stored)

    def evaluations(self, run_id: str) -> list[EvaluationRow]:
        """The run's evaluations in order."""
        order = (evaluations.c.timesteps, evaluations.c.started_at, evaluations.c.id)
        statement = select(evaluations).where(evaluations.c.run_id == run_id).order_by(*order)
        return self._rows(EvaluationRow, statement)

    def drop_beyond(self, run_id: str, timesteps: int, *, judged_too: bool = False) -> dict[str, int]:
        """Deletes the run's episodes, evaluations and refs after a checkpoint; rows deleted by table.

        Args:
            run_id: The run.
            timesteps: Transitions at the checkpoint.
            judged_too: Deletes what judged the policy of this very checkpoint too: all at `timesteps` but training.
        """
        dropped = {}
        with self._write() as connection:
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
