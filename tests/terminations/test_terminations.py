"""Why episodes end, and with which flag."""

import numpy as np
import pytest
from pydantic import ValidationError

from alphaswarm_rl.actions.target_position import TargetPosition  # noqa: F401  (registers)
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.envs.making import make_env
from alphaswarm_rl.terminations.horizon import Horizon
from alphaswarm_rl.terminations.margin_call import MarginCallTermination
from alphaswarm_rl.terminations.risk_breach import RiskBreachTermination
from alphaswarm_rl.terminations.turbulence import Turbulence
from tests.actions.views import ACCOUNT, FREE, panel_of, view_of


def ended(termination, view, state=None):
    out = np.ones(view.n, np.bool_)
    termination.step(view, state or {}, out)
    return out.tolist()


def built(cls, **kwargs):
    return cls(cls.Config(**kwargs))


def run(closes, targets, *, terminations, market_features=None, fill="next_close", **kwargs):
    """Steps through target weights; the last step's flags, infos and how many steps there were."""
    panel = panel_of(np.array(closes, float)[:, None])
    if market_features:
        panel = panel.with_market_features(market_features)
    env = make_env(
        "stock_trading",
        panel=panel,
        action={"class": "target_position", "kwargs": {"leverage": 4.0}},
        observation=ACCOUNT,
        terminations=terminations,
        fill=fill,
        initial_cash=1000.0,
        costs=FREE,
        episode_bars=None,
        **kwargs,
    )
    env.reset()
    count = 0
    for target in targets:
        count += 1
        _, _, terminated, truncated, infos = env.step(np.array([[target / 4.0]], np.float32))
        if terminated[0] or truncated[0]:
            break
    return bool(terminated[0]), bool(truncated[0]), infos, count


class TestHorizon:
    def test_it_truncates_after_so_many_decisions(self):
        terminated, truncated, infos, count = run(
            [10] * 9, [0] * 8, terminations=[{"class": "horizon", "kwargs": {"steps": 3}}]
        )
        assert (terminated, truncated, count) == (False, True, 3)
        assert infos["reason"][0] == "horizon"
        assert not infos["improper_stop"][0]

    def test_it_counts_from_each_episodes_own_start(self):
        view = view_of([0, 0, 0])
        view.bar[:], view.start[:] = [5, 5, 5], [1, 2, 3]
        assert ended(built(Horizon, steps=3), view) == [True, True, False]


class TestMarginCall:
    def test_it_ends_where_the_account_was_called_or_has_nothing(self):
        view = view_of([0, 0, 0, 0])
        view.called[:] = [True, False, False, False]
        view.value[:] = [500.0, 0.0, -3.0, 1.0]
        assert ended(built(MarginCallTermination), view) == [True, True, True, False]

    def test_the_floor_is_money(self):
        view = view_of([0, 0])
        view.value[:] = [100.0, 100.5]
        assert ended(built(MarginCallTermination, floor=100.0), view) == [True, False]

    def test_it_terminates_by_failure(self):
        # Twice the equity at 10; at 6 the equity of 200 is below a quarter of 1200.
        terminated, truncated, infos, count = run(
            [10, 10, 6, 6], [2, 2, 2], terminations=[], margin={"initial": 0.5}, fill="same_close"
        )
        assert (terminated, truncated, count) == (True, False, 2)
        assert infos["reason"][0] == "margin_call"
        assert infos["improper_stop"][0]


class TestRiskBreach:
    def test_gross_exposure_counts_shorts_as_longs(self):
        view = view_of([0, 0, 0], positions=[[50.0, 0.0], [50.0, -25.0], [51.0, -25.0]])
        view.value[:] = 1000.0
        # At 10 and 20: 500, 1000 and 1010.
        assert ended(built(RiskBreachTermination, max_gross=1.0), view) == [False, False, True]

    def test_one_position_above_its_limit_is_enough(self):
        view = view_of([0, 0, 0], positions=[[30.0, 15.0], [31.0, 0.0], [0.0, -16.0]])
        view.value[:] = 1000.0
        assert ended(built(RiskBreachTermination, max_position=0.3), view) == [False, True, True]

    def test_units_are_absolute(self):
        view = view_of([0, 0, 0], positions=[[5.0, -5.0], [0.0, -5.1], [5.1, 0.0]])
        assert ended(built(RiskBreachTermination, max_units=5.0), view) == [False, True, True]

    @pytest.mark.parametrize("limit", ["max_gross", "max_position"])
    def test_without_equity_any_position_is_too_much_and_none_is_not(self, limit):
        view = view_of([0, 0, 0], positions=[[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
        view.value[:] = [-1.0, -1.0, 0.0]
        assert ended(built(RiskBreachTermination, **{limit: 1.0}), view) == [True, False, False]

    def test_several_limits_hold_at_once(self):
        view = view_of([0, 0], positions=[[6.0, 0.0], [0.0, 4.0]])
        view.value[:] = 100.0
        assert ended(built(RiskBreachTermination, max_units=5.0, max_position=0.9), view) == [True, False]

    def test_no_limit_at_all_is_refused(self):
        with pytest.raises(ValidationError, match="at least one"):
            RiskBreachTermination.Config()

    def test_it_terminates_by_failure(self):
        breach = {"class": "risk_breach", "kwargs": {"max_gross": 0.5}}
        terminated, truncated, infos, count = run([10, 10, 11, 11], [0.5, 0.6, 0.6], terminations=[breach])
        assert (terminated, truncated, count) == (True, False, 2)
        assert infos["reason"][0] == "risk_breach"
        assert infos["improper_stop"][0]


class TestTurbulence:
    def test_it_truncates_when_the_threshold_is_reached(self):
        terminated, truncated, infos, count = run(
            [10] * 6,
            [0] * 5,
            terminations=[{"class": "turbulence", "kwargs": {"threshold": 150.0}}],
            market_features={"turbulence": np.array([300.0, 0.0, 149.9, 150.0, 0.0, 0.0])},
        )
        # The first bar is where the episode begins; nothing was decided there yet.
        assert (terminated, truncated, count) == (False, True, 3)
        assert infos["reason"][0] == "turbulence"
        assert not infos["improper_stop"][0]

    def test_a_panel_without_it_is_an_error_when_the_environment_is_built(self):
        with pytest.raises(DataError, match=r"market_features: \[turbulence\]"):
            run([10] * 4, [0] * 3, terminations=[{"class": "turbulence"}])


@pytest.mark.parametrize(
    ("cls", "improper"),
    [(Horizon, False), (MarginCallTermination, True), (RiskBreachTermination, True), (Turbulence, False)],
)
def test_failures_are_improper_and_the_rest_is_not(cls, improper):
    assert cls.improper is improper
