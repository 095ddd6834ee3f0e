"""The figures of an update under one set of names, whatever its learner calls them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

#: The loss that stands for all of a learner's, the first that it has: what it minimises, or what its critic does.
_MAIN_LOSSES = ("loss", "critic_loss", "value_loss")


@dataclass(frozen=True)
class LearningFigures:
    """What a learner says of its updates, as far as it knows it.

    Attributes:
        losses: Its losses by name.
        entropy: The entropy of its policy's actions.
        explained_variance: The share of the returns' variance that its critic's values explain.
    """

    losses: Mapping[str, float | None] = field(default_factory=dict)
    entropy: float | None = None
    explained_variance: float | None = None

    @property
    def loss(self) -> float | None:
        """The loss that stands for all of them."""
        return next((self.losses[name] for name in _MAIN_LOSSES if name in self.losses), None)

    @classmethod
    def of(cls, metrics: Mapping[str, float | None]) -> Self:
        """The figures in the metrics of a learner, whatever stands before a slash in their names."""
        named = {path.rpartition("/")[2]: value for path, value in metrics.items()}
        entropy, negative = named.get("entropy"), named.pop("entropy_loss", None)
        if entropy is None and negative is not None:
            entropy = -negative  # by convention
        losses = {name: value for name, value in named.items() if name.endswith("loss")}
        return cls(losses, entropy, named.get("explained_variance"))
