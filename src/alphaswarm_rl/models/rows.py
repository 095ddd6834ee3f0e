"""What the model registry takes and answers with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Self

from sqlalchemy import RowMapping

from alphaswarm_rl.core.judgement import Judgement
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.core.wording import agent_name
from alphaswarm_rl.db.database import Row

if TYPE_CHECKING:
    from alphaswarm_rl.core.run_listener import Checkpoint
    from alphaswarm_rl.spec import RLExperimentSpec

Status = Literal["staging", "production", "archived"]
STATUSES: tuple[Status, ...] = ("staging", "production", "archived")

#: Where an evaluation comes from: a training run on its way, a run of evaluate, or metrics that a user gave.
Source = Literal["validation", "evaluate", "added"]
SOURCES: tuple[Source, ...] = ("validation", "evaluate", "added")

#: The judgement key of all scores in environments without dates: there every evaluation chooses, and new seeds draw new
#: episodes of the same task.
UNDATED = "undated"

#: The metric of an added evaluation that says whether its environment has dates.
DATED = "dated"

_SHORT = 12


@dataclass(frozen=True)
class Scope:
    """Models that may be compared, and may stand in for each other.

    Attributes:
        env_id: The environment's name.
        env_signature: Hash of the environment as it is configured.
        observation_signature: Hash of what the policy sees.
        action_signature: Hash of what the policy may do.
    """

    env_id: str
    env_signature: str | None = None
    observation_signature: str | None = None
    action_signature: str | None = None

    @property
    def short(self) -> str:
        """Twelve hex digits that name it on the command line."""
        parts = [self.env_id, self.env_signature, self.observation_signature, self.action_signature]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_SHORT]

    def __str__(self) -> str:
        return f"{self.short} ({self.env_id})"


@dataclass(frozen=True)
class NewModel:
    """A model to register.

    Attributes:
        model_path: A checkpoint folder or a file.
        algorithm: The agent's alias.
        scope: What it may be compared with.
        total_timesteps: Transitions that it learnt from.
        sha256: Its checksum, as `verified_sha256` gives it.
        hyperparams: The agent's parameters.
        git_commit: The code that trained it.
        run_id: The run that trained it.
        spec_hash: Hash of that run's spec.
        exec_hash: Hash of what that run computed.
        tags: Words to find it by.
        parent_model_id: The model that it was trained on from.
        timestamp: When it was made, in seconds since 1970; None: now.
    """

    model_path: Path
    algorithm: str
    scope: Scope
    total_timesteps: int | None
    sha256: str | None
    hyperparams: JsonMapping
    git_commit: str | None = None
    run_id: str | None = None
    spec_hash: str | None = None
    exec_hash: str | None = None
    tags: Sequence[str] = ()
    parent_model_id: int | None = None
    timestamp: int | None = None

    @classmethod
    def of_checkpoint(cls, checkpoint: Checkpoint, spec: RLExperimentSpec, scope: Scope) -> NewModel:
        """The model in a checkpoint that was trained by this spec."""
        assert spec.agent is not None
        agent = spec.agent
        return cls(checkpoint.path, agent.name, scope, checkpoint.timesteps, checkpoint.sha256, agent.kwargs)


@dataclass(frozen=True)
class NewEvaluation:
    """What an evaluation of a model found.

    Attributes:
        episodes: How many there were.
        mean_reward: Mean of their returns.
        std_reward: Standard deviation of their returns, that of a population.
        mean_episode_length: Mean of their lengths.
        seed: Seed of the episodes.
        deterministic: Whether the policy acted without drawing.
        window_start: First date that was played; None where there are no dates.
        window_end: Last date that was played.
        in_sample: Whether bars of training were played, or of validation by an evaluation that chooses nothing; None
            where there are none.
        returns: The return of each episode, where it is known.
        source: Where the evaluation comes from.
        run_id: The run that made it.
        metrics: Whatever else is known.
        judgement: What it was judged on; None where nobody knows, as of metrics that a user gave.
        chooses: Whether it was judged on a validation window: where there are dates, nothing else chooses a model.
    """

    episodes: int
    mean_reward: float | None
    std_reward: float | None
    mean_episode_length: float | None
    seed: int | None
    deterministic: bool | None
    window_start: str | None
    window_end: str | None
    in_sample: bool | None
    returns: Sequence[float] | None
    source: Source
    run_id: str | None = None
    metrics: JsonMapping = field(default_factory=dict)
    judgement: Judgement | None = None
    chooses: bool = False

    @property
    def judgement_key(self) -> str | None:
        """Under which judgement it is compared with others; None: with nothing, for it chooses no model."""
        if not self._dated:
            return UNDATED
        return self.judgement.key if self.judgement is not None and self.chooses else None

    @property
    def _dated(self) -> bool:
        if self.judgement is not None:
            return self.judgement.dated
        # Of a policy that learnt nothing, in_sample is False without dates too.
        given = self.window_start is not None or self.window_end is not None
        return given or self.in_sample is True or self.metrics.get(DATED) is True


@dataclass(frozen=True)
class Verdict:
    """What one gate says of a model.

    Attributes:
        gate: The gate's name.
        passed: Whether the model passed.
        reason: Why, in words.
        value: The figure that was judged, where there is one.
        limit: What it was compared with.
    """

    gate: str
    passed: bool
    reason: str
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True)
class _TupleRow(Row):
    """A row whose lists are tuples."""

    @classmethod
    def of(cls, mapping: RowMapping | JsonMapping) -> Self:
        """The row from a database answer that has (at least) its columns."""
        return super().of(
            {str(name): tuple(value) if isinstance(value, list) else value for name, value in mapping.items()}
        )


@dataclass(frozen=True)
class ModelRow(Row):
    """One model. The first twelve columns are those of the original table."""

    id: int
    model_path: str
    algorithm: str
    env_id: str
    timestamp: int
    total_timesteps: int | None
    mean_reward: float | None
    std_reward: float | None
    mean_episode_length: float | None
    hyperparams: JsonMapping
    git_commit: str | None
    validated: bool
    run_id: str | None
    spec_hash: str | None
    exec_hash: str | None
    sha256: str | None
    env_signature: str | None
    observation_signature: str | None
    action_signature: str | None
    eval_episodes: int | None
    eval_seed: int | None
    eval_window_start: str | None
    eval_window_end: str | None
    lower_bound: float | None
    tags: tuple[str, ...]
    parent_model_id: int | None
    deployment_status: Status
    protected: bool
    archived_because: str | None
    judgement_key: str | None

    @classmethod
    def from_columns(cls, columns: Sequence[object]) -> Self:
        """The row from all columns in the table's order; whoever wrote by the original ones may have left some null."""
        row = object.__new__(cls)
        # The constructor of a frozen class takes almost as long as the database, which shows in ten thousand rows.
        values = row.__dict__
        values.update(zip(_COLUMNS, columns, strict=True))
        values["hyperparams"] = _parameters(values["hyperparams"])
        values["tags"] = _tags(values["tags"])
        values["validated"] = bool(values["validated"])
        values["protected"] = bool(values["protected"])
        return row

    @property
    def scope(self) -> Scope:
        """What it may be compared with."""
        return Scope(self.env_id, self.env_signature, self.observation_signature, self.action_signature)

    @property
    def agent(self) -> str:
        """What its agent is called: one that runs a policy has the policy's name."""
        return agent_name({"class": self.algorithm, "kwargs": self.hyperparams}) or self.algorithm

    @property
    def path(self) -> Path:
        """Where its file or folder is."""
        return Path(self.model_path)

    @property
    def archived(self) -> bool:
        """Whether it was put away: its file may be gone."""
        return self.deployment_status == "archived"


