"""Run listeners: what a run reports while it lives, as plain data, and who hears it.

A run emits numbered events, finishes episodes, saves checkpoints, evaluates its policy, and ends. The runtime reports
each of these to every `RunListener` in the same order. Listeners (the model registry's, a tracker's, telemetry's) know
neither the runtime nor each other: what they need of their run they ask its `RunHandle` for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from alphaswarm_rl.core.account_evidence import AccountEvidence
from alphaswarm_rl.core.claims import Claim
from alphaswarm_rl.core.judgement import Judgement
from alphaswarm_rl.core.types import Array, EvaluationPhase, JsonMapping, JsonObject

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import AnyVectorEnv


@dataclass(frozen=True)
class Event:
    """Something that happened in a run.

    Attributes:
        run_id: The run.
        seq: Its number within the run, from 1 without gaps.
        stage: What happened; one of `runtime.events.STAGES`.
        ts: When.
        payload: What is known about it.
        trace_id: The trace that the run is part of, where telemetry traces it.
    """

    run_id: str
    seq: int
    stage: str
    ts: datetime
    payload: JsonMapping
    trace_id: str | None = None

    def as_dict(self) -> JsonObject:
        """The event as JSON."""
        traced = {} if self.trace_id is None else {"trace_id": self.trace_id}
        head = {"run_id": self.run_id, "seq": self.seq, "stage": self.stage, "ts": self.ts.isoformat(), **traced}
        return {**head, **self.payload}


@dataclass(frozen=True)
class Episode:
    """One finished episode of a training, or `count` of them from `number` on, with their mean reward and length.

    `began_ns` and `ended_ns` are wall-clock times; no checkpoint has them.
    """

    number: int
    env_idx: int
    timesteps: int
    reward: float
    length: int
    portfolio_value: float | None = None
    began_ns: int = 0
    ended_ns: int = 0
    count: int = 1


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk: its folder, its identity, and the transitions its policy has learnt from."""

    path: Path
    sha256: str
    timesteps: int


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation: one return and one length per episode, in the order of their keys.

    Attributes:
        returns: Sum of the rewards of each episode.
        lengths: Steps of each episode.
        in_sample: Whether it used data of training or validation; None where nobody can know.
        dates: The first and the last bar that it traded, or the dates it was given; None where there are none.
        frames: Pictures of the first episode, where it was rendered.
        measures: Measures of returns and lengths, see `statistics.performance`.
        account: Measures of the account, means over the episodes, where there is one; NaN where it is undefined.
        undefined: Why measures of the account are undefined, by their name.
        curves: What trading accounts leave for gates; None where there are none.
        updates: Updates that made the policy; None where nobody counted them.
        actions_vary: Whether it acted differently on different observations, drawing nothing; None where nobody looked.
        repeats: For each episode whether it repeats an earlier one: it began with the same observation and ended after
            as many steps with the same return. A rule that draws nothing plays a window again and again.
    """

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    in_sample: bool | None
    measures: Mapping[str, float]
    account: Mapping[str, float]
    dates: tuple[str | None, str | None] = (None, None)
    frames: tuple[Array, ...] = ()
    undefined: Mapping[str, str] = field(default_factory=dict)
    curves: AccountEvidence | None = None
    updates: int | None = None
    actions_vary: bool | None = None
    repeats: tuple[bool, ...] = ()

    @property
    def distinct(self) -> tuple[float, ...]:
        """The returns of episodes that repeat no earlier one: all that is evidence."""
        repeats = self.repeats or (False,) * len(self.returns)
        return tuple(value for value, repeated in zip(self.returns, repeats, strict=True) if not repeated)

    @property
    def metrics(self) -> JsonObject:
        """The summary that rows, events and results carry; what is undefined is null, and `undefined` says why."""
        reasons = {"undefined": dict(self.undefined)} if self.undefined else {}
        return {
            "episodes": len(self.returns),
            "distinct_episodes": len(self.distinct),
            **self.measures,
            "in_sample": self.in_sample,
            "window_start": self.dates[0],
            "window_end": self.dates[1],
            **{name: None if math.isnan(value) else value for name, value in self.account.items()},
            **reasons,
        }


@dataclass(frozen=True)
class PolicyEvaluation:
    """An evaluation together with the policy it is about.

    Attributes:
        evaluation: The result.
        phase: What it is part of.
        timesteps: Transitions that the policy had learnt from.
        seed: Seed of the episodes.
        deterministic: Whether the policy acted without drawing.
        checkpoint: The policy's checkpoint; None where it has none, or none yet.
        started: When the evaluation began.
        judgement: What it was judged on.
        in_training: Whether bars were played that the policy was trained on; None where nobody can know.
    """

    evaluation: Evaluation
    phase: EvaluationPhase
    timesteps: int
    seed: int
    deterministic: bool
    checkpoint: Checkpoint | None
    started: datetime
    judgement: Judgement
    in_training: bool | None


@dataclass(frozen=True)
class EvaluationMetrics:
    """The metrics of an evaluation that is stored, with its phase and the transitions its policy had learnt from."""

    phase: str
    timesteps: int
    metrics: JsonMapping

    @classmethod
    def of(cls, row: object) -> EvaluationMetrics:
        """The metrics in a row that has (at least) these columns."""
        return cls(**{column.name: getattr(row, column.name) for column in fields(cls)})


@dataclass(frozen=True)
class Resumption:
    """Where a resumed run goes on; what came after that is forgotten.

    Attributes:
        timesteps: Transitions at the checkpoint.
        evaluated_too: Whether evaluations of the checkpoint itself are forgotten too, and made again.
        evaluations: Those that still count.
    """

    timesteps: int
    evaluated_too: bool
    evaluations: Sequence[EvaluationMetrics] = ()


@dataclass(frozen=True)
class RunFacts:
    """What listeners know of a run: this much of its row in the ledger."""

    id: str
    target: str
    status: str
    seed: int
    device: str
    spec_hash: str
    exec_hash: str
    parent_run_id: str | None
    code_fingerprint: JsonMapping
    created_at: datetime
    resumed: int
    timesteps: int
    checkpoint: str | None
    checkpoint_sha256: str | None
    best_checkpoint: str | None
    in_sample: bool | None
    result_summary: JsonMapping | None
    error: str | None
    halt_reason: str | None
    mlflow_run_id: str | None
    notices: Sequence[str] | None

    @classmethod
    def of(cls, row: object) -> RunFacts:
        """The facts in a row that has (at least) these columns."""
        return cls(**{column.name: getattr(row, column.name) for column in fields(cls)})


class RunHandle(Protocol):
    """A run that is under way, as its listeners reach it."""

    @property
    def claim(self) -> Claim:
        """The claim with which this process writes for it."""

    def facts(self) -> RunFacts:
        """What its row says now."""

    def update(self, **columns: object) -> None:
        """Writes columns of its row."""

    def add_notices(self, notices: Sequence[str]) -> None:
        """Adds what a user should know to its row; what stands there already is not repeated."""

    def emit(self, stage: str, **payload: object) -> None:
        """Emits an event."""

    def recorded_rows(self) -> Mapping[str, int]:
        """How many of its recorded rows are in their tables, by kind of table."""

    def training_curve(self, run_id: str, until: int | None) -> list[tuple[int, float]]:
        """Transitions and return of the episodes of any training run, up to `until` transitions."""


class StepListener(Protocol):
    """Hears every step of the training environments; such a run is slower."""

    def reset(self) -> None:
        """Every environment was reset: the episodes in progress end here."""

    def step(self, began_ns: int, ended_ns: int, rewards: Array, ended: Array) -> None:
        """All environments made one step between these times; `ended` tells whose episode is over."""


class RunListener:
    """Hears of one run; a listener overrides what it cares for.

    An error that a method raises fails the run: a listener whose trouble must not be the run's handles it itself.
    """

    #: The trace that the listener reports the run in.
    trace_id: str | None = None
    #: Who hears every training step, once the environment is built.
    step_listener: StepListener | None = None

    def on_built(self, env: AnyVectorEnv) -> None:
        """The environment and the agent are built."""

    def on_resumed(self, resumption: Resumption) -> None:
        """The run was put back to a checkpoint, and goes on from there."""

    def on_event(self, event: Event) -> None:
        """An event was emitted; the ledger has stored it."""

    def on_episodes(self, episodes: Sequence[Episode]) -> None:
        """Episodes of the training finished."""

    def on_checkpoint(self, checkpoint: Checkpoint) -> None:
        """A checkpoint was saved."""

    def held_checkpoints(self, folder: Path) -> Sequence[Path]:
        """Checkpoints in the run's folder that must be kept, however old they are."""
        return ()

    def on_pruned(self, paths: Sequence[Path]) -> None:
        """Old checkpoints that nobody holds are deleted next."""

    def on_evaluation(self, evaluated: PolicyEvaluation) -> None:
        """A policy was evaluated."""

    def has_heard(self, checkpoint: Checkpoint, evaluation: EvaluationMetrics) -> bool:
        """Whether it heard of an evaluation of a checkpoint that the ledger has: its process may have died before.

        Asked by a resume that goes on from the checkpoint; what one listener has not heard of is judged again.
        """
        return True

    def wants_judgement(self, checkpoint: Checkpoint) -> bool:
        """Whether the policy of a checkpoint should be judged on the validation window, and was not yet."""
        return False

    def on_judgement(self, evaluated: PolicyEvaluation) -> None:
        """The policy of a checkpoint was judged; nothing else knows of it: no table, no row of the ledger."""

    def on_end(self, run: RunFacts) -> None:
        """The run ended."""

    def close(self) -> None:
        """Releases everything, whatever happened."""
