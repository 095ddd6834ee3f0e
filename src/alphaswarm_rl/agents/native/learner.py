"""What the learners of our own have in common: when training begins with a reset, and being put into a saved state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from alphaswarm_rl.agents.stepping import can_restore
from alphaswarm_rl.core.contracts import AnyVectorEnv, State
from alphaswarm_rl.core.errors import CheckpointError
from alphaswarm_rl.core.types import Batch


class NativeLearner(ABC):
    """The base of native learners, which go on bit for bit from a saved state.

    Args:
        alias: Name of the agent.
    """

    resume: Literal["exact", "approximate"] = "exact"
    rollout_transitions: int | None = None

    def __init__(self, alias: str) -> None:
        self.timesteps = 0
        #: What training goes on from; None before its first reset.
        self.observation: Batch | None = None
        self._alias = alias
        self._restored = False

    def _needs_reset(self, env: AnyVectorEnv) -> bool:
        """Whether training begins with a reset: at first, and where the environment has no saved state."""
        restored, self._restored = self._restored, False
        return self.observation is None or (restored and not can_restore(env))

    def set_state(self, state: State) -> None:
        """Continues from there, bit for bit; a learner that only predicts takes what it needs for that.

        A state of another agent, or one that does not fit, is a CheckpointError.
        """
        with self._fitting(state, "Load a checkpoint of the same spec."):
            self._restored = self._load(state)

    def begin_with(self, state: State) -> None:
        """Takes over weights and normaliser of another training; optimiser, counters and streams are its own.

        A state of another agent, or one that does not fit, is a CheckpointError.
        """
        with self._fitting(state, "Begin with one of the same agent, networks and normalisation."):
            self._load_policy(state)

    @contextmanager
    def _fitting(self, state: State, remedy: str) -> Iterator[None]:
        agent = state.data.get("agent")
        if agent != self._alias:
            raise CheckpointError(
                f"the state of agent {agent!r}", f"this agent is {self._alias!r}", "Load one of its own."
            )
        try:
            yield
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"the state of agent {self._alias!r}", f"it does not fit: {error!r}", remedy
            ) from error

    @property
    @abstractmethod
    def updates(self) -> int | None:
        """Gradient steps that made its policy."""

    @abstractmethod
    def _load(self, state: State) -> bool:
        """Takes a state over; says whether training can go on from it."""

    @abstractmethod
    def _load_policy(self, state: State) -> None:
        """Takes over weights and normaliser alone."""
