"""The sections of a spec. Every field takes effect, or `spec.absent` refuses it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from alphaswarm_rl.core.hashing import added_field
from alphaswarm_rl.core.model import FrozenModel, PlainText
from alphaswarm_rl.core.seeding import LARGEST_SEED
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.spec.init_from import InitFrom, named_weights
from alphaswarm_rl.spec.refs import AdvantageRef, AgentRef, EnsemblerRef, TrajectoryStoreRef, UniverseModelRef


def _iso(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError("not an ISO date such as 2024-01-31") from error
    if len(text) == len("2024-01-31"):
        return moment.date().isoformat()
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat()


#: A date, or a moment that is read as UTC; canonical as ISO text without a zone.
IsoDate = Annotated[str, AfterValidator(_iso)]


def _symbol(text: str) -> str:
    text = text.strip().upper()
    if not text or any(character.isspace() for character in text):
        raise ValueError("a symbol is a ticker such as AAPL or AAPL.NASDAQ")
    return text


#: A ticker as it was written, in upper case; a venue behind it stays.
Symbol = Annotated[PlainText, AfterValidator(_symbol)]


class UniverseSpec(FrozenModel):
    """What is traded."""

    symbols: list[Symbol] = Field(
        default_factory=list,
        description="The assets, in their order, such as AAPL or AAPL.NASDAQ; empty: all that the data has. With a "
        "model: those that it may choose from.",
    )
    model: UniverseModelRef | None = Field(
        None, description="What chooses the assets, from the bars that were over at training.start; null: nothing."
    )
    metadata: JsonObject = Field(default_factory=dict, description="Notes on the universe; stored and shown.")


def _normalize_word(value: object) -> Any:
    return {True: "running", False: "none"}.get(value, value) if isinstance(value, bool) else value


def _clip_pair(value: object) -> Any:
    # One number c means the pair [-c, c]; both spellings have one hash.
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        bound = float(value)
        return [-bound, bound]
    return value


def _ordered(pair: tuple[float, float] | None) -> tuple[float, float] | None:
    if pair is not None and not pair[0] < pair[1]:
        raise ValueError("the lower bound must be below the upper one")
    return pair


class ObsSpec(FrozenModel):
    """What is done to observations before the agent sees them."""

    normalize: Annotated[Literal["none", "running", "fixed"], BeforeValidator(_normalize_word)] = Field(
        "none",
        description="Standardise observations: not, by running statistics of training, or by statistics fitted once "
        "on random steps before training.",
    )
    clip_range: Annotated[tuple[float, float] | None, BeforeValidator(_clip_pair), AfterValidator(_ordered)] = Field(
        None, description="Bounds of the observations; one number c means [-c, c]."
    )
    stack_frames: Annotated[int | None, AfterValidator(lambda count: None if count == 1 else count)] = Field(
        None, ge=1, description="How many of the newest observations are seen together."
    )


class TrainingSpec(FrozenModel):
    """How long and on what the agent trains."""

    total_timesteps: int = Field(100_000, ge=1, description="Transitions over all environments.")
    log_interval: int = Field(
        10,
        ge=1,
        description="Rollouts between two points of the training's curve (off-policy: 1,000 transitions each).",
    )
    seed: int | None = Field(None, ge=0, le=LARGEST_SEED, description="Seed of a run that is given none; null means 0.")
    n_envs: int = Field(1, ge=1, le=1_000_000, description="Environments stepped together.")
    eval_during_training: bool = Field(
        False, description="Whether the best model is sought by evaluations while training."
    )
    eval_freq: int | None = Field(
        None, ge=1, description="Transitions between two such evaluations; null: a tenth of the training."
    )
    start: IsoDate | None = Field(None, description="First date of training.")
    end: IsoDate | None = Field(None, description="First date after training.")
    validation_start: IsoDate | None = Field(
        None, description="First date of validation, which chooses the best model."
    )
    validation_end: IsoDate | None = Field(None, description="First date after validation.")
    advantage: AdvantageRef | None = Field(None, description="Advantage estimator of the agent.")
    stop_properly_penalty_coef: float | None = Field(
        None, ge=0, le=1, description="Reward kept by an episode that stopped improperly."
    )
    init_from: Annotated[InitFrom | None, BeforeValidator(named_weights)] = Field(
        None,
        description="Trained weights and normaliser to begin with: a run, model:ID or the folder of a checkpoint; "
        "hashed as the checkpoint's SHA-256.",
        json_schema_extra=added_field(since=2, born=None),
    )
    extras: JsonObject = Field(default_factory=dict, description="Keys that other parts declare.")

    @model_validator(mode="after")
    def _windows_run_forward(self) -> TrainingSpec:
        _check_order("start", self.start, "end", self.end)
        _check_order("validation_start", self.validation_start, "validation_end", self.validation_end)
        if self.eval_freq is not None and not self.eval_during_training:
            raise ValueError("eval_freq needs eval_during_training: true")
        return self

    @property
    def window(self) -> Window:
        """The training window."""
        return Window(self.start, self.end)

    @property
    def validation_window(self) -> Window:
        """The validation window."""
        return Window(self.validation_start, self.validation_end)


class EvaluationSpec(FrozenModel):
    """How a policy is judged."""

    start: IsoDate | None = Field(None, description="First date of evaluation.")
    end: IsoDate | None = Field(None, description="First date after evaluation.")
    episodes: int = Field(1, ge=0, description="Episodes of one evaluation; 0: training ends without one.")
    deterministic: bool = Field(True, description="Whether the policy acts without drawing.")
    render: bool = Field(False, description="Whether the first episode is kept as a moving picture.")
    extras: JsonObject = Field(default_factory=dict, description="Keys that other parts declare.")

    @model_validator(mode="after")
    def _window_runs_forward(self) -> EvaluationSpec:
        _check_order("start", self.start, "end", self.end)
        return self

    @property
    def window(self) -> Window:
        """The evaluation window."""
        return Window(self.start, self.end)


def _check_order(first: str, start: str | None, last: str, end: str | None) -> None:
    if start is not None and end is not None and datetime.fromisoformat(start) >= datetime.fromisoformat(end):
        raise ValueError(f"{first} ({start}) must lie before {last} ({end})")


class EnsemblerSpec(FrozenModel):
    """How several agents become one."""

    spec: EnsemblerRef = Field(description="The ensembler.")
    members: list[AgentRef] = Field(default_factory=list, description="Its member agents.")
    extras: JsonObject = Field(default_factory=dict, description="Keys that other parts declare.")


class TrajectoryStoreSpec(FrozenModel):
    """Where the steps of a run are kept."""

    spec: TrajectoryStoreRef | None = Field(None, description="The store; null: the one the settings name.")
    enabled: bool = Field(True, description="Whether steps are kept.")


class MlflowSpec(FrozenModel):
    """How a run appears in MLflow."""

    experiment: PlainText | None = Field(None, description="Experiment name.")
    register_model_as: PlainText | None = Field(None, description="Name under which the model is registered.")
    tags: dict[PlainText, PlainText] = Field(default_factory=dict, description="Tags of the run.")
