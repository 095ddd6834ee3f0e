"""References to components, the only way a spec names code.

Accepted: `{class, kwargs}`, with an optional `module_path` that must be the registered class's own and is never
imported; the same wrapped in `{spec: ...}`; `{preset: NAME, kwargs: ...}`. All are normalised to one form, the alias
and every parameter with its value, so that one meaning has one hash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.errors import AlphaSwarmError, ComponentError, nearest
from alphaswarm_rl.core.hashing import canonical_fields, plain_fields
from alphaswarm_rl.core.model import FrozenModel
from alphaswarm_rl.core.presets import load_preset
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.core.wording import agent_name

if TYPE_CHECKING:
    from alphaswarm_rl.core.component import RLComponent

#: Prefixes under which older documents name this package.
_FORMER_PACKAGES = ("alphaswarm.rl.", "aqp.rl.", "aqp_rl.")

#: Where modules of components were before: what stored specs may still say as `module_path`.
FORMER_MODULES = {
    **{
        f"alphaswarm_rl.envs.{name}": f"alphaswarm_rl.envs.truth.{name}"
        for name in ("merton_portfolio", "noise_after_costs", "oracle_feature", "ou_signal", "regime_allocation")
    },
    **{
        f"alphaswarm_rl.{former}.{name}": f"alphaswarm_rl.{current}"
        for former, names, current in (
            ("advantage", "gae grpo reinforce_plus_plus", "advantage.estimators"),
            ("agents", "a2c_inhouse ppo_inhouse", "agents.native.ppo"),
            ("agents", "ddqn_inhouse", "agents.native.ddqn"),
            ("agents", "sb3", "agents.sb3.algorithms"),
            ("policies", "buy_and_hold constant equal_weight", "policies.baselines"),
            ("policies", "mean_variance minimum_variance random", "policies.baselines"),
            ("observations", "turbulence vix", "observations.market_features"),
            ("policies.backbones", "autoencoder patch_tst recurrent transformer", "policies.backbones.components"),
            ("data_pipelines", "csv parquet", "data_pipelines.files"),
            ("data_pipelines", "medallion_replay", "data_pipelines.iceberg"),
            ("trajectory_stores", "iceberg memory parquet", "trajectory_stores.components"),
            ("rewards", "cash_idle drawdown_penalty margin_call", "rewards.penalties"),
            ("rewards", "slippage_penalty turnover_penalty volatility_penalty", "rewards.penalties"),
            ("rewards", "differential_downside differential_sharpe sharpe sortino", "rewards.ratios"),
            ("replay", "general nstep_info prioritized", "replay_buffers.components"),
            ("replay_buffers", "general nstep_info prioritized", "replay_buffers.components"),
        )
        for name in names.split()
    },
}


class ComponentRef(FrozenModel):
    """One component with all its parameters, in canonical form."""

    name: str = Field(alias="class", description="Alias of the component.")
    kwargs: JsonObject = Field(default_factory=dict, description="Its parameters.")
    kind: str = Field(exclude=True, description="Kind of the component.")

    @cached_property
    def resolved(self) -> tuple[type[RLComponent], Any]:
        """The class and its Config."""
        return catalogue.configure(self.kind, self.name, self.kwargs)

    @property
    def label(self) -> str:
        """What lists call it: of an agent that runs a policy, the policy's name."""
        return agent_name({"class": self.name, "kwargs": self.kwargs}) or self.name

    def canonical_form(self) -> JsonObject:
        """What is hashed of it: parameters younger than version 1 are left out at the default they were born with."""
        return {"class": self.name, "kwargs": canonical_fields(self.resolved[1])}

    def build(self) -> Any:
        """The component itself."""
        cls, config = self.resolved
        return cls(config)


