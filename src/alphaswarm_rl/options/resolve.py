"""From the faces to the spec that is run: flag before ENV before file before default."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from alphaswarm_rl.core.errors import OptionError, SpecError
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.options.paths import Written, value_at, write_all
from alphaswarm_rl.options.sources import Given, read_sources
from alphaswarm_rl.options.table import BY_KEY, OPTIONS
from alphaswarm_rl.spec import RLExperimentSpec

_SPEC_OPTIONS = tuple(option for option in OPTIONS if option.target == "spec")
_SEED = BY_KEY["env.seed"]
_ENCODER, _POLICY_TYPE = BY_KEY["feature.encoder"], BY_KEY["agent.policyType"]

RunArgument = Literal["seed", "episodes", "deterministic", "total_timesteps"]

#: Options that are also arguments of a run of a stored version. Of the others, `device` is a setting, and `start` and
#: `end` have no option: they are flags of the verbs themselves.
RUN_ARGUMENTS: dict[RunArgument, str] = {
    "seed": "env.seed",
    "episodes": "eval.episodes",
    "deterministic": "eval.deterministic",
    "total_timesteps": "train.totalTimesteps",
}
#: Those of a run that judges, and of one that trains another further.
JUDGING: tuple[RunArgument, ...] = ("seed", "episodes", "deterministic")
#: A backtest is one episode.
BACKTESTING: tuple[RunArgument, ...] = ("seed", "deterministic")
TRAINING_ON: tuple[RunArgument, ...] = ("total_timesteps",)


@dataclass(frozen=True)
class EffectiveSpec:
    """The spec that is run, hashed and stored.

    Attributes:
        spec: The spec after all overrides.
        sources: By overridden path the value and the face it came from, as `{"value": ..., "source": ...}`.
        notices: What the user should know, such as a parameter the new agent does not have.
        draws_seed: Whether the seed is to be drawn at random; the spec's own seed is untouched then.
    """

    spec: RLExperimentSpec
    sources: dict[str, dict[str, Any]]
    notices: tuple[str, ...] = ()
    draws_seed: bool = False


@dataclass(frozen=True)
class RunArguments:
    """What a run of a stored version takes from the faces: values by argument, their sources, and notices."""

    values: dict[RunArgument, Any]
    sources: dict[RunArgument, str]
    notices: tuple[str, ...]


def starting_spec() -> RLExperimentSpec:
    """The spec of `rl train` without one: every spec option at its default."""
    data: JsonObject = {"name": "rl-experiment"}
    write_all(data, [Given(option, option.default, "default") for option in _SPEC_OPTIONS])
    return RLExperimentSpec.from_data(data, source="the starting spec")


def effective_spec(base: RLExperimentSpec | None, flags: JsonMapping, environ: Mapping[str, str]) -> EffectiveSpec:
    """The spec after the overrides of flags and environment.

    Args:
        base: The spec the user named; None starts from the options' defaults.
        flags: Values by option key, as text or typed; None is not a value. Settings options are passed over.
        environ: The environment variables.
    """
    given = read_sources(_SPEC_OPTIONS, flags, environ)
    # A drawn seed belongs to the run, not to the spec: in the spec, one command would never give one hash.
    overrides = [item for item in given if not (item.option is _SEED and item.value == "random")]
    start = base or starting_spec()
    if base is None and any(item.option is _POLICY_TYPE and item.value == "CnnPolicy" for item in overrides):
        # It brings its own network for images: the default one, which nobody chose, stands back.
        overrides.insert(0, Given(_ENCODER, None, "default"))
    try:
        spec, written = _overridden(start, overrides)
    except SpecError as error:
        raise _blame(start, overrides, error) from error
    canonical = spec.as_data()
    return EffectiveSpec(
        spec=spec,
        sources={item.path: {"value": value_at(canonical, item.path), "source": item.source} for item in written},
        # What the starting spec chose was nobody's choice: nobody needs to hear that another agent does without it.
        notices=() if base is None else tuple(notice for item in written for notice in item.notices),
        draws_seed=len(overrides) < len(given),
    )


def run_arguments(
    flags: JsonMapping,
    environ: Mapping[str, str],
    allowed: Collection[RunArgument] = JUDGING,
) -> RunArguments:
    """What a verb on a stored version takes: the stored spec stands, only arguments of the run may be given.

    Any other spec option is an error as a flag. As a variable it is ignored with a notice: it was set for other
    commands, and a stored version does not change.
    """
    keys = {RUN_ARGUMENTS[name]: name for name in allowed}
    takes = ", ".join(BY_KEY[key].flag for key in keys) or "no option of the spec"
    notices: list[str] = []
    for option in _SPEC_OPTIONS:
        if option.key in keys:
            continue
        if flags.get(option.key) is not None:
            raise OptionError(
                f"option {option.key} (flag {option.flag_for(flags[option.key])})",
                "a stored version is run as it is stored",
                f"Leave it out; this verb takes {takes}. To change the spec, train a new version.",
            )
        notices += [
            f"ENV {name} is ignored: a stored version is run as it is stored"
            for name in option.env_names
            if environ.get(name)
        ]
    given = read_sources([BY_KEY[key] for key in keys], flags, environ)
    return RunArguments(
        values={keys[item.option.key]: item.value for item in given},
        sources={keys[item.option.key]: item.source for item in given},
        notices=tuple(notices),
    )


def _overridden(base: RLExperimentSpec, overrides: list[Given]) -> tuple[RLExperimentSpec, list[Written]]:
    if not overrides:
        return base, []
    data = base.as_data()
    written = write_all(data, overrides)
    return RLExperimentSpec.from_data(data, source=f"spec {base.name!r} with its options"), written


def _blame(base: RLExperimentSpec, overrides: list[Given], error: SpecError) -> OptionError:
    """The error that names each override without which the spec would be valid, or all where there is none."""
    guilty = [item for item in overrides if _is_valid(base, [other for other in overrides if other is not item])]
    named = ", ".join(f"{item.option.key} ({item.source})" for item in guilty or overrides)
    wants = "; ".join(f"{item.option.key} takes {item.option.type.wants}" for item in guilty or overrides)
    remedy = "Drop it." if "unknown key" in error.why else f"Change or drop it: {wants}."
    return OptionError(f"option {named}", error.why, remedy)


def _is_valid(base: RLExperimentSpec, overrides: list[Given]) -> bool:
    try:
        _overridden(base, overrides)
    except (SpecError, OptionError):
        return False
    return True
