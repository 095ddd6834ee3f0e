"""Options = ENV = CLI: one table, three faces, one value.

`options.click_options` is apart: only the command line needs click. What reads settings and specs is imported when it
is first used: a command's options are the table alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from alphaswarm_rl.options.option import Feature, Option
from alphaswarm_rl.options.table import BY_KEY, FEATURES, OPTIONS, options_of

if TYPE_CHECKING:
    from alphaswarm_rl.options.render import introspect
    from alphaswarm_rl.options.resolve import (
        RUN_ARGUMENTS,
        EffectiveSpec,
        RunArguments,
        effective_spec,
        run_arguments,
        starting_spec,
    )
    from alphaswarm_rl.options.settings import load_settings

_HOMES = {
    "introspect": "render",
    "load_settings": "settings",
    "RUN_ARGUMENTS": "resolve",
    "EffectiveSpec": "resolve",
    "RunArguments": "resolve",
    "effective_spec": "resolve",
    "run_arguments": "resolve",
    "starting_spec": "resolve",
}

__all__ = [
    "BY_KEY",
    "FEATURES",
    "OPTIONS",
    "RUN_ARGUMENTS",
    "EffectiveSpec",
    "Feature",
    "Option",
    "RunArguments",
    "effective_spec",
    "introspect",
    "load_settings",
    "options_of",
    "run_arguments",
    "starting_spec",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
