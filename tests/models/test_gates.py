"""Each gate passes and fails on its merits; profiles name them; users add their own."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alphaswarm_rl.core.errors import DataError, ModelError
from alphaswarm_rl.models import Evidence, Limits, ModelRegistry, NewModel, Scope, Verdict, gate, gates, profile
from alphaswarm_rl.models.gates import Profile
from alphaswarm_rl.settings import GatesSettings, RegistrySettings, Settings
from tests.models.samples import CARTPOLE, PENDULUM, add, evaluation, new_model

LIMITS = Limits(min_reward=None, min_episodes=10, max_dispersion=1.0, confidence=0.95)
SEEDED = random.Random(0)


@pytest.fixture
def see(alone: ModelRegistry, tmp_path: Path) -> Callable[..., Evidence]:
    """Makes evidence: the model's last evaluation, and what else is given."""
    numbers = iter(range(1000))

    def make(evaluated: Any = None, *, curve: Any = (), problem: str | None = None, **limits: Any) -> Evidence:
        row = alone.register(new_model(tmp_path / str(next(numbers)), total_timesteps=limits.pop("steps", 1000)))
        if evaluated is not None:
            alone.add_evaluation(row.id, evaluated)
        found = tuple(alone.evaluations(row.id))
        return Evidence(alone.get(row.id), found, tuple(curve), dataclasses.replace(LIMITS, **limits), problem)

    return make


def verdict_of(name: str, evidence: Evidence) -> Verdict:
    verdict = gates._gates[name](evidence)
    assert verdict.gate == name
    assert verdict.reason
    return verdict


@pytest.mark.parametrize("name", ["min_episodes", "finite", "reward_lower_bound", "dispersion", "holdout"])
def test_a_model_that_was_never_evaluated_fails(see: Callable[..., Evidence], name: str) -> None:
    verdict = verdict_of(name, see())
    assert not verdict.passed
    assert "never evaluated" in verdict.reason


def test_min_episodes(see: Callable[..., Evidence]) -> None:
    passed, failed = (
        verdict_of("min_episodes", see(evaluation())),
        verdict_of("min_episodes", see(evaluation(episodes=9))),
    )
    assert (passed.passed, passed.value, passed.limit) == (True, 10, 10)
    assert (failed.passed, failed.value, failed.limit) == (False, 9, 10)


def test_min_episodes_judges_the_newest_evaluation(alone: ModelRegistry, tmp_path: Path) -> None:
    row = add(alone, tmp_path / "model")
    assert row.validated
    alone.add_evaluation(row.id, evaluation(episodes=2))
    assert not alone.validate(row.id).passed
    assert not alone.get(row.id).validated


@pytest.mark.parametrize(
    "wrong", [{"mean": math.nan}, {"std": math.inf}, {"mean_episode_length": None}, {"returns": [math.nan] + [1.0] * 9}]
)
def test_finite(see: Callable[..., Evidence], wrong: dict[str, Any]) -> None:
    assert verdict_of("finite", see(evaluation())).passed
    verdict = verdict_of("finite", see(evaluation(**wrong)))
    assert not verdict.passed
    assert "not finite" in verdict.reason


def test_reward_lower_bound(see: Callable[..., Evidence]) -> None:
    # Mean 100, lower bound 96.9.
    assert verdict_of("reward_lower_bound", see(evaluation(), min_reward=96.0)).passed
    verdict = verdict_of("reward_lower_bound", see(evaluation(), min_reward=97.0))
    assert not verdict.passed
    assert verdict.value == pytest.approx(96.9448, abs=1e-4)
    assert verdict.limit == 97.0


def test_reward_lower_bound_without_a_minimum_passes_and_says_so(see: Callable[..., Evidence]) -> None:
    verdict = verdict_of("reward_lower_bound", see(evaluation(-1e6, 1e6)))
    assert verdict.passed
    assert "no minimum" in verdict.reason


