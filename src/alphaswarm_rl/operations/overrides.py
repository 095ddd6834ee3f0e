"""What a caller changes of a run: options of the table, and environment variables where the caller has any.

A request carries options by their keys. Those of the spec change it before it is hashed; seed, episodes and
deterministic may be arguments of one run instead, which change no version.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from typing import TypedDict, TypeVar, cast

from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.events import ArgumentsResolved, Caller, Notice, SpecResolved
from alphaswarm_rl.operations.operation import LazySettings
from alphaswarm_rl.operations.references import pinned_spec
from alphaswarm_rl.options.resolve import (
    JUDGING,
    RUN_ARGUMENTS,
    EffectiveSpec,
    RunArgument,
    RunArguments,
    effective_spec,
    run_arguments,
)
from alphaswarm_rl.options.table import BY_KEY
from alphaswarm_rl.spec import RLExperimentSpec

V = TypeVar("V")


class Arguments(TypedDict, total=False):
    """Arguments of one run of a version; those that nobody gave are left to the run, or to its version."""

    seed: int | str | None
    episodes: int
    deterministic: bool


class Overrides(Data):
    """Arguments of one run, and where they come from by name as `{"value": ..., "source": ...}`."""

    arguments: Arguments
    sources: JsonObject = field(default_factory=dict)


def resolve_spec(
    settings: LazySettings,
    base: RLExperimentSpec | None,
    options: JsonMapping,
    caller: Caller,
    *,
    may_draw_seed: bool = True,
) -> EffectiveSpec:
    """The spec that is run, after every override; None starts from the options' defaults.

    Args:
        settings: Where the weights are found that it begins with; read where it names some.
        base: The spec that was named.
        options: Options of the table by key.
        caller: Who hears of it.
        may_draw_seed: Whether `--seed random` makes sense.
    """
    effective = effective_spec(base, options, caller.environ)
    effective = replace(effective, spec=pinned_spec(settings, effective.spec))
    if effective.draws_seed and not may_draw_seed:
        raise OptionError(
            "option --seed random", "trials of different seeds cannot be compared", "Give a number, or leave it out."
        )
    caller.listen(SpecResolved(effective.spec.slug, effective.spec.spec_hash, effective.sources))
    for notice in effective.notices:
        caller.listen(Notice(notice))
    return effective


def resolve_arguments(options: JsonMapping, caller: Caller, allowed: Collection[RunArgument] = JUDGING) -> Overrides:
    """The arguments of a run of a stored version, which alone says the rest; other options of the spec are refused."""
    found = run_arguments(options, caller.environ, allowed)
    for notice in found.notices:
        caller.listen(Notice(notice))
    return _announced(found, caller)


def resolve_both(
    settings: LazySettings, base: RLExperimentSpec, options: JsonMapping, caller: Caller
) -> tuple[RLExperimentSpec, Overrides]:
    """The spec with its overrides, and apart from it the arguments of its run; the sources are those of both."""
    keys = {RUN_ARGUMENTS[name] for name in JUDGING}
    names = {name for key in keys for name in BY_KEY[key].env_names}
    (of_run, of_spec), (run_environ, environ) = _split(options, keys), _split(caller.environ, names)
    found = run_arguments(of_run, run_environ)
    effective = resolve_spec(settings, base, of_spec, replace(caller, environ=environ))
    overrides = _announced(found, caller)
    return effective.spec, Overrides(overrides.arguments, {**effective.sources, **overrides.sources})


def _announced(found: RunArguments, caller: Caller) -> Overrides:
    sources: JsonObject = {}
    for name, value in found.values.items():
        sources[name] = {"value": value, "source": found.sources[name]}
    caller.listen(ArgumentsResolved(sources))
    return Overrides(cast(Arguments, dict(found.values)), sources)


def _split(values: Mapping[str, V], names: Collection[str]) -> tuple[dict[str, V], dict[str, V]]:
    """The values of these names, and the rest."""
    chosen = {name: value for name, value in values.items() if name in names}
    return chosen, {name: value for name, value in values.items() if name not in names}
