"""alphaswarm-rl: one YAML spec becomes a hash-locked, replayable reinforcement-learning experiment.

Names are imported when they are first used, so that `import alphaswarm_rl` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alphaswarm_rl import statistics
    from alphaswarm_rl.agents.sb3.vec_env import as_sb3
    from alphaswarm_rl.core import catalogue as components
    from alphaswarm_rl.core.component import ComponentConfig, RLComponent
    from alphaswarm_rl.core.errors import AlphaSwarmError
    from alphaswarm_rl.core.refs import build_from_config
    from alphaswarm_rl.core.tracing import span
    from alphaswarm_rl.core.window import Window
    from alphaswarm_rl.envs.base import BaseRLEnv
    from alphaswarm_rl.envs.making import make_env
    from alphaswarm_rl.inference.policy_server import PolicyServer
    from alphaswarm_rl.ledger import Ledger
    from alphaswarm_rl.market.panel import MarketPanel
    from alphaswarm_rl.runtime import RLRuntime, RunResult
    from alphaswarm_rl.settings import Settings
    from alphaswarm_rl.spec import RLExperimentSpec, load_spec, load_specs_from_dir

_HOMES = {
    "AlphaSwarmError": "alphaswarm_rl.core.errors",
    "BaseRLEnv": "alphaswarm_rl.envs.base",
    "ComponentConfig": "alphaswarm_rl.core.component",
    "Ledger": "alphaswarm_rl.ledger",
    "MarketPanel": "alphaswarm_rl.market.panel",
    "PolicyServer": "alphaswarm_rl.inference.policy_server",
    "RLComponent": "alphaswarm_rl.core.component",
    "RLExperimentSpec": "alphaswarm_rl.spec",
    "RLRuntime": "alphaswarm_rl.runtime",
    "RunResult": "alphaswarm_rl.runtime",
    "Settings": "alphaswarm_rl.settings",
    "Window": "alphaswarm_rl.core.window",
    "as_sb3": "alphaswarm_rl.agents.sb3.vec_env",
    "build_from_config": "alphaswarm_rl.core.refs",
    "load_spec": "alphaswarm_rl.spec",
    "load_specs_from_dir": "alphaswarm_rl.spec",
    "make_env": "alphaswarm_rl.envs.making",
    "span": "alphaswarm_rl.core.tracing",
}

__all__ = [
    "AlphaSwarmError",
    "BaseRLEnv",
    "ComponentConfig",
    "Ledger",
    "MarketPanel",
    "PolicyServer",
    "RLComponent",
    "RLExperimentSpec",
    "RLRuntime",
    "RunResult",
    "Settings",
    "Window",
    "as_sb3",
    "build_from_config",
    "components",
    "load_spec",
    "load_specs_from_dir",
    "make_env",
    "span",
    "statistics",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name == "components":
        return import_module("alphaswarm_rl.core.catalogue")
    if name == "statistics":
        return import_module("alphaswarm_rl.statistics")
    if name in _HOMES:
        # Whoever uses a name of ours may use our environments by Gymnasium's; telling it costs its import.
        import_module("alphaswarm_rl.envs.making").register()
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'alphaswarm_rl' has no attribute {name!r}")
