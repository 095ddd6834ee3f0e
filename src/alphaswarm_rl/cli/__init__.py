"""The command line: `rl`, and the other names it is installed under."""

from __future__ import annotations

import atexit
import gc
import signal
import sys
from functools import partial
from types import FrameType
from typing import NoReturn

from alphaswarm_rl.cli.root import rl as rl


def main(*verb: str) -> NoReturn:
    """`rl` and `alphaswarm-cli`; with words, another name of that command."""
    # While a run is under way the runtime turns SIGTERM into a halt. Before and after, it ends the command as Ctrl-C
    # does, with the exit code that says so, instead of killing the process.
    signal.signal(signal.SIGTERM, _stop)
    # Imports leave no garbage, and looking for it takes a tenth of a short command's time; whoever reads the settings
    # is about to work, and has it collected again.
    gc.disable()
    atexit.register(_unfreeze)
    sys.exit(rl.main([*verb, *sys.argv[1:]], prog_name="rl", standalone_mode=False))


train_main = partial(main, "train")
evaluate_main = partial(main, "evaluate")
infer_main = partial(main, "infer")
load_best_main = partial(main, "infer", "--load-best")
registry_list_main = partial(main, "models", "list")
registry_validate_main = partial(main, "models", "validate")
registry_add_main = partial(main, "models", "add")
registry_load_main = partial(main, "models", "load")
options_main = partial(main, "options")


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _unfreeze() -> None:
    # DuckDB's bindings print what is frozen at the end as leaked. For all others an end without a last look for garbage
    # is a fifth of a short command's time.
    if "_duckdb" in sys.modules:
        gc.unfreeze()
