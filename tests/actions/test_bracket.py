"""Stops and take-profits by hand. All of it is also played on the plain book; see `worked`."""

import numpy as np
import pytest
from pydantic import ValidationError

from alphaswarm_rl.actions.bracket import Bracket
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.envs.making import make_env
from tests.actions.brackets import (
    CLOSE,
    HOLD,
    LONG,
    SHORT,
    in_environment,
    on_book,
    worked,
)
from tests.actions.views import ACCOUNT, FREE, panel_of

#: Open, high, low, close of a bar in which nothing happens.
QUIET = (100, 100, 100, 100)
ONE_PERCENT = {**FREE, "commission_rate": 0.01}


def near(*rows):
    return [pytest.approx(row, rel=1e-9, abs=1e-6) for row in rows]


class TestLong:
    """Ten units at 100: the stop is at 95, the take-profit at 110."""

    def test_a_stop_that_is_touched_fills_at_its_level(self):
        bars = [QUIET, QUIET, (99, 101, 95, 98), QUIET]
        assert worked(bars, [LONG, HOLD, HOLD]) == near((0, 1000), (950, 950), (950, 950))

    def test_a_stop_that_is_not_reached_stays(self):
        bars = [QUIET, QUIET, (99, 109.9, 95.1, 98), QUIET]
        assert worked(bars, [LONG, HOLD, HOLD]) == near((0, 1000), (0, 980), (0, 1000))

    def test_a_take_profit_that_is_touched_fills_at_its_level(self):
        bars = [QUIET, QUIET, (104, 110, 103, 105), QUIET]
        assert worked(bars, [LONG, HOLD, HOLD]) == near((0, 1000), (1100, 1100), (1100, 1100))

    def test_where_both_are_touched_the_stop_counts(self):
        bars = [QUIET, QUIET, (100, 112, 94, 111), QUIET]
        assert worked(bars, [LONG, HOLD, HOLD]) == near((0, 1000), (950, 950), (950, 950))

    def test_a_stop_that_is_gapped_over_fills_at_the_open(self):
        bars = [QUIET, QUIET, (90, 97, 88, 96), QUIET]
        assert worked(bars, [LONG, HOLD, HOLD]) == near((0, 1000), (900, 900), (900, 900))

    def test_a_take_profit_that_is_gapped_over_fills_at_its_level(self):
        bars = [QUIET, QUIET, (115, 120, 113, 118), QUIET]
        assert worked(bars, [LONG, HOLD, HOLD]) == near((0, 1000), (1100, 1100), (1100, 1100))


class TestShort:
    """Half of 1000 at 100: five units short and 1500 in cash; the stop is at 105, the take-profit at 90."""

    def test_a_stop_that_is_touched_fills_at_its_level(self):
        bars = [QUIET, QUIET, (101, 105, 99, 100), QUIET]
        accounts = worked(bars, [SHORT, HOLD, HOLD], short=True, fraction=0.5)
        assert accounts == near((1500, 1000), (975, 975), (975, 975))

    def test_a_stop_that_is_not_reached_stays(self):
        bars = [QUIET, QUIET, (101, 104.9, 90.1, 98), QUIET]
        accounts = worked(bars, [SHORT, HOLD, HOLD], short=True, fraction=0.5)
        assert accounts == near((1500, 1000), (1500, 1010), (1500, 1000))

    def test_a_take_profit_that_is_touched_fills_at_its_level(self):
        bars = [QUIET, QUIET, (97, 99, 90, 95), QUIET]
        accounts = worked(bars, [SHORT, HOLD, HOLD], short=True, fraction=0.5)
        assert accounts == near((1500, 1000), (1050, 1050), (1050, 1050))

    def test_where_both_are_touched_the_stop_counts(self):
        bars = [QUIET, QUIET, (100, 106, 89, 90), QUIET]
        accounts = worked(bars, [SHORT, HOLD, HOLD], short=True, fraction=0.5)
        assert accounts == near((1500, 1000), (975, 975), (975, 975))

    def test_a_stop_that_is_gapped_over_fills_at_the_open(self):
        bars = [QUIET, QUIET, (112, 113, 104, 105), QUIET]
        accounts = worked(bars, [SHORT, HOLD, HOLD], short=True, fraction=0.5)
        assert accounts == near((1500, 1000), (940, 940), (940, 940))

    def test_a_take_profit_that_is_gapped_over_fills_at_its_level(self):
        bars = [QUIET, QUIET, (80, 85, 78, 84), QUIET]
        accounts = worked(bars, [SHORT, HOLD, HOLD], short=True, fraction=0.5)
        assert accounts == near((1500, 1000), (1050, 1050), (1050, 1050))


