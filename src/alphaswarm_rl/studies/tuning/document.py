"""The tuning document: a base spec, what is searched, and how."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue, PrivateAttr, ValidationError, field_validator, model_validator

from alphaswarm_rl.core.errors import SpecError
from alphaswarm_rl.core.model import FrozenModel, explain
from alphaswarm_rl.core.seeding import LARGEST_SEED
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.core.yaml import load_yaml_file
from alphaswarm_rl.spec import RLExperimentSpec, load_spec
from alphaswarm_rl.studies.tuning.metrics import Metric

_YAML = (".yaml", ".yml")


class Parameter(FrozenModel):
    """One parameter that is searched: a range of numbers, or a choice."""

    type: Literal["float", "int", "categorical"] = Field(description="What it is.")
    low: int | float | None = Field(None, description="Least value of a number.")
    high: int | float | None = Field(None, description="Greatest value of a number.")
    log: bool = Field(False, description="Whether a number is drawn by its logarithm.")
    step: int | float | None = Field(None, gt=0, description="Distance between two values of a number; null: any.")
    choices: list[JsonValue] | None = Field(None, description="The values of a choice: any data that a spec can hold.")

    @model_validator(mode="after")
    def _is_whole(self) -> Parameter:
        if self.type == "categorical":
            self._check_choices()
        else:
            self._check_range()
        return self

    def _check_choices(self) -> None:
        for name in ("low", "high", "step"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name} is not for type categorical, which takes choices alone")
        if self.log:
            raise ValueError("log is not for type categorical, which takes choices alone")
        if len(set(self.texts)) < 2 or len(set(self.texts)) < len(self.texts):
            raise ValueError("choices must be two or more, and all different")

    def _check_range(self) -> None:
        if self.choices is not None:
            raise ValueError(f"choices are for type categorical; type {self.type} takes low and high")
        if self.low is None or self.high is None:
            raise ValueError(f"type {self.type} needs low and high")
        if not self.low < self.high:
            raise ValueError(f"low ({self.low}) must lie below high ({self.high})")
        numbers = [self.low, self.high, *([] if self.step is None else [self.step])]
        if self.type == "int" and any(number != int(number) for number in numbers):
            raise ValueError("low, high and step of type int are whole numbers")
        if self.log and self.low <= 0:
            raise ValueError(f"with log, low ({self.low}) must be above 0")
        if self.step is None:
            return
        if self.log:
            raise ValueError("log and step exclude each other")
        steps = (self.high - self.low) / self.step
        if abs(steps - round(steps)) > 1e-9 * max(1.0, steps):
            raise ValueError(f"high ({self.high}) is not a whole number of steps ({self.step}) above low ({self.low})")

    @property
    def texts(self) -> list[str]:
        """The choices as texts that can be told apart and read back."""
        return [json.dumps(choice, sort_keys=True) for choice in self.choices or ()]

    @property
    def extremes(self) -> list[JsonValue]:
        """Values that a spec must take before any other is tried: the ends of a range and one inside; every choice."""
        if self.type == "categorical":
            return list(self.choices or ())
        assert self.low is not None
        assert self.high is not None
        if self.type == "int":
            return [int(self.low), int(self.high)]
        low, high = float(self.low), float(self.high)
        # One that is no whole number: a field that takes whole numbers alone shows itself.
        inside = low + self.step if self.step is not None else low + 0.6180339887 * (high - low)
        return [low, high, inside]

    def described(self) -> str:
        """The range or the choices, for people."""
        if self.type == "categorical":
            return ", ".join(self.texts)
        more = ", log" if self.log else "" if self.step is None else f", step {self.step}"
        return f"{self.low} to {self.high}{more}"


class StudySection(FrozenModel):
    """How the search is done."""

    name: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$",
        description="What the study is called, and found again by; null: the base spec's slug.",
    )
    trials: int = Field(20, ge=1, description="How many trials the study has when it is done.")
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="Seed of what is drawn; runs have the spec's.")
    direction: Literal["maximize", "minimize"] = Field("maximize", description="Which value is the better one.")
    metric: str = Field("validation.mean_reward", description="What a trial is judged by: PHASE.NAME.")
    startup_trials: int = Field(
        5, ge=1, description="Trials that are drawn at random, and completed trials before any is pruned."
    )
    pruning: bool = Field(True, description="Whether a trial whose validations are worse than the median is halted.")

    @field_validator("metric")
    @classmethod
    def _is_a_metric(cls, metric: str) -> str:
        return str(Metric.read(metric))


class TuningDocument(FrozenModel):
    """A base spec, the space that is searched, and the study."""

    base: str | JsonObject = Field(description="The spec: a file beside the document, a preset, or the spec.")
    space: dict[str, Parameter] = Field(min_length=1, description="What is searched, by path in the spec.")
    study: StudySection = Field(default_factory=StudySection, description="How it is searched.")

    #: What paths are relative to.
    _folder: Path = PrivateAttr(default_factory=Path)

    @classmethod
    def from_data(cls, data: object, *, source: str = "tuning document", folder: Path | None = None) -> TuningDocument:
        """The document in plain data, such as a parsed YAML file.

        Args:
            data: The mapping of `base`, `space` and `study`.
            source: What it is called in an error.
            folder: What the path of the base is relative to; None: the working directory.
        """
        if not isinstance(data, Mapping):
            raise SpecError(source, "it is not a mapping", "Write base, space and study.")
        if "space" not in data and {"env", "agent"} & set(data):
            raise SpecError(
                source,
                "it is a spec and says nothing of what to search",
                "Write another file: base: THIS_FILE, and space: {PATH: {type: float, low: ..., high: ...}}.",
            )
        try:
            document = cls.model_validate(dict(data))
        except ValidationError as error:
            remedy = "Each path of space takes type, low, high, log, step or choices."
            raise SpecError(source, explain(error, cls), remedy) from error
        document._folder = folder or Path()
        return document

    @classmethod
    def from_yaml_path(cls, path: str | Path) -> TuningDocument:
        """The document in a YAML file."""
        data = load_yaml_file(Path(path))
        return cls.from_data(data, source=f"tuning document {str(path)!r}", folder=Path(path).parent)

    def base_spec(self) -> RLExperimentSpec:
        """The spec that the trials are variations of."""
        if isinstance(self.base, dict):
            return RLExperimentSpec.from_data(self.base, source="base of the tuning document")
        beside = self._folder / self.base
        is_path = beside.suffix in _YAML or Path(self.base).parent != Path() or _is_file(beside)
        return load_spec(beside if is_path else self.base)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # no file can have that name
        return False
