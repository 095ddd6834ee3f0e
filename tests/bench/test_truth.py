"""How the truth suite measures: pairing, intervals, the detector of constant policies."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from alphaswarm_rl.bench import truth_page
from alphaswarm_rl.bench.truth import SeedResult, judge, run, spec_of, summary
from alphaswarm_rl.bench.truth_play import CONSTANT_BELOW, play, spread_of
from alphaswarm_rl.bench.truth_tasks import MOST_STEPS, TASKS, tasks_named
from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec

BOX = Box(-1.0, 1.0, (2,), np.float32)

every_task = pytest.mark.parametrize("name", TASKS)


def result(seed, fraction, **more):
    figures = {"cost": 0.0, "spread": 0.5, "j": 0.0, "seconds": 1.0, "steps": 10, "played_opt": 0.0, "played_base": 0.0}
    return SeedResult(seed=seed, run_id="r", spec_hash="h", fraction=fraction, **{**figures, **more})


@every_task
def test_the_optimum_is_judged_to_be_the_whole_of_itself(name):
    task = TASKS[name]
    solution = task.solution()
    judged = judge(task, solution, solution.act, seed=1, episodes=32)
    assert (judged.j, judged.fraction) == (solution.j_opt, 1.0)


@every_task
def test_no_skill_is_judged_to_be_near_0(name):
    task = TASKS[name]
    solution = task.solution()
    rng = np.random.default_rng(0)

    def act(observations):
        if not solution.optimum_is_constant:
            return np.tile(solution.constant, (len(observations), *(1,) * solution.constant.ndim))
        if solution.constant.ndim:
            return rng.uniform(-1, 1, (len(observations), len(solution.constant)))
        return rng.integers(0, 3, len(observations))

    fraction = judge(task, solution, act, seed=1, episodes=512).fraction
    assert abs(fraction) < 0.05


def test_chance_that_both_meet_cancels_out():
    """Half of the optimum's weights earn three quarters of its growth beyond cash."""
    task = TASKS["merton"]
    solution = task.solution()
    true = 1.0 - 0.25 * (solution.j_opt - 0.02) / (solution.j_opt - solution.j_base)
    found = [judge(task, solution, lambda o: 0.5 * solution.act(o), seed=s, episodes=64).fraction for s in range(5)]
    alone = [judge(task, solution, lambda o: 0.5 * solution.act(o), seed=s, episodes=64).played_opt for s in range(5)]
    np.testing.assert_allclose(found, true, atol=0.06)
    assert np.std(found) < 0.6 * np.std(alone) / (solution.j_opt - solution.j_base)


def test_the_same_seed_plays_the_same_episodes():
    component = TASKS["regime"].component()
    act = TASKS["regime"].solution().act
    first, again = (play(component, act, seed=4, episodes=16) for _ in range(2))
    np.testing.assert_array_equal(first.returns, again.returns)
    assert not np.array_equal(first.returns, play(component, act, seed=5, episodes=16).returns)


def test_the_interval_is_students():
    row = summary(
        TASKS["oracle"], TASKS["oracle"].solution(), "x", [result(s, f) for s, f in enumerate((0.9, 1.0, 0.95))]
    )
    # Standard deviation 0.05; the 95 % quantile of t with 2 degrees of freedom is 2.91999.
    margin = 2.919986 * 0.05 / 3**0.5
    assert row.fraction == pytest.approx(0.95)
    assert (row.low, row.high) == (pytest.approx(0.95 - margin), pytest.approx(0.95 + margin))
    assert row.reached is False
    assert summary(TASKS["oracle"], TASKS["oracle"].solution(), "x", [result(0, 0.96), result(1, 0.96)]).reached is True


def test_one_seed_has_no_interval_and_reaches_nothing():
    row = summary(TASKS["oracle"], TASKS["oracle"].solution(), "x", [result(1, 0.99)])
    assert (row.low, row.high, row.reached) == (None, None, None)
    assert "-" in truth_page.cells(row)


def test_costs_on_noise_are_a_share_of_the_random_policys():
    solution = TASKS["noise"].solution()
    cost = 0.03 * -solution.j_base
    row = summary(TASKS["noise"], solution, "x", [result(s, 0.97, cost=cost) for s in (1, 2)])
    assert row.cost_ratio == pytest.approx(0.03)
    assert any("3.00%" in line for line in truth_page.remarks([row]))


def test_the_spread_tells_constant_policies_from_others():
    rng = np.random.default_rng(0)
    assert spread_of(np.full(100, 2), Discrete(3)) == 0.0
    assert spread_of(np.repeat([0, 1], [75, 25]), Discrete(3)) == pytest.approx(0.25)
    assert spread_of(np.full((100, 2), 0.3), BOX) == pytest.approx(0.0, abs=1e-12)
    moving = np.stack([np.zeros(1000), rng.normal(0, 0.1, 1000)], axis=1)
    assert spread_of(moving, BOX) == pytest.approx(0.1, rel=0.1)
    assert spread_of(100 + moving, BOX) == 0.0, "beyond the bounds everything is the bound"


@every_task
def test_optima_are_constant_exactly_where_it_is_said(name):
    task = TASKS[name]
    solution = task.solution()
    spread = play(task.component(), solution.act, seed=1, episodes=64).spread
    assert (spread < CONSTANT_BELOW) == solution.optimum_is_constant


def test_a_constant_policy_is_warned_of_unless_the_optimum_is_one():
    lazy = [result(1, 0.99, spread=0.001), result(2, 0.99, spread=0.4)]
    warned = summary(TASKS["oracle"], TASKS["oracle"].solution(), "x", lazy).warnings
    assert len(warned) == 1
    assert "seed 1" in warned[0]
    assert summary(TASKS["merton"], TASKS["merton"].solution(), "x", lazy).warnings == ()


def test_one_that_varies_and_earns_no_more_than_a_constant_is_warned_of_too():
    idle = [result(seed, fraction) for seed, fraction in enumerate((-0.2, 0.1, 0.0))]
    (warned,) = summary(TASKS["oracle"], TASKS["oracle"].solution(), "x", idle).warnings
    assert "by what it earns" in warned


def test_an_agent_that_cannot_act_there_is_told_before_anything_is_trained(tmp_path):
    lines = []
    assert run(tasks_named(["merton"]), ["ddqn_inhouse"], Settings(home=tmp_path), seeds=1, say=lines.append) == []
    assert len(lines) == 1
    assert "merton, ddqn_inhouse: not trained" in lines[0]
    assert not list(tmp_path.iterdir())


@every_task
def test_its_spec_is_valid_and_within_the_steps(name):
    task = TASKS[name]
    assert task.steps <= MOST_STEPS
    spec = RLExperimentSpec.from_data(spec_of(task, "ppo", task.steps))
    assert spec.training.total_timesteps == task.steps


def test_an_unknown_task_is_refused_with_the_nearest():
    with pytest.raises(OptionError, match="oracle"):
        tasks_named(("orcle",))
    assert [task.name for task in tasks_named(("ou", "noise"))] == ["ou", "noise"]
    assert tasks_named(()) == list(TASKS.values())
