"""The one door: everything that trains, evaluates or replays goes through `RLRuntime`."""

from alphaswarm_rl.runtime.runtime import RLRuntime, RunFailed, RunResult

__all__ = ["RLRuntime", "RunFailed", "RunResult"]