class TestTheBarOfTheEntry:
    """The bar after the decision falls to 90 and closes at 99."""

    BARS = (QUIET, (98, 100, 90, 99), (99, 99, 99, 99), (99, 99, 99, 99))

    def test_filled_at_its_open_the_rest_of_the_bar_counts(self):
        # 1000 / 98 units, stopped at 95 % of 98.
        assert worked(self.BARS, [LONG, HOLD]) == near((950, 950), (950, 950))

    def test_filled_at_its_close_none_of_it_counts(self):
        # 1000 / 99 units; the stop at 94.05 is not touched afterwards.
        assert worked(self.BARS, [LONG, HOLD], fill="next_close") == near((0, 1000), (0, 1000))

    def test_filled_at_the_close_before_all_of_it_counts(self):
        # Ten units at 100, stopped at 95.
        assert worked(self.BARS, [LONG, HOLD], fill="same_close") == near((950, 950), (950, 950))

    def test_filled_at_the_close_before_the_open_counts_too(self):
        bars = [QUIET, (93, 97, 92, 96), QUIET]
        assert worked(bars, [LONG], fill="same_close") == near((930, 930))

    def test_a_short_filled_at_the_open_can_take_its_profit_in_the_same_bar(self):
        bars = [QUIET, (100, 101, 88, 89), QUIET]
        assert worked(bars, [SHORT], short=True, fraction=0.5) == near((1050, 1050))

    def test_a_short_filled_at_the_close_is_looked_at_in_the_next_bar(self):
        bars = [QUIET, (100, 120, 80, 100), (100, 101, 90, 99), QUIET]
        accounts = worked(bars, [SHORT, HOLD], short=True, fraction=0.5, fill="next_close")
        assert accounts == near((1500, 1000), (1050, 1050))


