"""Several rewards added up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationInfo, field_validator, model_serializer, model_validator

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import nearest
from alphaswarm_rl.core.kinds import Reward, RewardTerm
from alphaswarm_rl.core.model import FrozenModel
from alphaswarm_rl.core.refs import ComponentRef, ref_to
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.rewards.clip_residual import ClipResidual

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import NamedTerm

    RewardRef = ComponentRef
else:
    RewardRef = ref_to("reward")

#: Keys of an entry as it is written: those of a reference and its own.
_KEYS = ("class", "module_path", "kwargs", "preset", "spec", "weight", "name")


class Entry(FrozenModel):
    """A reward with its weight and name, written flat: `{class: pnl, kwargs: {...}, weight: 0.5, name: profit}`."""

    ref: RewardRef = Field(description="The reward.")
    weight: float = Field(1.0, description="What it is multiplied by.")
    name: str = Field("", description="What it is called in `info['reward_terms']`; empty: its alias.")

    @model_validator(mode="before")
    @classmethod
    def _unfold(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data if isinstance(data, Entry) else {"ref": data}
        for key in data:
            if key not in _KEYS:
                raise ValueError(f"unknown key {key!r}. {nearest(str(key), _KEYS)}")
        own = {key: data[key] for key in ("weight", "name") if key in data}
        return {"ref": {key: value for key, value in data.items() if key not in own}, **own}

    @field_validator("name", mode="before")
    @classmethod
    def _alias_where_none_is_given(cls, value: str | None, info: ValidationInfo) -> str | None:
        # The name is written out, so that leaving it away and giving the alias have one hash.
        return value or (info.data["ref"].name if "ref" in info.data else "")

    @model_serializer
    def _fold(self) -> JsonObject:
        return {"class": self.ref.name, "kwargs": self.ref.kwargs, "weight": self.weight, "name": self.name}

    def canonical_form(self) -> JsonObject:
        """What is hashed of it, as flat as it is written."""
        return {**self.ref.canonical_form(), "weight": self.weight, "name": self.name}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        """The schema of what is written."""
        schema = handler(core_schema)
        flat = handler.resolve_ref_schema(schema)
        own = {key: value for key, value in flat["properties"].items() if key != "ref"}
        flat["properties"] = {
            "class": {"type": "string", "title": "Class", "description": "Alias of the reward."},
            "kwargs": {"type": "object", "title": "Kwargs", "description": "Its parameters."},
            **own,
        }
        flat["required"] = ["class"]
        flat["rl_kind"] = "reward"
        return schema

    def terms(self) -> list[NamedTerm]:
        """The terms of its reward, weighted and named."""
        from alphaswarm_rl.core.contracts import NamedTerm

        reward = self.ref.build()
        single = isinstance(reward, RewardTerm)
        return [
            NamedTerm(self.name if single else f"{self.name}.{inner.name}", self.weight * inner.weight, inner.term)
            for inner in reward.terms()
        ]


class Composite(Reward):
    """The weighted sum of several rewards, each reported by name.

    Terms are added in the order of their names, whatever order they are written in. A composite inside another is
    taken apart: its terms are named `outer.inner` and their weights are multiplied. `clip` bounds the sum of a step's
    terms, and what it cuts off is a term of its own, `clip_residual`, so that the terms always add up to the reward.
    Terms that settle, such as `stop_properly`, come after it, are not cut, and go by the whole reward.
    """

    rl_alias = "composite"
    rl_category = "composition"
    rl_short_names = ("CompositeReward",)

    class Config(ComponentConfig):
        """Parameters of the sum."""

        terms: list[Entry] = Field(
            min_length=1, description="The rewards: a list of {class, kwargs, weight, name}, each name once."
        )
        clip: tuple[float, float] | None = Field(
            None, description="Least and largest reward of a step, before terms that settle; null: no bounds."
        )

        @field_validator("terms")
        @classmethod
        def _in_order_of_names(cls, terms: list[Entry]) -> list[Entry]:
            names = [entry.name for entry in terms]
            for name in names:
                if names.count(name) > 1:
                    raise ValueError(f"two terms are called {name!r}. Give one of them another name")
            for entry in terms:
                if entry.ref.name == Composite.rl_alias and entry.ref.kwargs["clip"] is not None:
                    raise ValueError(f"{entry.name!r} has a clip, and only the outermost composite can have one")
            return sorted(terms, key=lambda entry: entry.name)

        @model_validator(mode="after")
        def _clip_makes_sense(self) -> Composite.Config:
            if self.clip is None:
                return self
            if self.clip[0] >= self.clip[1]:
                raise ValueError("clip: the first number must be below the second")
            if any(entry.name == ClipResidual.rl_alias for entry in self.terms):
                raise ValueError(f"the name {ClipResidual.rl_alias!r} is taken by clip. Give that term another name")
            return self

    def terms(self) -> tuple[NamedTerm, ...]:
        """All terms by name: ordinary ones, the clip, those that settle."""
        from alphaswarm_rl.core.contracts import NamedTerm

        named = sorted((term for entry in self.config.terms for term in entry.terms()), key=lambda term: term.name)
        clip = []
        if self.config.clip is not None:
            low, high = self.config.clip
            clip.append(NamedTerm(ClipResidual.rl_alias, 1.0, ClipResidual(ClipResidual.Config(low=low, high=high))))
        ordinary = [term for term in named if not term.term.settles]
        return (*ordinary, *clip, *(term for term in named if term.term.settles))
