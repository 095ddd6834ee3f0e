"""Gates: named checks that a model must pass, and profiles: which of them.

    from alphaswarm_rl.models.gates import Evidence, Verdict, gate, profile

    @gate("short_episodes")
    def short_episodes(evidence: Evidence) -> Verdict: ...

    profile("mine", "finite", "short_episodes")

A module that does so is named with --plugin. A gate sees what is known of a model and says pass or fail, and why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from alphaswarm_rl.core.errors import AlphaSwarmError, ModelError, nearest
from alphaswarm_rl.models.rows import EvaluationRow, ModelRow, Verdict

__all__ = ["Evidence", "Gate", "Limits", "Verdict", "gate", "gates_of", "judge", "profile", "profiles"]


@dataclass(frozen=True)
class Limits:
    """What the settings ask of a model.

    Attributes:
        min_reward: What the lower bound of its mean reward must reach; None asks nothing.
        min_episodes: Evaluation episodes that it needs.
        max_dispersion: Most that returns may spread, as a multiple of their usual size.
        confidence: How sure the lower bound is.
    """

    min_reward: float | None
    min_episodes: int
    max_dispersion: float
    confidence: float


@dataclass(frozen=True)
class Evidence:
    """What a gate sees.

    Attributes:
        model: The model's row.
        evaluations: Its evaluations, the oldest first.
        curve: The training curve until the model: transitions and the mean return of the episodes around them.
        limits: What the settings ask.
        file_problem: What is wrong with the model's file; None where it is the one that was registered.
    """

    model: ModelRow
    evaluations: tuple[EvaluationRow, ...]
    curve: tuple[tuple[float, float], ...]
    limits: Limits
    file_problem: str | None

    @property
    def newest(self) -> EvaluationRow | None:
        """The evaluation that counts."""
        return self.evaluations[-1] if self.evaluations else None


Gate = Callable[[Evidence], Verdict]

_gates: dict[str, Gate] = {}
_profiles: dict[str, tuple[str, ...]] = {}


def gate(name: str) -> Callable[[Gate], Gate]:
    """Registers a function as the gate of that name.

    Raises:
        ModelError: Another function has the name.
    """

    def register(function: Gate) -> Gate:
        known = _gates.get(name)
        if known is not None and _home(known) != _home(function):
            raise ModelError(f"gate {name!r}", f"{_home(known)} and {_home(function)} both claim it", "Rename one.")
        _gates[name] = function
        return function

    return register


def profile(name: str, *gates: str) -> None:
    """Registers the gates that a model must pass under that profile, in order.

    Raises:
        ModelError: The profile has no gates, or is there with others.
    """
    if not gates:
        raise ModelError(f"profile {name!r}", "it names no gate", "Name at least one: without any, all models pass.")
    known = _profiles.get(name)
    if known is not None and known != gates:
        raise ModelError(
            f"profile {name!r}", f"it is there already, with {', '.join(known)}", "Give yours another name."
        )
    _profiles[name] = gates


def profiles() -> dict[str, tuple[str, ...]]:
    """Every profile with the names of its gates."""
    return dict(_profiles)


def gates_of(name: str) -> dict[str, Gate]:
    """The gates of a profile by name.

    Raises:
        ModelError: There is no such profile, or it names a gate that is not there.
    """
    if name not in _profiles:
        raise ModelError(f"profile {name!r}", "there is no such profile of gates", nearest(name, _profiles))
    for gate_name in _profiles[name]:
        if gate_name not in _gates:
            what = f"gate {gate_name!r} of profile {name!r}"
            raise ModelError(what, "there is no such gate", nearest(gate_name, _gates))
    return {gate_name: _gates[gate_name] for gate_name in _profiles[name]}


def judge(name: str, evidence: Evidence) -> tuple[Verdict, ...]:
    """What each gate of a profile says, in the profile's order.

    Raises:
        ModelError: A gate failed to judge: it raised, or gave something else than a verdict.
    """
    return tuple(_judged(gate_name, function, evidence) for gate_name, function in gates_of(name).items())


def _judged(name: str, function: Gate, evidence: Evidence) -> Verdict:
    remedy = "Mend the gate, or choose a profile without it: --gates-profile."
    try:
        verdict = function(evidence)
    except AlphaSwarmError:
        raise
    except Exception as error:  # a user's code: whatever it raises, the model was not judged
        raise ModelError(f"gate {name!r}", f"it raised {type(error).__name__}: {error}", remedy) from error
    if not isinstance(verdict, Verdict) or verdict.gate != name:
        raise ModelError(f"gate {name!r}", f"it gave {verdict!r}, not a verdict of its own name", remedy)
    return verdict


def _home(function: Gate) -> str:
    return f"{function.__module__}.{function.__qualname__}"
