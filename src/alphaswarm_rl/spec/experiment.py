"""The whole spec, its canonical form and its hashes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.component import RLComponent
from alphaswarm_rl.core.errors import AlphaSwarmError, SpecError
from alphaswarm_rl.core.hashing import canonical_fields, canonical_json, plain_fields, sha256_text
from alphaswarm_rl.core.model import FrozenModel, PlainText, explain
from alphaswarm_rl.core.presets import load_preset
from alphaswarm_rl.core.refs import ComponentRef, walk_refs
from alphaswarm_rl.core.slots import PARTS
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.core.yaml import dump_yaml, load_yaml, load_yaml_file
from alphaswarm_rl.spec.refs import (
    ActionRef,
    AgentRef,
    DataPipelineRef,
    EnvRef,
    ObservationRef,
    RewardRef,
    TerminationRef,
)
from alphaswarm_rl.spec.sections import (
    EnsemblerSpec,
    EvaluationSpec,
    MlflowSpec,
    ObsSpec,
    TrainingSpec,
    TrajectoryStoreSpec,
    UniverseSpec,
)

SpecKind = Literal["training", "evaluation", "paper", "research", "ensemble"]

#: What `exec_hash` leaves out: fields that change nothing about what is computed.
NOT_EXECUTED = (
    "name",
    "slug",
    "description",
    "annotations",
    "mlflow",
    "trajectory_store",
    "universe.metadata",
    "training.log_interval",
)

#: What a trial is the same without: its seed and its dates.
NOT_TRIED = (
    "training.seed",
    "training.start",
    "training.end",
    "training.validation_start",
    "training.validation_end",
    "evaluation.start",
    "evaluation.end",
)

_LONGEST_SLUG = 80


def slugify(name: str) -> str:
    """Lower case, every run of other characters than a-z and 0-9 a hyphen, at most 80 characters."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST_SLUG].strip("-")


def _list_of_notes(value: object) -> Any:
    return [value] if isinstance(value, str) else value


def _list_of_refs(value: object) -> Any:
    return value["specs"] if isinstance(value, Mapping) and set(value) == {"specs"} else value


def _pipeline_ref(value: object) -> Any:
    # `{preset | spec, extras}` means the reference inside; extras are for parts that declare keys, and none does.
    if isinstance(value, Mapping) and "extras" in value:
        if value["extras"]:
            raise ValueError("extras must be empty: no part declares keys here")
        rest = {key: item for key, item in value.items() if key != "extras" and item is not None}
        return rest or None
    return value


def _maybe_nothing(value: object) -> Any:
    # `{spec: null}` is how some documents write that there is none.
    return None if isinstance(value, Mapping) and set(value) == {"spec"} and value["spec"] is None else value


def _store(value: object) -> Any:
    return {"spec": value} if isinstance(value, Mapping) and "class" in value else value