def test_a_minimum_of_zero_counts(see: Callable[..., Evidence]) -> None:
    assert verdict_of("reward_lower_bound", see(evaluation(1.0, 0.1), min_reward=0.0)).passed
    assert not verdict_of("reward_lower_bound", see(evaluation(-1.0, 0.1), min_reward=0.0)).passed
    # A mean above 0 whose bound is not.
    assert not verdict_of("reward_lower_bound", see(evaluation(1.0, 5.0), min_reward=0.0)).passed


def test_one_episode_has_no_bound_and_no_spread(see: Callable[..., Evidence]) -> None:
    one = evaluation(100.0, 0.0, episodes=1)
    verdict = verdict_of("reward_lower_bound", see(one, min_reward=0.0))
    assert not verdict.passed
    assert "one episode" in verdict.reason
    assert verdict_of("reward_lower_bound", see(one)).passed
    assert verdict_of("dispersion", see(one)).passed


@pytest.mark.parametrize("sign", [1, -1])
def test_dispersion_judges_negative_means_as_positive_ones(see: Callable[..., Evidence], sign: int) -> None:
    tight, wide = (
        verdict_of("dispersion", see(evaluation(sign * 100.0, 50.0))),
        verdict_of("dispersion", see(evaluation(sign * 100.0, 120.0))),
    )
    assert (tight.passed, wide.passed) == (True, False)
    assert tight.value == pytest.approx(50 * math.sqrt(10 / 9) / 100)
    assert not verdict_of("dispersion", see(evaluation(sign * 100.0, 50.0), max_dispersion=0.5)).passed


def test_dispersion_around_zero_is_judged_by_the_size_of_the_returns(see: Callable[..., Evidence]) -> None:
    around = [-10.0, 10.0] * 5
    # Spread 10.54, usual size 10.
    assert not verdict_of("dispersion", see(evaluation(0.0, 10.0, returns=around))).passed
    assert verdict_of("dispersion", see(evaluation(0.0, 10.0, returns=around), max_dispersion=1.1)).passed
    assert verdict_of("dispersion", see(evaluation(0.0, 0.0))).passed
    assert not verdict_of("dispersion", see(evaluation(0.0, 1.0))).passed


def curve(shape: Callable[[float], float], points: int = 200, noise: float = 0.0) -> list[tuple[int, float]]:
    return [(step, shape(step / points) + noise * SEEDED.gauss(0, 1)) for step in range(points)]


@pytest.mark.parametrize(
    ("points", "passed"),
    [
        (curve(lambda x: 200 * min(x * 3, 1), noise=5), True),  # learnt, and stays there
        (curve(lambda x: 200 * x, noise=5), False),  # still learning
        (curve(lambda x: 200 - 150 * x, noise=5), False),  # unlearning
        (curve(lambda x: -1500 + 1300 * min(x * 3, 1), noise=50), True),  # negative rewards
        (curve(lambda x: 9.0), True),  # nothing ever changed
        (curve(lambda x: 1000 * min(x * 3, 1) + 10 * x), True),  # a rise that is certain, and next to nothing
        (curve(lambda x: 200 * min(x * 3, 1), points=19), False),
        ([(5, float(number)) for number in range(40)], False),
        ([(number, math.nan) for number in range(40)], False),
        ([], False),
    ],
)
def test_converged(see: Callable[..., Evidence], points: list[tuple[int, float]], passed: bool) -> None:
    verdict = verdict_of("converged", see(evaluation(), curve=points))
    assert verdict.passed is passed, verdict


def test_converged_says_how_many_points_it_needs(see: Callable[..., Evidence]) -> None:
    assert "19 points, 20 are needed" in verdict_of("converged", see(curve=[(n, 1.0) for n in range(19)])).reason


def test_converged_passes_nearly_every_flat_curve(see: Callable[..., Evidence]) -> None:
    evidence = see()
    flat = [dataclasses.replace(evidence, curve=tuple(curve(lambda x: 50.0, noise=5))) for _ in range(200)]
    # Of an interval of 90 % one in ten misses 0, and some of those rise by too little to count.
    assert sum(verdict_of("converged", each).passed for each in flat) >= 170