class TestOrders:
    def test_close_closes_at_the_fill(self):
        bars = [QUIET, QUIET, (103, 104, 99, 101), QUIET]
        assert worked(bars, [LONG, CLOSE, HOLD]) == near((0, 1000), (1030, 1030), (1030, 1030))

    def test_close_without_a_position_changes_nothing(self):
        assert worked([QUIET] * 3, [CLOSE, CLOSE]) == near((1000, 1000), (1000, 1000))

    def test_a_second_entry_on_the_same_side_leaves_the_bracket_as_it_is(self):
        # The second entry at 108 would have its stop at 102.6; the first one's is at 95.
        bars = [QUIET, QUIET, (108, 109, 107, 108), (108, 108, 97, 98), (98, 98, 94, 97), QUIET]
        accounts = worked(bars, [LONG, LONG, LONG, HOLD])
        assert accounts == near((0, 1000), (0, 1080), (0, 980), (950, 950))

    def test_an_entry_on_the_other_side_turns_the_position_round_and_sets_new_levels(self):
        # Five units at 100; short with half of 1040 at 108; its stop is at 113.4.
        bars = [QUIET, QUIET, (108, 109, 107, 108), (108, 114, 107, 109), QUIET]
        accounts = worked(bars, [LONG, SHORT, HOLD], short=True, fraction=0.5)
        units = 520 / 108
        assert accounts == near((500, 1000), (1560, 1040), (1560 - units * 113.4,) * 2)

    def test_after_an_exit_a_new_entry_has_levels_of_its_own(self):
        bars = [QUIET, QUIET, (99, 99, 95, 96), (95, 95, 95, 95), (94, 94, 90.25, 91), QUIET]
        # Stopped at 95 with 950; ten units at 95, stopped at 90.25.
        accounts = worked(bars, [LONG, HOLD, LONG, HOLD])
        assert accounts == near((0, 1000), (950, 950), (0, 950), (902.5, 902.5))

    @pytest.mark.parametrize(("order", "cash"), [(CLOSE, 950), (HOLD, 950), (LONG, 950)])
    def test_an_order_for_the_close_comes_after_the_bracket_of_that_bar(self, order, cash):
        # Whatever was ordered for the close at 110, the stop at 95 was touched before it.
        bars = [QUIET, QUIET, (100, 110, 94, 110), (110, 110, 110, 110)]
        assert worked(bars, [LONG, order], fill="next_close") == near((0, 1000), (cash, cash))

    def test_an_entry_on_the_other_side_for_the_close_follows_the_bracket_of_that_bar(self):
        # Five units stopped at 95 leave 975; half of it goes short at the close of 110, with its stop at 115.5.
        bars = [QUIET, QUIET, (100, 110, 94, 110), (110, 120, 109, 112), QUIET]
        accounts = worked(bars, [LONG, SHORT, HOLD], short=True, fraction=0.5, fill="next_close")
        units = 487.5 / 110
        assert accounts == near((500, 1000), (1462.5, 975), (1462.5 - units * 115.5,) * 2)

    def test_an_entry_that_is_not_filled_sets_no_levels(self):
        # The first entry falls on a halt; the second one fills at 90, and its stop is at 85.5, not at 95.
        bars = [QUIET, QUIET, (90, 91, 89, 90), (90, 90, 86, 88), QUIET]
        halt = {"tradable": np.array([[True], [False], [True], [True], [True]])}
        accounts = worked(bars, [LONG, LONG, HOLD], columns=halt)
        assert accounts == near((1000, 1000), (0, 1000), (0, 1000 / 90 * 88))

    def test_nothing_closes_in_a_bar_that_does_not_trade(self):
        bars = [QUIET, QUIET, (99, 99, 90, 96), (97, 98, 96, 97), QUIET]
        halt = {"tradable": np.array([[True], [True], [False], [True], [True]])}
        accounts = worked(bars, [LONG, HOLD, HOLD], columns=halt)
        assert accounts == near((0, 1000), (0, 960), (0, 970))

    def test_a_split_moves_the_levels_along(self):
        # Two for one: 20 units, the stop at 47.5.
        bars = [QUIET, QUIET, (50, 51, 49, 50), (49, 49, 47, 48), (48, 48, 48, 48)]
        splits = {"splits": np.array([[1.0], [1.0], [2.0], [1.0], [1.0]])}
        accounts = worked(bars, [LONG, HOLD, HOLD], columns=splits)
        assert accounts == near((0, 1000), (0, 1000), (950, 950))

    def test_a_split_between_decision_and_fill_is_in_the_fill(self):
        bars = [QUIET, (50, 51, 49, 50), (49, 49, 47, 48), (48, 48, 48, 48)]
        splits = {"splits": np.array([[1.0], [2.0], [1.0], [1.0]])}
        assert worked(bars, [LONG, HOLD], columns=splits) == near((0, 1000), (950, 950))
        # Filled at 100 before the split: the stop is then at 47.5 as well.
        accounts = worked(bars, [LONG, HOLD], columns=splits, fill="same_close")
        assert accounts == near((0, 1000), (950, 950))


class TestCosts:
    def test_entry_and_exit_are_both_paid_for(self):
        bars = [QUIET, QUIET, (99, 101, 95, 98), QUIET]
        accounts = worked(bars, [LONG, HOLD], costs=ONE_PERCENT)
        value = 1000 / 1.01
        assert accounts == near((0, value), (value * 0.95 * 0.99,) * 2)

    @pytest.mark.parametrize("fill", ["next_open", "next_close"])
    def test_cost_and_turnover_of_the_exit_are_the_steps(self, fill):
        bars = [QUIET, QUIET, (99, 101, 95, 98), QUIET]
        settings = {"stop_losses": [0.05], "take_profits": [0.1]}
        seen = in_environment(bars, [LONG, HOLD], fill, short=False, kwargs=settings, costs=ONE_PERCENT, columns={})
        value = 1000 / 1.01
        # Sold for 95 % of the value it was bought for, over the value before.
        assert seen[1][2:] == [pytest.approx(value * 0.95 * 0.01), pytest.approx(0.95)]


