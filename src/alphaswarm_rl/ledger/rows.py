"""What the ledger answers with: one frozen dataclass per table, with the table's columns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from alphaswarm_rl.core.claims import Claim
from alphaswarm_rl.core.judgement import JUDGEMENT, Judgement
from alphaswarm_rl.db.database import Row


@dataclass(frozen=True)
class SpecRow(Row):
    """A spec by its slug, over all its versions."""

    id: str
    project_id: str
    name: str
    slug: str
    kind: str
    description: str
    current_version: int
    spec_yaml: str
    status: str
    annotations: list[str]
    meta: dict[str, Any]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class VersionRow(Row):
    """One immutable version of a spec."""

    id: str
    spec_id: str
    version: int
    spec_hash: str
    exec_hash: str
    payload: dict[str, Any]
    component_versions: dict[str, int]
    notes: str
    created_by: str | None
    created_at: datetime


@dataclass(frozen=True)
class RunRow(Row):
    """One run of one version."""

    id: str
    spec_id: str
    version_id: str
    parent_run_id: str | None
    family: str
    name: str | None
    target: str
    task_id: str | None
    status: str
    seed: int
    spec_hash: str
    exec_hash: str
    data_fingerprint: str | None
    code_fingerprint: dict[str, Any]
    machine: dict[str, Any]
    arguments: dict[str, Any]
    overrides: dict[str, Any]
    device: str
    window_start: str | None
    window_end: str | None
    in_sample: bool | None
    timesteps: int
    total_timesteps: int
    checkpoint: str | None
    checkpoint_sha256: str | None
    best_checkpoint: str | None
    best_reward: float | None
    resume: str | None
    resumed: int
    halt_checks: int
    halt_reason: str | None
    mlflow_run_id: str | None
    experiment_id: str | None
    trace_id: str | None
    mean_reward: float | None
    total_reward: float | None
    sharpe: float | None
    max_drawdown: float | None
    final_value: float | None
    total_return: float | None
    result_summary: dict[str, Any]
    recording: dict[str, Any]
    notices: list[str]
    error: str | None
    host: str
    pid: int
    process_start: str
    heartbeat_at: datetime
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    removed_at: datetime | None
    number: int

    @property
    def claim(self) -> Claim:
        """The claim that was given last: to the process that began the run, or to the one that resumed it last."""
        return Claim(self.id, self.resumed + 1)

    @property
    def beside(self) -> str | None:
        """The run that a rule was judged beside, as a baseline; None: it was run for its own sake."""
        beside: str | None = self.arguments.get("beside")
        return beside


@dataclass(frozen=True)
class EvaluationRow(Row):
    """One evaluation of a run's policy."""

    id: str
    run_id: str
    phase: str
    timesteps: int
    seed: int
    episodes: int
    deterministic: bool
    in_sample: bool | None
    checkpoint_sha256: str | None
    mean_reward: float | None
    std_reward: float | None
    mean_length: float | None
    sharpe: float | None
    max_drawdown: float | None
    final_value: float | None
    total_return: float | None
    metrics: dict[str, Any]
    started_at: datetime
    ended_at: datetime

    @property
    def judgement(self) -> Judgement | None:
        """What its scores were judged on; None in rows of a time when that was not kept."""
        kept = self.metrics.get(JUDGEMENT)
        return None if kept is None else Judgement.of(kept)


@dataclass(frozen=True)
class EpisodeRow(Row):
    """One episode, or `count` short ones from `episode` to `last_episode` with their means."""

    run_id: str
    phase: str
    episode: int
    last_episode: int
    env_idx: int | None
    count: int
    timesteps: int
    mean_reward: float | None
    portfolio_value: float | None
    length: float


@dataclass(frozen=True)
class RefRow(Row):
    """A file of recorded steps in its table; steps are null of equity curves, and values of the other tables."""

    run_id: str
    phase: str
    first_episode: int
    last_episode: int
    timesteps: int
    iceberg_namespace: str
    iceberg_table: str
    row_count: int
    checksum: str
    first_segment: int
    last_segment: int
    first_step: int | None = None
    last_step: int | None = None
    initial_value: float | None = None
    final_value: float | None = None
    max_drawdown: float | None = None


@dataclass(frozen=True)
class EventRow(Row):
    """One event of a run; `seq` counts from 1."""

    run_id: str
    seq: int
    stage: str
    ts: datetime
    payload: dict[str, Any]


@dataclass(frozen=True)
class ComponentRow(Row):
    """One component as the catalogue knew it when the mirror was last written."""

    id: str
    rl_kind: str
    alias: str
    module_path: str
    class_name: str
    rl_version: int
    description: str
    tags: list[str]
    source: str
    category: str
    schema: dict[str, Any]
    fingerprint: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class HaltRow(Row):
    """The kill switch of one scope: `*` for everything, or a run's id."""

    scope: str
    engaged: bool
    reason: str
    set_by: str
    set_at: datetime


@dataclass(frozen=True)
class HaltLogRow(Row):
    """One use of the kill switch."""

    id: int
    scope: str
    action: str
    reason: str
    actor: str
    at: datetime


@dataclass(frozen=True)
class FamilyCount:
    """How often a family was trained.

    Attributes:
        family: The slug.
        runs: Its training runs, however they ended; those whose files were removed too.
        specs: How many different things they computed: an `exec_hash` counts once.
        trials: How many configurations they tried, whatever their seeds and dates; see `ledger.trials`.
    """

    family: str
    runs: int
    specs: int
    trials: int
