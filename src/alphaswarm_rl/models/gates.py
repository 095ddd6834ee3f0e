"""Gates: named checks that a model must pass, and profiles: which of them.

    from alphaswarm_rl.models.gates import Evidence, Verdict, gate, profile

    @gate("short_episodes")
    def short_episodes(evidence: Evidence) -> Verdict: ...

    profile("mine", "finite", "short_episodes")

A module that does so is named with --plugin. A gate sees what is known of a model and says pass or fail, and why.
A profile may name other gates for models that trade. `EVERYWHERE` names those that every profile has, whether it names
them or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from alphaswarm_rl.core.account_evidence import AccountEvidence
from alphaswarm_rl.core.errors import AlphaSwarmError, ModelError, nearest
from alphaswarm_rl.models.rows import EvaluationRow, ModelRow, Verdict

__all__ = ["Evidence", "Gate", "Limits", "Profile", "Verdict", "gate", "gates_of", "judge", "profile", "profiles"]


@dataclass(frozen=True)
class Limits:
    """What the settings ask of a model.

    Attributes:
        min_reward: What the lower bound of its mean reward must reach; None asks nothing.
        min_episodes: Evaluation episodes that it needs.
        max_dispersion: Most that returns may spread, as a multiple of their usual size.
        confidence: How sure lower bounds are.
        min_bars: Bars that a model which trades must have been judged on.
        measure: The measure of its curve whose lower bound is judged, one of `statistics.performance.RETURN_MEASURES`.
        min_measure: What that lower bound must reach.
        max_drawdown: Deepest fall that is allowed, as a part of the earlier value: 0 or more.
        max_shortfall: Most that its yearly return may be below that of a yardstick, at the lower bound.
        max_profit_share: Most of the profit that one of several assets may make.
    """

    min_reward: float | None
    min_episodes: int
    max_dispersion: float
    confidence: float
    min_bars: int = 100
    measure: str = "sharpe"
    min_measure: float = 0.0
    max_drawdown: float = 0.3
    max_shortfall: float = 0.0
    max_profit_share: float = 0.5


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
        """The evaluation that counts: the newest that chooses, where there are dates on the validation window.

        Where none chooses, the newest of all.
        """
        choosing = [row for row in self.evaluations if row.judgement_key is not None]
        return next(reversed(choosing or self.evaluations), None)

    @property
    def trades(self) -> bool:
        """Whether the newest evaluation was of a trading account."""
        return self.newest is not None and _ACCOUNT_METRIC in self.newest.metrics

    @cached_property
    def account(self) -> AccountEvidence | None:
        """The account's curve in the newest evaluation; None where it has none."""
        stored = None if self.newest is None else self.newest.metrics.get(CURVES)
        return None if stored is None else AccountEvidence.from_json(stored)


Gate = Callable[[Evidence], Verdict]


@dataclass(frozen=True)
class Profile:
    """Which gates a model must pass, in order.

    Attributes:
        gates: Those of a model that does not trade.
        trading: Those of one that does.
    """

    gates: tuple[str, ...]
    trading: tuple[str, ...]

    def names(self, *, trades: bool) -> tuple[str, ...]:
        """All gates of such a model, those that every profile has first."""
        return tuple(dict.fromkeys((*EVERYWHERE, *(self.trading if trades else self.gates))))


#: The gates that a model must pass under every profile.
EVERYWHERE = ("trained", "not_constant")
#: What an evaluation's metrics hold for gates beside measures.
CURVES, UPDATES, ACTIONS_VARY = "curves", "updates", "actions_vary"
#: A measure that every evaluation of a trading account has, and no other.
_ACCOUNT_METRIC = "final_value"

_gates: dict[str, Gate] = {}
_profiles: dict[str, Profile] = {}


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


def needs_evaluation(name: str) -> Callable[[Callable[[Evidence, EvaluationRow], Verdict]], Gate]:
    """A gate that fails where the model was never evaluated, and judges its newest evaluation otherwise."""

    def decorate(function: Callable[[Evidence, EvaluationRow], Verdict]) -> Gate:
        def judge(evidence: Evidence) -> Verdict:
            newest = evidence.newest
            return Verdict(name, False, "it was never evaluated") if newest is None else function(evidence, newest)

        judge.__module__, judge.__qualname__ = function.__module__, function.__qualname__
        return gate(name)(judge)

    return decorate


def profile(name: str, *gates: str, trading: Sequence[str] | None = None) -> None:
    """Registers the gates that a model must pass under that profile, in order.

    Args:
        name: The profile.
        gates: Its gates.
        trading: Its gates for models that trade; None: the same.

    Raises:
        ModelError: The profile has no gates, or is there with others.
    """
    new = Profile(gates, gates if trading is None else tuple(trading))
    if not (new.gates and new.trading):
        raise ModelError(f"profile {name!r}", "it names no gate", "Name at least one: without any, all models pass.")
    known = _profiles.get(name)
    if known is not None and known != new:
        raise ModelError(
            f"profile {name!r}", f"it is there already, with {', '.join(known.gates)}", "Give yours another name."
        )
    _profiles[name] = new


def profiles() -> dict[str, Profile]:
    """Every profile with the names of its gates."""
    return dict(_profiles)


def gates_of(name: str, *, trades: bool = False) -> dict[str, Gate]:
    """The gates of a profile by name, for a model that trades or one that does not.

    Raises:
        ModelError: There is no such profile, or it names a gate that is not there.
    """
    if name not in _profiles:
        raise ModelError(f"profile {name!r}", "there is no such profile of gates", nearest(name, _profiles))
    found = _profiles[name]
    for gate_name in (*found.names(trades=False), *found.names(trades=True)):
        if gate_name not in _gates:
            what = f"gate {gate_name!r} of profile {name!r}"
            raise ModelError(what, "there is no such gate", nearest(gate_name, _gates))
    return {gate_name: _gates[gate_name] for gate_name in found.names(trades=trades)}


def judge(name: str, evidence: Evidence) -> tuple[Verdict, ...]:
    """What each gate of a profile says, in the profile's order.

    Raises:
        ModelError: A gate failed to judge: it raised, or gave something else than a verdict.
    """
    found = gates_of(name, trades=evidence.trades)
    return tuple(_judged(gate_name, function, evidence) for gate_name, function in found.items())


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
