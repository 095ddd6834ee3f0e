"""What the lake itself knows of runs: the segments in its tables, and the episodes that their rows tell of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alphaswarm_rl.core.errors import LakeError
from alphaswarm_rl.lake.catalog import Lake, explained, files_of
from alphaswarm_rl.lake.delivery import phase_and_name
from alphaswarm_rl.lake.segments import Segment, SegmentName, plain_files, read_facts
from alphaswarm_rl.lake.tables import KINDS, Kind
from alphaswarm_rl.lake.views import create_run_views, quoted

_EPISODES = """
WITH episodes AS (
    SELECT phase, env_idx, episode, count(*) AS length, sum(reward ORDER BY step) AS reward,
        bool_or(terminated OR truncated) AS ended
    FROM {trajectories} GROUP BY ALL
), curves AS (
    SELECT phase, env_idx, episode, arg_max(portfolio_value, step) AS portfolio_value FROM {equity_curves} GROUP BY ALL
), batches AS (
    SELECT phase, count(DISTINCT env_idx) AS envs FROM episodes GROUP BY ALL
), counted AS (
    SELECT *, sum(length) OVER (PARTITION BY phase, env_idx ORDER BY episode) AS made FROM episodes
)
SELECT phase, env_idx, episode, length, reward, portfolio_value, CAST(made * envs AS BIGINT)
FROM counted JOIN batches USING (phase) LEFT JOIN curves USING (phase, env_idx, episode)
WHERE ended ORDER BY phase, env_idx, episode
"""


@dataclass(frozen=True)
class RecordedEpisode:
    """An episode that ended, as its rows tell it.

    `phase`, `env_idx` and `episode` are its key in the tables, `length` and `reward` its steps and the sum of their
    rewards.

    Attributes:
        portfolio_value: The last one; None where there is none.
        timesteps: Steps that all environments together had made in this phase at its end.
    """

    phase: str
    env_idx: int
    episode: int
    length: int
    reward: float
    portfolio_value: float | None
    timesteps: int


def delivered(lake: Lake) -> Iterator[Segment | LakeError]:
    """Every segment that is in its table or its folder; an error for one whose file cannot be read."""
    with explained("the lake", "Check that the catalogue and the warehouse answer."):
        for kind in KINDS:
            for path, name, filesystem in [*_in_table(lake, kind), *_in_folder(lake, kind)]:
                try:
                    yield Segment(path, name, read_facts(path, filesystem))
                except LakeError as error:
                    yield error


def _in_table(lake: Lake, kind: Kind) -> Iterator[tuple[Path, SegmentName, Any]]:
    table = lake.find(lake.identifier(kind)) if lake.exists else None
    if table is not None:
        filesystem, named = lake.filesystem(table)
        for file in files_of(table):
            yield Path(named(file.location)), phase_and_name(file)[1], filesystem


def _in_folder(lake: Lake, kind: Kind) -> Iterator[tuple[Path, SegmentName, Any]]:
    for path in plain_files(lake.settings, kind):
        name = SegmentName.parse(path.name)
        if name is not None:
            yield path, name, None


def recorded_episodes(lake: Lake, run_id: str) -> list[RecordedEpisode]:
    """The episodes of a run that ended, as far as its rows tell: by phase, environment and number."""
    import duckdb

    kinds: tuple[Kind, ...] = ("trajectories", "equity_curves")
    with closing(duckdb.connect()) as connection:
        names = create_run_views(lake, run_id, connection, kinds, recording={})
        found = connection.execute(_EPISODES.format(**{kind: quoted(name) for kind, name in names.items()})).fetchall()
    return [RecordedEpisode(*row) for row in found]
