"""Where market data comes from, and what is computed from it before an agent sees it.

FinRL's two classes are here by name too; they are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alphaswarm_rl.data_pipelines.finrl import DataProcessor, FeatureEngineer

__all__ = ["DataProcessor", "FeatureEngineer"]


def __getattr__(name: str) -> type:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: type = getattr(import_module(f"{__name__}.finrl"), name)
    return found
