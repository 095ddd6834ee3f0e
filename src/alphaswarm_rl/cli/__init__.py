"""The command line: `rl`, and the other names it is installed under."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn

from alphaswarm_rl.cli.root import rl

__all__ = [
    "evaluate_main",
    "infer_main",
    "load_best_main",
    "main",
    "options_main",
    "registry_add_main",
    "registry_list_main",
    "registry_load_main",
    "registry_validate_main",
    "rl",
    "train_main",
]


def main() -> NoReturn:
    """`rl` and `alphaswarm-cli`."""
    _run()


def train_main() -> NoReturn:
    """`rl-train`, which is `rl train`."""
    _run("train")


def evaluate_main() -> NoReturn:
    """`rl-eval`, which is `rl evaluate`."""
    _run("evaluate")


def infer_main() -> NoReturn:
    """`rl-infer`, which is `rl infer`."""
    _run("infer")


def load_best_main() -> NoReturn:
    """`rl-load-best`, which is `rl infer --load-best`."""
    _run("infer", "--load-best")


def registry_list_main() -> NoReturn:
    """`rl-registry-list`, which is `rl models list`."""
    _run("models", "list")


def registry_validate_main() -> NoReturn:
    """`rl-registry-validate`, which is `rl models validate`."""
    _run("models", "validate")


def registry_add_main() -> NoReturn:
    """`rl-registry-add`, which is `rl models add`."""
    _run("models", "add")


def registry_load_main() -> NoReturn:
    """`rl-registry-load`, which is `rl models load`."""
    _run("models", "load")


def options_main() -> NoReturn:
    """`introspect-options`, which is `rl options`."""
    _run("options")


def _run(*verb: str) -> NoReturn:
    # While a run is under way the runtime turns SIGTERM into a halt. Before and after, it ends the command as Ctrl-C
    # does, with the exit code that says so, instead of killing the process.
    signal.signal(signal.SIGTERM, _stop)
    sys.exit(rl.main([*verb, *sys.argv[1:]], prog_name="rl", standalone_mode=False))


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
