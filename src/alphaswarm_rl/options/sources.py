"""Reading the faces: what the flags and the environment say about each option."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from alphaswarm_rl.core.errors import OptionError, PartNotHere, nearest
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.options.option import OWN_PREFIX, RULE_PREFIX, Option
from alphaswarm_rl.options.table import BY_KEY, OPTIONS

#: From which likeness on a name is taken for a misspelt one: a letter or two of twelve.
_ALIKE = 0.85


@dataclass(frozen=True)
class Given:
    """A value that a face gave, and which one it was."""

    option: Option
    value: Any
    source: str


def read_sources(options: Iterable[Option], flags: JsonMapping, environ: Mapping[str, str]) -> list[Given]:
    """What flags and environment say about the options, a flag before a variable; what is not given is left out.

    Args:
        options: The options to look for.
        flags: Values by option key, as text or typed; None is not a value.
        environ: The environment variables.
    """
    _refuse_unknown_keys(flags)
    _refuse_unknown_names(environ)
    found = (read_source(option, flags, environ) for option in options)
    return [given for given in found if given is not None]


def read_source(option: Option, flags: JsonMapping, environ: Mapping[str, str]) -> Given | None:
    """What flags and environment say about one option; None where neither does."""
    return _from_flag(option, flags) or _from_environ(option, environ)


def parse(option: Option, value: object, source: str) -> Any:
    """The value that a face's text or typed value means."""
    try:
        return option.type.read(value.strip() if isinstance(value, str) else value)
    except ValueError as error:
        raise OptionError(f"option {option.key} ({source})", str(error), f"Give {option.type.wants}.") from error


def refuse_absent_part(given: Given) -> None:
    """Refuses an option whose part of the system is not there, unless it is set to its default."""
    option = given.option
    if option.part is not None and given.value != option.default:
        default = "null" if option.default is None else option.default
        raise PartNotHere(
            f"option {option.key} ({given.source})",
            f"it needs {option.part}, which is not part of this version",
            f"Leave it out, or set it to its default {default}.",
        )


def _from_flag(option: Option, flags: JsonMapping) -> Given | None:
    value = flags.get(option.key)
    if value is None:
        return None
    parsed = parse(option, value, f"flag {option.flag}")
    return Given(option, parsed, f"flag {option.flag_for(parsed)}")


def _from_environ(option: Option, environ: Mapping[str, str]) -> Given | None:
    """What the environment says about one option.

    The first level of names that has a value counts; within a level of our own names two values are an error.
    """
    own, short, foreign = option.levels
    for level in (own, short):
        # A variable set to nothing is how shells and containers unset one: it counts as not set.
        found = [_from_variable(option, name, environ[name]) for name in level if environ.get(name)]
        for other in found[1:]:
            if other.value != found[0].value:
                raise OptionError(
                    f"option {option.key}",
                    f"{found[0].source} and {other.source} name the same option and have different values",
                    "Set one of them.",
                )
        if found:
            return found[0]
    if option.part is not None:
        # Foreign names configure other programs too; until our part reads them their being set is no mistake.
        return None
    for name in foreign:
        if environ.get(name):
            try:
                return _from_variable(option, name, environ[name])
            except OptionError:
                continue  # a value that other programs understand and we do not
    return None


def _from_variable(option: Option, name: str, text: str) -> Given:
    return Given(option, parse(option, text, f"ENV {name}"), f"ENV {name}")


def misspelt_names(environ: Mapping[str, str]) -> list[str]:
    """A notice for each variable that looks like one of ours and is none; nothing reads it.

    `RL_` is short and common, so an unknown name is no error. Only what is nearly a name of ours is told.
    """
    known = {name for option in OPTIONS for name in option.env_names}
    short = sorted(name for name in known if name.startswith(RULE_PREFIX))
    found = []
    for name in sorted(environ):
        if name in known or not name.upper().startswith(RULE_PREFIX):
            continue
        close = get_close_matches(name.upper(), short, n=1, cutoff=_ALIKE)
        if close:
            found.append(f"ENV {name} is not read: no option has that name. Did you mean {close[0]}?")
    return found


def _refuse_unknown_keys(flags: JsonMapping) -> None:
    for key in flags:
        if key not in BY_KEY:
            raise OptionError(f"option {key!r}", "there is no such option", nearest(key, BY_KEY))


def _refuse_unknown_names(environ: Mapping[str, str]) -> None:
    # Only the long prefix is ours alone; see `misspelt_names` for the other.
    known = {name for option in OPTIONS for name in option.env_names}
    for name in sorted(environ):
        if name.startswith(OWN_PREFIX) and name not in known:
            ours = [other for other in known if other.startswith(OWN_PREFIX)]
            raise OptionError(f"ENV {name}", "no option has that name", nearest(name, ours))