def reference(value: object, kind: str, *, stored: bool = False) -> ComponentRef:
    """The canonical reference that `value` means; `stored` when it comes from a stored document."""
    if isinstance(value, ComponentRef):
        return value
    if not isinstance(value, Mapping):
        raise ComponentError(f"{kind} {value!r}", "a reference is a mapping", "Write {class: ALIAS, kwargs: {...}}.")
    data = dict(value)
    if "spec" in data:
        _only(data, {"spec"}, kind)
        return reference(data["spec"], kind, stored=stored)
    _only(data, {"class", "module_path", "kwargs", "preset"}, kind)
    kwargs = data.get("kwargs") or {}
    if not isinstance(kwargs, Mapping):
        raise ComponentError(f"{kind} reference", "kwargs is not a mapping", "Write kwargs: {parameter: value}.")
    if data.get("preset") is not None:
        if "class" in data:
            raise ComponentError(f"{kind} reference", "it has both class and preset", "Keep one of them.")
        preset = reference(load_preset(f"{kind}s", str(data["preset"])), kind)
        cls, config = catalogue.configure(kind, preset.name, {**preset.kwargs, **kwargs})
    else:
        if not isinstance(data.get("class"), str):
            raise ComponentError(f"{kind} reference", "it names no class", "Write {class: ALIAS, kwargs: {...}}.")
        cls, config = catalogue.configure(kind, data["class"], kwargs, stored=stored)
    _check_module(cls, data.get("module_path"))
    ref = ComponentRef.model_validate({"class": cls.rl_alias, "kwargs": plain_fields(config), "kind": cls.rl_kind})
    ref.__dict__["resolved"] = (cls, config)
    return ref


def _only(data: JsonMapping, allowed: set[str], kind: str) -> None:
    for key in data:
        if key not in allowed:
            raise ComponentError(f"{kind} reference", f"unknown key {key!r}", nearest(str(key), allowed))


def _check_module(cls: type[RLComponent], module_path: object) -> None:
    if module_path is None:
        return
    path = str(module_path)
    for former in _FORMER_PACKAGES:
        if path.startswith(former):
            path = "alphaswarm_rl." + path.removeprefix(former)
    if FORMER_MODULES.get(path, path) != cls.__module__:
        raise ComponentError(
            f"module_path {module_path!r}",
            f"the {cls.rl_kind} {cls.rl_alias!r} is registered by {cls.__module__!r}; a spec never imports a module",
            "Leave module_path out; add code of your own by entry point or with --plugin.",
        )


def _validate(value: object, info: ValidationInfo, kind: str, *, bare: bool) -> ComponentRef:
    if bare and isinstance(value, str):
        value = {"class": value}
    try:
        return reference(value, kind, stored=bool((info.context or {}).get("stored")))
    except AlphaSwarmError as error:
        raise PydanticCustomError("component", "{text}", {"text": str(error).rstrip(".")}) from error


def ref_to(kind: str, *, bare: bool = False) -> Any:
    """The annotation of a field that refers to a component of that kind.

    Args:
        kind: The kind.
        bare: Whether a name alone, `gae`, means `{class: gae}`.
    """
    validate = BeforeValidator(partial(_validate, kind=kind, bare=bare))
    return Annotated[ComponentRef, validate, Field(json_schema_extra={"rl_kind": kind})]


def walk_refs(model: BaseModel) -> Iterator[ComponentRef]:
    """Every reference in a declared model, those inside other references' parameters included."""
    for name in type(model).model_fields:
        yield from refs_in(getattr(model, name))


def refs_in(value: object) -> Iterator[ComponentRef]:
    """Every reference in the value of a field, those inside other references' parameters included."""
    if isinstance(value, ComponentRef):
        yield value
        yield from walk_refs(value.resolved[1])
    elif isinstance(value, BaseModel):
        yield from walk_refs(value)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from refs_in(item)


def build_from_config(ref: JsonMapping | ComponentRef, *, kind: str) -> Any:
    """Builds a component from a reference: the public factory.

    Args:
        ref: `{class, kwargs}` or any other accepted spelling.
        kind: The kind that is expected; a name of another kind is not found.
    """
    return reference(ref, catalogue.canonical_kind(kind)).build()
