"""The one door: everything that trains, evaluates or replays goes through `RLRuntime`.

Names are imported when they are first used: the runtime loads torch, its result does not.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alphaswarm_rl.runtime.result import RunFailed, RunResult
    from alphaswarm_rl.runtime.runtime import RLRuntime

_HOMES = {"RLRuntime": "runtime", "RunFailed": "result", "RunResult": "result"}

__all__ = ["RLRuntime", "RunFailed", "RunResult"]


def __getattr__(name: str) -> type:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: type = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