_COLUMNS = tuple(column.name for column in fields(ModelRow))


# Read once: the models of a run have the same parameters and tags.


@lru_cache(maxsize=1024)
def _parameters(text: str | None) -> JsonMapping:
    """The parameters of an agent; what others wrote and is no JSON object is given as text."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = None
    # Rows share it, so nobody may change it.
    return MappingProxyType(found if isinstance(found, dict) else {"text": text})


@lru_cache(maxsize=1024)
def _tags(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


@dataclass(frozen=True)
class EvaluationRow(_TupleRow):
    """One evaluation of a model."""

    id: int
    model_id: int
    at: datetime
    episodes: int
    mean_reward: float | None
    std_reward: float | None
    mean_episode_length: float | None
    lower_bound: float | None
    seed: int | None
    deterministic: bool | None
    window_start: str | None
    window_end: str | None
    in_sample: bool | None
    returns: tuple[float | None, ...] | None
    source: Source
    run_id: str | None
    metrics: JsonObject
    judgement: JsonObject | None
    judgement_key: str | None

    @property
    def judged_on(self) -> Judgement | None:
        """What it was judged on; None where that was not kept."""
        return None if self.judgement is None else Judgement.of(self.judgement)


@dataclass(frozen=True)
class ValidationRow(_TupleRow):
    """What the gates of a profile said of a model, what they saw, and the limits that they were given.

    `evaluation_id` is the newest evaluation that they saw; None where there was none.
    """

    id: int
    model_id: int
    at: datetime
    profile: str
    passed: bool
    checks: tuple[Verdict, ...]
    evidence: JsonObject
    limits: JsonObject
    evaluation_id: int | None


@dataclass(frozen=True)
class PromotionRow(Row):
    """One entry of the log: who changed a model's place, when, why, and from what to what."""

    id: int
    model_id: int
    at: datetime
    who: str
    why: str
    from_status: Status
    to_status: Status
    alias: str | None
    action: str
