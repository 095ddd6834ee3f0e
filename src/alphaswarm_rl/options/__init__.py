"""Options = ENV = CLI: one table, three faces, one value.

`options.click_options` is apart: only the command line needs click.
"""

from alphaswarm_rl.options.load_settings import load_settings
from alphaswarm_rl.options.option import Feature, Option
from alphaswarm_rl.options.render import introspect
from alphaswarm_rl.options.resolve import (
    RUN_ARGUMENTS,
    EffectiveSpec,
    RunArguments,
    effective_spec,
    run_arguments,
    starting_spec,
)
from alphaswarm_rl.options.table import BY_KEY, FEATURES, OPTIONS, options_of

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