class TestWhichEntry:
    def action(self, **kwargs):
        return Bracket(Bracket.Config(stop_losses=[0.02, 0.05], take_profits=[0.04, 0.1, 0.2], **kwargs))

    def test_there_is_one_entry_per_side_stop_and_take_profit(self):
        panel = panel_of(np.full((3, 1), 9.0))
        assert self.action().space(panel).n == 2 + 6
        assert self.action(short=True).space(panel).n == 2 + 12

    @pytest.mark.parametrize(
        ("entry", "side", "stop", "take"),
        [(2, 1, 0.02, 0.04), (4, 1, 0.02, 0.2), (5, 1, 0.05, 0.04), (8, -1, 0.02, 0.04), (13, -1, 0.05, 0.2)],
    )
    def test_entries_go_by_side_then_stop_then_take_profit(self, entry, side, stop, take):
        close = np.full((3, 1), 9.0)
        tables = self.action(short=True).prepare(panel_of(close, open=close, high=close, low=close))
        found = [tables[name][entry] for name in ("action_side", "action_stop", "action_take")]
        assert found == [side, stop, take]

    @pytest.mark.parametrize(
        ("kwargs", "word"),
        [
            ({"stop_losses": []}, "stop_losses"),
            ({"stop_losses": [1.0]}, "stop_losses"),
            ({"take_profits": [0.0]}, "take_profits"),
            ({"take_profits": [1.5], "short": True}, "below 1"),
        ],
    )
    def test_distances_without_a_meaning_are_refused(self, kwargs, word):
        with pytest.raises(ValidationError, match=word):
            Bracket.Config(**kwargs)

    def test_a_panel_of_closes_alone_is_an_error(self):
        with pytest.raises(DataError, match="column 'high'"):
            make_env(
                "stock_trading",
                panel=panel_of(np.full((4, 1), 9.0)),
                action={"class": "bracket"},
                observation=ACCOUNT,
                fill="next_close",
            )


def market(seed, bars=120):
    """Bars that move enough for every rule to come up, some of which do not trade."""
    rng = np.random.default_rng(seed)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.02, bars)))
    first = close * np.exp(rng.normal(0, 0.02, bars))
    high = np.maximum(first, close) * np.exp(rng.exponential(0.01, bars))
    low = np.minimum(first, close) * np.exp(-rng.exponential(0.01, bars))
    return np.stack([first, high, low, close], axis=1), rng.random(bars) > 0.1, rng


@pytest.mark.parametrize("fill", ["next_open", "next_close", "same_close"])
@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_random_stories_are_the_same_in_the_environment_and_on_the_book(fill, short, seed):
    bars, tradable, rng = market(seed)
    tradable[[0, -1]] = True
    kwargs = {"stop_losses": [0.02, 0.05], "take_profits": [0.03, 0.1], "fraction": 0.8}
    actions = rng.choice(10 if short else 6, len(bars) - 1)
    costs = {"commission_rate": 0.001, "half_spread_bps": 2, "commission_minimum": 0.5, "borrow_rate": 0}
    seen = in_environment(
        bars, actions, fill, short=short, kwargs=kwargs, costs=costs, columns={"tradable": tradable[:, None]}
    )
    plain = on_book(bars.tolist(), actions.tolist(), fill, short=short, kwargs=kwargs, costs=costs, tradable=tradable)
    np.testing.assert_allclose(np.array(seen)[:, :3], plain, rtol=1e-8, atol=1e-6)
    assert np.count_nonzero(np.array(plain)[:, 2]) > 20
