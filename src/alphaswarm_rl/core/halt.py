"""The kill switch as components see it."""

from __future__ import annotations

from typing import Protocol


class HaltToken(Protocol):
    """Asked on every vector step on the CPU, on every rollout on the GPU."""

    def should_halt(self) -> bool:
        """Whether the loop must stop now. Cheap: one flag, no look at any store."""
