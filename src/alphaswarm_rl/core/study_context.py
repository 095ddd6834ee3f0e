"""What a study works with: a context that trains, evaluates and replays one base spec, with changes.

A study is an `Experiment` or an `Ensembler`. It never sees the runtime: it asks its context for runs, each an ordinary
run in the ledger, and gets a `StudyRun` of each. Studies stand in `alphaswarm_rl.studies`, which has the context on the
runtime; a test can hand in another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypedDict, Unpack

from alphaswarm_rl.core.run_listener import Event
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.core.window import Window


@dataclass(frozen=True)
class StudyRun:
    """A run that a study asked for, as it ended.

    Attributes:
        run_id: Its id in the ledger.
        status: `completed`, `failed`, or `halted` where somebody stopped it, the study by its `stop_when` included.
        seed: Its seed.
        validation: Metrics of its last validation, which is of the model that training ends with; empty without one.
        evaluation: Metrics on the evaluation window, or on the one that was given; empty without an evaluation.
        checkpoint: Its last checkpoint.
        best_checkpoint: The checkpoint whose validation was best.
        halt_reason: Why it was halted.
        error: Why it failed.
    """

    run_id: str
    status: str
    seed: int
    validation: JsonMapping = field(default_factory=dict)
    evaluation: JsonMapping = field(default_factory=dict)
    checkpoint: str | None = None
    best_checkpoint: str | None = None
    halt_reason: str | None = None
    error: str | None = None


#: Sees every event of a training; a text that it answers with halts the run, as its reason.
StopRule: TypeAlias = Callable[[Event], str | None]


class TrainArguments(TypedDict, total=False):
    """How a training differs from the base spec's, beside its changes.

    Attributes:
        window: Other dates to train on.
        seed: Seed of the run; None takes the spec's.
        name: What the row calls the run, and the source of the changes.
        stop_when: Halts the run for a reason.
    """

    window: Window | None
    seed: int | None
    name: str | None
    stop_when: StopRule | None


class PlayArguments(TypedDict, total=False):
    """How a policy is played.

    Attributes:
        checkpoint: Which checkpoint of the parent: `best`, a step or a folder; None takes the last.
        window: Other dates than the spec's evaluation window.
        seed: Seed of the episodes; None takes the parent's or the spec's.
        episodes: Another number of episodes than the spec's.
    """

    checkpoint: str | int | None
    window: Window | None
    seed: int | None
    episodes: int | None


class StudyContext(Protocol):
    """Runs of one base spec.

    What is refused before there is a run, such as a value that the spec does not take or a kill switch that is engaged,
    is raised. A run that fails is returned with its error: the study decides what that means.
    """

    def train(self, changes: JsonMapping | None = None, **arguments: Unpack[TrainArguments]) -> StudyRun:
        """Trains the base spec with other values by dotted path, such as `{"agent.kwargs.gamma": 0.9}`."""

    def evaluate(
        self,
        changes: JsonMapping | None = None,
        *,
        parent: str | None = None,
        name: str | None = None,
        **arguments: Unpack[PlayArguments],
    ) -> StudyRun:
        """Judges a policy on the evaluation window, in a run of its own.

        Args:
            changes: Other values of the base spec, for a policy that needs no training; a parent has its own spec.
            parent: The run whose policy it is.
            name: What the row calls the run.
            **arguments: How it is played.
        """

    def replay(self, parent: str, *, name: str | None = None, **arguments: Unpack[PlayArguments]) -> StudyRun:
        """Feeds a trained policy another window or seed, under its pinned version."""

    def run(self, run_id: str) -> StudyRun:
        """A run that ended earlier, such as one of the study before it was interrupted."""