class RLExperimentSpec(FrozenModel):
    """One experiment. Equal content means an equal hash; any other content means another."""

    name: PlainText = Field(min_length=1, max_length=240, description="What it is called.")
    slug: str = Field(
        "",
        max_length=_LONGEST_SLUG,
        pattern=r"^[a-z0-9-]*$",
        description="Identity of the logical spec; made from the name.",
    )
    kind: SpecKind = Field("training", description="What it is for; restricts the verbs.")
    description: str = Field("", description="What it is, in words.")
    universe: UniverseSpec = Field(default_factory=UniverseSpec, description="What is traded.")
    data_pipeline: Annotated[DataPipelineRef | None, BeforeValidator(_pipeline_ref)] = Field(
        None, description="Where the data comes from."
    )
    env: Annotated[EnvRef | None, BeforeValidator(_maybe_nothing)] = Field(None, description="The environment.")
    obs: ObsSpec = Field(
        default_factory=ObsSpec, description="What is done to observations before the agent sees them."
    )
    reward: Annotated[RewardRef | None, BeforeValidator(_maybe_nothing)] = Field(
        None, description="The reward; null: the environment's own."
    )
    observation: Annotated[ObservationRef | None, BeforeValidator(_maybe_nothing)] = Field(
        None, description="What the agent sees; null: the environment's own."
    )
    action: Annotated[ActionRef | None, BeforeValidator(_maybe_nothing)] = Field(
        None, description="What the agent may do; null: the environment's own."
    )
    terminations: Annotated[list[TerminationRef], BeforeValidator(_list_of_refs)] = Field(
        default_factory=list, description="Why an episode ends, beside the environment's own reasons."
    )
    agent: Annotated[AgentRef | None, BeforeValidator(_maybe_nothing)] = Field(None, description="The agent.")
    training: TrainingSpec = Field(default_factory=TrainingSpec, description="How long and on what it trains.")
    evaluation: EvaluationSpec = Field(default_factory=EvaluationSpec, description="How it is judged.")
    ensembler: EnsemblerSpec | None = Field(None, description="How several agents become one.")
    trajectory_store: Annotated[TrajectoryStoreSpec, BeforeValidator(_store)] = Field(
        default_factory=TrajectoryStoreSpec, description="Where the steps are kept."
    )
    mlflow: MlflowSpec = Field(default_factory=MlflowSpec, description="How the run appears in MLflow.")
    annotations: Annotated[list[str], BeforeValidator(_list_of_notes)] = Field(
        default_factory=list, description="Notes."
    )
    extras: JsonObject = Field(default_factory=dict, description="Keys that other parts declare.")

    @model_validator(mode="before")
    @classmethod
    def _slug_from_name(cls, data: object) -> Any:
        if isinstance(data, Mapping) and isinstance(data.get("name"), str) and not data.get("slug"):
            return {**data, "slug": slugify(data["name"])}
        return data

    @model_validator(mode="after")
    def _has_a_slug(self) -> RLExperimentSpec:
        if not self.slug:
            raise ValueError("the name gives no slug: use letters or digits, or write a slug")
        return self

    @model_validator(mode="after")
    def _best_model_is_sought_by_episodes(self) -> RLExperimentSpec:
        if self.training.eval_during_training and self.evaluation.episodes == 0:
            raise ValueError("training.eval_during_training needs evaluation.episodes of 1 or more")
        return self

    @classmethod
    def from_data(cls, data: object, *, source: str = "spec", stored: bool = False) -> RLExperimentSpec:
        """The spec in plain data, such as a parsed YAML document.

        Args:
            data: The mapping of fields.
            source: What it is called in an error.
            stored: Whether it comes from the ledger or a checkpoint, where a missing field is younger than it.
        """
        if not isinstance(data, Mapping):
            raise SpecError(source, "it is not a mapping of fields", "Start from: rl spec show PRESET.")
        try:
            return cls.model_validate(dict(data), context={"stored": stored})
        except ValidationError as error:
            raise _explained(error, data, source, stored=stored) from error

    @classmethod
    def from_yaml_str(cls, text: str, *, source: str = "spec") -> RLExperimentSpec:
        """The spec in a YAML text."""
        return cls.from_data(load_yaml(text, source=source), source=source)

    @classmethod
    def from_yaml_path(cls, path: str | Path) -> RLExperimentSpec:
        """The spec in a YAML file."""
        return cls.from_data(load_yaml_file(Path(path)), source=f"spec {str(path)!r}")

    def to_yaml(self) -> str:
        """The whole spec, every field with its value, as YAML that gives the same hash."""
        return dump_yaml(self.as_data())

    def as_data(self) -> JsonObject:
        """Every field with its value as plain data; what the ledger stores, and what reads back as this spec."""
        return plain_fields(self)

    def canonical(self) -> JsonObject:
        """What the hash is taken of: as `as_data`, but for younger fields at the default they were born with."""
        return canonical_fields(self)

    @cached_property
    def spec_hash(self) -> str:
        """SHA-256 of the canonical form: any field counts, no code version does."""
        return sha256_text("alphaswarm-rl/spec/1\n" + canonical_json(self.canonical()))

    @cached_property
    def exec_hash(self) -> str:
        """SHA-256 of what is computed: without names and notes, with the versions of the components used."""
        executed = _without(self.canonical(), NOT_EXECUTED)
        kept_apart = {f"{ref.kind}:{ref.name}" for ref in walk_refs(self.trajectory_store)}
        versions = {name: version for name, version in self.component_versions.items() if name not in kept_apart}
        return sha256_text(
            "alphaswarm-rl/exec/1\n" + canonical_json({"spec": executed, "component_versions": versions})
        )

    @cached_property
    def trial_hash(self) -> str:
        """SHA-256 of the configuration that is tried: what is computed, whatever the seed, the dates and the code.

        Of initial weights it counts whether there are any: the run that trained them is a trial of its own.
        """
        tried = _without(self.canonical(), (*NOT_EXECUTED, *NOT_TRIED))
        training = tried["training"]
        training["init_from"] = training.get("init_from") is not None
        return sha256_text("alphaswarm-rl/trial/1\n" + canonical_json(tried))

    @property
    def component_versions(self) -> dict[str, int]:
        """`rl_version` of every component it uses, by "kind:alias"; those that its environment brings along too."""
        refs = [*walk_refs(self)]
        if self.env is not None:
            filled = frozenset(slot.name for slot in PARTS if getattr(self, slot.name))
            own = self.env.build().own_parts(filled)
            for ref in own:
                refs += [ref, *walk_refs(ref.resolved[1])]
        return {f"{ref.kind}:{ref.name}": _version(ref) for ref in refs}

    @property
    def seed(self) -> int:
        """The seed of a run that is given none."""
        return self.training.seed or 0


def _without(canonical: JsonObject, paths: tuple[str, ...]) -> JsonObject:
    """A canonical form after the fields at these paths were taken out of it."""
    for path in paths:
        *parents, last = path.split(".")
        holder = canonical
        for parent in parents:
            holder = holder[parent]
        del holder[last]
    return canonical


def _version(ref: ComponentRef) -> int:
    cls: type[RLComponent] = ref.resolved[0]
    return cls.rl_version


def _explained(error: ValidationError, data: JsonMapping, source: str, *, stored: bool) -> SpecError:
    """What is wrong with a spec; one that was stored with keys that nobody knows here is of a newer version."""
    why = explain(error, RLExperimentSpec)
    remedy = f"See every field: rl spec show {_like(data)}."
    if "unknown key" not in why:
        return SpecError(source, why, remedy)
    from importlib.metadata import version

    ours = f"this is alphaswarm-rl {version('alphaswarm-rl')}"
    if not stored:
        return SpecError(source, why, f"{remedy} A key of a newer version needs that version; {ours}.")
    return SpecError(
        source,
        f"it was stored by a newer version of alphaswarm-rl, or of a plug-in, and {ours}: {why}",
        "Install the newer one: pip install --upgrade alphaswarm-rl.",
    )


def _like(data: JsonMapping) -> str:
    """The preset that shows the fields of a spec such as this one, which is wrong somewhere."""
    return "my_first_rl" if data.get("data_pipeline") is not None or _trades(data.get("env")) else "cartpole_ppo"


def _trades(env: object) -> bool:
    while isinstance(env, Mapping) and "spec" in env:
        env = env["spec"]
    if not isinstance(env, Mapping):
        return False
    try:
        named = load_preset("envs", str(env["preset"])) if env.get("preset") is not None else env
        return catalogue.get("env", str(named.get("class"))).rl_category == "trading"
    except AlphaSwarmError:  # no such environment, which is what the error will say
        return False