def test_holdout(see: Callable[..., Evidence]) -> None:
    dates = {"window_start": "2020-01-01", "window_end": "2020-12-31"}
    assert verdict_of("holdout", see(evaluation(**dates, in_sample=False))).passed
    assert not verdict_of("holdout", see(evaluation(**dates, in_sample=True))).passed
    assert not verdict_of("holdout", see(evaluation(**dates, in_sample=None))).passed
    without = verdict_of("holdout", see(evaluation()))
    assert without.passed
    assert "no dates" in without.reason


def test_an_added_evaluation_without_dates_is_held_out_only_where_there_are_none(see: Callable[..., Evidence]) -> None:
    assert verdict_of("holdout", see(evaluation(source="added", metrics={"dated": False}))).passed
    for metrics in ({}, {"dated": True}):
        verdict = verdict_of("holdout", see(evaluation(source="added", metrics=metrics)))
        assert not verdict.passed
        assert "not given" in verdict.reason


HUGE = 1e308
NOT_FINITE = {
    "inf": [math.inf] * 10,
    "both": [math.inf, -math.inf] * 5,
    "nan": [math.nan] + [1.0] * 9,
    "sum": [HUGE] * 10,
    "squares": [HUGE / 10, -HUGE / 10] * 5,
}


@pytest.mark.parametrize("name", ["default", "strict", "trading", "seed-legacy"])
@pytest.mark.parametrize("values", NOT_FINITE.values(), ids=NOT_FINITE)
@pytest.mark.parametrize("mean", [0.0, math.nan, HUGE])
def test_returns_that_are_not_finite_are_judged_and_fail(
    alone: ModelRegistry, tmp_path: Path, values: list[float], mean: float, name: str
) -> None:
    row = alone.register(new_model(tmp_path / "model"))
    stored = alone.add_evaluation(row.id, evaluation(mean, 1.0, returns=values))
    assert stored.lower_bound is None
    given = alone.validate(row.id, curve=[(step, values[step % 10]) for step in range(50)], profile=name)
    verdicts = {check.gate: check for check in given.checks}
    if name != "seed-legacy":
        assert not verdicts["finite"].passed
        assert "not finite" in verdicts["finite"].reason


@pytest.mark.parametrize(("mean", "std"), [(-HUGE, HUGE), (0.0, 1.79e308), (math.inf, 1.0), (0.0, math.nan)])
def test_figures_that_are_too_large_are_not_known(
    alone: ModelRegistry, tmp_path: Path, mean: float, std: float
) -> None:
    row = alone.register(new_model(tmp_path / "model"))
    assert alone.add_evaluation(row.id, evaluation(mean, std, episodes=2)).lower_bound is None
    assert not next(check for check in alone.validate(row.id).checks if check.gate == "finite").passed


@pytest.mark.parametrize(
    "points",
    [
        [(step, math.inf if step % 2 else -math.inf) for step in range(1000)],
        [(step, HUGE) for step in range(1000)],
        [(step, HUGE if step < 500 else -HUGE) for step in range(1000)],
        [(step, HUGE * (-1) ** (step // 25)) for step in range(40)],
        [(step, HUGE * step / 40) for step in range(40)],
        [(math.inf, 1.0)] * 40,
        [(step * 1e307, 1.0) for step in range(40)],
    ],
)
def test_a_curve_that_is_not_finite_is_judged_and_fails(
    alone: ModelRegistry, tmp_path: Path, points: list[tuple[float, float]]
) -> None:
    row = add(alone, tmp_path / "model")
    given = alone.validate(row.id, curve=points, profile="strict")
    (verdict,) = (check for check in given.checks if check.gate == "converged")
    assert not verdict.passed
    assert "finite" in verdict.reason or "too large" in verdict.reason


def test_checksum(alone: ModelRegistry, tmp_path: Path) -> None:
    row = add(alone, tmp_path / "model")
    assert alone.get(row.id).validated
    (row.path / "state.safetensors").write_text("tampered")
    verdict = alone.validate(row.id).checks[-1]
    assert (verdict.gate, verdict.passed) == ("checksum", False)
    assert "state.safetensors" in verdict.reason
    assert not alone.get(row.id).validated


def test_checksum_fails_where_none_was_registered(alone: ModelRegistry, tmp_path: Path) -> None:
    file = tmp_path / "model.zip"
    file.write_text("x")
    row = alone.register(NewModel(file, "ppo", CARTPOLE, 1, None, {}))
    assert "no checksum" in alone.validate(row.id).checks[-1].reason


def test_a_missing_file_fails_and_is_no_crash(alone: ModelRegistry, tmp_path: Path) -> None:
    file = tmp_path / "model.zip"
    file.write_text("x")
    row = alone.register(NewModel(file, "ppo", CARTPOLE, 1, "0" * 64, {}))
    file.unlink()
    assert "not there" in alone.validate(row.id).checks[-1].reason


def rows_of(evidence: Evidence, **columns: Any) -> Evidence:
    return dataclasses.replace(evidence, model=dataclasses.replace(evidence.model, **columns))


@pytest.mark.parametrize(
    ("gate_name", "columns", "limits", "passed"),
    [
        ("legacy_reward", {"mean_reward": 200.0}, {"min_reward": 195.0}, True),
        ("legacy_reward", {"mean_reward": 190.0}, {"min_reward": 195.0}, False),
        ("legacy_reward", {"mean_reward": -1.0}, {"min_reward": 0.0}, True),  # 0 counts as none, as it did
        ("legacy_reward", {"mean_reward": None}, {"min_reward": 195.0}, False),
        ("legacy_steps", {"total_timesteps": 200, "mean_episode_length": 20.0}, {}, True),
        ("legacy_steps", {"total_timesteps": 199, "mean_episode_length": 20.0}, {}, False),
        ("legacy_steps", {"total_timesteps": None, "mean_episode_length": 20.0}, {}, False),
        ("legacy_stability", {"mean_reward": 100.0, "std_reward": 49.9}, {}, True),
        ("legacy_stability", {"mean_reward": 100.0, "std_reward": 50.0}, {}, False),
        ("legacy_stability", {"mean_reward": -100.0, "std_reward": 0.0}, {}, False),
        ("legacy_stability", {"mean_reward": 100.0, "std_reward": None}, {}, False),
    ],
)
def test_the_original_formula(
    see: Callable[..., Evidence], gate_name: str, columns: dict[str, Any], limits: dict[str, Any], passed: bool
) -> None:
    assert verdict_of(gate_name, rows_of(see(**limits), **columns)).passed is passed


@pytest.mark.parametrize("mean", [250.0, 150.0, -150.0])
@pytest.mark.parametrize("std", [1.0, 100.0])
@pytest.mark.parametrize("least", [None, 0.0, 200.0])
@pytest.mark.parametrize("steps", [100, 1000])
def test_seed_legacy_is_the_original_formula(
    see: Callable[..., Evidence], mean: float, std: float, least: float | None, steps: int
) -> None:
    row = see(evaluation(mean, std), min_reward=least, steps=steps)
    checks = [
        mean >= least if least else True,
        steps >= 10 * 20.0,
        std < mean * 0.5,
    ]
    assert all(verdict.passed for verdict in gates.judge("seed-legacy", row)) is all(checks)


def test_profiles_name_their_gates() -> None:
    default = ("min_episodes", "finite", "reward_lower_bound", "dispersion", "checksum")
    bounds = ("measure_lower_bound", "drawdown", "not_worse_than_cash", "not_worse_than_equal_weight", "profit_share")
    trading = ("min_bars", "finite", "reward_lower_bound", *bounds, "checksum")
    legacy = ("legacy_reward", "legacy_steps", "legacy_stability")
    assert (
        gates.profiles().items()
        >= {
            "default": Profile(default, trading),
            "strict": Profile((*default, "converged", "holdout"), (*trading, "converged", "holdout")),
            "trading": Profile((*default, "holdout"), (*trading, "holdout")),
            "seed-legacy": Profile(legacy, legacy),
        }.items()
    )


@pytest.mark.parametrize("name", ["default", "strict", "trading", "seed-legacy"])
@pytest.mark.parametrize("trades", [True, False])
def test_every_profile_refuses_what_never_learnt_and_what_never_looks(name: str, trades: bool) -> None:
    assert list(gates.gates_of(name, trades=trades))[:2] == ["trained", "not_constant"]


def test_the_setting_chooses_profile_and_limits(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path / "home",
        gates=GatesSettings(profile="strict", max_dispersion=0.2),
        registry=RegistrySettings(min_reward=0.0, min_episodes=3),
    )
    with ModelRegistry.open(settings) as registry:
        row = add(registry, tmp_path / "model", 10.0, std=1.0)
        (validation,) = registry.validations(row.id)
        assert validation.profile == "strict"
        own = {"min_reward": 0.0, "min_episodes": 3, "max_dispersion": 0.2, "confidence": 0.95}
        assert validation.limits == {**dataclasses.asdict(LIMITS), **own}
        assert [check.gate for check in validation.checks if not check.passed] == ["converged"]
        again = registry.validate(row.id, curve=curve(lambda x: 9.0))
        assert again.passed
        assert registry.validate(row.id, profile="default").profile == "default"
        assert registry.get(row.id).validated


@pytest.mark.parametrize(
    ("scope", "mean", "std", "least", "passed"),
    [
        (PENDULUM, -150.0, 80.0, -200.0, True),
        (PENDULUM, -150.0, 80.0, -160.0, False),
        (Scope("stock_trading"), -0.05, 0.01, -0.10, True),
        (Scope("stock_trading"), -0.05, 0.01, 0.0, False),
    ],
)
def test_negative_rewards_pass_and_fail_on_their_merits(
    tmp_path: Path, scope: Scope, mean: float, std: float, least: float, passed: bool
) -> None:
    settings = Settings(home=tmp_path / "home", registry=RegistrySettings(min_reward=least))
    with ModelRegistry.open(settings) as registry:
        assert add(registry, tmp_path / "model", mean, std=std, scope=scope).validated is passed
        row = registry.list()[0]
        assert not registry.validate(row.id, profile="seed-legacy").passed


def test_what_was_said_and_seen_is_kept(registry: ModelRegistry, tmp_path: Path) -> None:
    row = add(registry, tmp_path / "model", validate=False)
    given = registry.validate(row.id, curve=[(step, float(step)) for step in range(1000)], profile="strict")
    assert registry.validations(row.id) == [given]
    assert not given.passed
    assert given.evidence["newest"]["mean_reward"] == 100.0
    assert given.evidence["evaluations"] == [registry.evaluations(row.id)[0].id]
    assert given.evidence["sha256"] == row.sha256
    # Neighbours are averaged until at most 400 points are left.
    assert len(given.evidence["curve"]) == 334
    assert given.evidence["curve"][0] == [1.0, 1.0]


def test_validated_is_the_newest_validation(registry: ModelRegistry, tmp_path: Path) -> None:
    row = add(registry, tmp_path / "model")
    assert row.validated
    registry.add_evaluation(row.id, evaluation(episodes=1))
    assert not registry.validate(row.id).passed
    assert not registry.get(row.id).validated
    assert registry.best() is None
    registry.add_evaluation(row.id, evaluation())
    assert registry.validate(row.id).passed
    assert registry.best() == registry.get(row.id)
    assert [item.passed for item in registry.validations(row.id)] == [True, False, True]


@pytest.mark.usefixtures("own_gates")
def test_users_register_their_own_gate(alone: ModelRegistry, tmp_path: Path) -> None:
    @gate("short_episodes")
    def short_episodes(evidence: Evidence) -> Verdict:
        newest = evidence.newest
        passed = newest is not None and (newest.mean_episode_length or 0) < 15
        return Verdict("short_episodes", passed, "episodes should be short", 20.0, 15.0)

    profile("mine", "finite", "short_episodes")
    row = add(alone, tmp_path / "model", validate=False)
    given = alone.validate(row.id, profile="mine")
    found = [(check.gate, check.passed) for check in given.checks]
    assert found == [("trained", True), ("not_constant", True), ("finite", True), ("short_episodes", False)]
    assert alone.validations(row.id) == [given]


@pytest.mark.usefixtures("own_gates")
def test_gates_that_an_evaluation_overtakes_judge_again(registry: ModelRegistry, tmp_path: Path) -> None:
    row = add(registry, tmp_path / "model", validate=False)
    seen: list[int] = []

    @gate("slow")
    def slow(evidence: Evidence) -> Verdict:
        if not seen:
            registry.add_evaluation(row.id, evaluation(1.0, 0.1))
        seen.append(len(evidence.evaluations))
        return Verdict("slow", len(evidence.evaluations) == 2, "two are needed")

    profile("overtaken", "slow")
    given = registry.validate(row.id, profile="overtaken")
    assert (seen, given.passed, len(given.evidence["evaluations"])) == ([1, 2], True, 2)
    assert registry.validations(row.id) == [given]


@pytest.mark.usefixtures("own_gates")
def test_wrong_gates_and_profiles_are_refused(alone: ModelRegistry, tmp_path: Path) -> None:
    row = add(alone, tmp_path / "model", validate=False)
    with pytest.raises(ModelError, match="Did you mean 'strict'"):
        alone.validate(row.id, profile="strickt")
    with pytest.raises(ModelError, match="'strict'"):
        alone.check_profile("strickt")
    profile("mistyped", "finit")
    with pytest.raises(ModelError, match="Did you mean 'finite'"):
        alone.validate(row.id, profile="mistyped")
    with pytest.raises(ModelError, match="names no gate"):
        profile("empty")
    with pytest.raises(ModelError, match="there already"):
        profile("default", "finite")
    same = gates.profiles()["default"]
    profile("default", *same.gates, trading=same.trading)  # the same again
    with pytest.raises(ModelError, match="there already"):
        profile("default", *same.gates)
    with pytest.raises(ModelError, match="names no gate"):
        profile("half", "finite", trading=())
    profile("mistyped for trading", "finite", trading=("drawdow",))
    with pytest.raises(ModelError, match="Did you mean 'drawdown'"):
        alone.validate(row.id, profile="mistyped for trading")
    with pytest.raises(ModelError, match="both claim it"):
        gate("finite")(lambda evidence: Verdict("finite", True, "always"))

    @gate("broken")
    def broken(evidence: Evidence) -> Verdict:
        raise KeyError("oops")

    @gate("unread")
    def unread(evidence: Evidence) -> Verdict:
        raise DataError("the curve of a model", "it cannot be read", "Put the file back.")

    profile("with unread", "unread")
    with pytest.raises(DataError, match="it cannot be read"):  # it says itself what is wrong
        alone.validate(row.id, profile="with unread")
    gate("mute")(lambda evidence: None)  # type: ignore[arg-type, return-value]
    gate("misnamed")(lambda evidence: Verdict("finite", True, "of another gate"))
    for name, why in (("broken", "KeyError"), ("mute", "not a verdict"), ("misnamed", "of its own name")):
        profile(f"with {name}", name)
        with pytest.raises(ModelError, match=why):
            alone.validate(row.id, profile=f"with {name}")
    assert alone.validations(row.id) == []
    assert not alone.get(row.id).validated
