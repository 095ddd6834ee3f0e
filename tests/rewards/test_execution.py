"""Terms that are about trading itself."""

import numpy as np
import pytest

from alphaswarm_rl.rewards.implementation_shortfall import ImplementationShortfall
from alphaswarm_rl.rewards.penalties import SlippagePenalty, TurnoverPenalty
from alphaswarm_rl.rewards.transaction_cost import TransactionCost
from tests.rewards.episodes import Episode, made, panel_of

PRICES = [10.0, 10.5, 11.0, 10.8]
FEES = [0.5, 0.2, 0.1]


def test_turnover_penalty_is_proportional():
    assert Episode(made(TurnoverPenalty, weight=0.01)).step(turnover=0.4) == pytest.approx(-0.004)


def test_transaction_cost_is_relative_to_the_value_before():
    episode = Episode(TransactionCost())
    assert episode.step(cost=2.0, value=50.0) == pytest.approx(-0.02)
    assert episode.step(cost=2.0, value=0.0) == pytest.approx(-0.04)
    assert episode.step(cost=2.0) == 0.0


def test_slippage_is_in_basis_points_of_the_money_traded():
    episode = Episode(made(SlippagePenalty, bps=10.0, scale=1.0), panel_of([[10.0, 20.0], [11.0, 21.0]]))
    before = episode.view.value[0]
    assert episode.step(turnover=70.0 / before) == pytest.approx(-0.001 * 70.0)


def shortfall(side, fills, fees, quantity, prices=PRICES):
    """The rewards of an order that is worked at the next close, and its paper and real profit."""
    term = made(ImplementationShortfall, quantity=quantity)
    episode = Episode(term, panel_of(prices), fill="next_close", cash=1000.0)
    rewards, held, cash = [], 0.0, 0.0
    for bar, (units, fee) in enumerate(zip(fills, fees, strict=True), start=1):
        held += side * units
        cash -= side * units * prices[bar] + fee
        last = bar == len(fills)
        rewards.append(episode.step(traded=[[side * units]], positions=[[held]], cost=fee, truncated=last))
    return rewards, cash + held * prices[-1]


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_shortfall_of_a_worked_order(side):
    rewards, real = shortfall(side, [40.0, 30.0, 20.0], FEES, side * 100.0)
    by_fills = [40 * 0.5, 30 * 1.0, 20 * 0.8]
    missed = 10 * 0.8
    expected = [side * cost + fee for cost, fee in zip(by_fills, FEES, strict=True)]
    expected[-1] += side * missed
    assert rewards == pytest.approx([-cost / 1000.0 for cost in expected])
    # The shortfall is what the paper portfolio earns more than the real one.
    paper = side * 100.0 * (PRICES[-1] - PRICES[0])
    assert -sum(rewards) * 1000.0 == pytest.approx(paper - real)


def test_without_fees_buying_and_selling_are_opposite():
    fills, free = [40.0, 30.0, 20.0], [0.0, 0.0, 0.0]
    buying, _ = shortfall(1.0, fills, free, 100.0)
    selling, _ = shortfall(-1.0, fills, free, -100.0)
    assert buying == pytest.approx([-reward for reward in selling])


def test_without_an_order_the_notional_is_the_initial_cash_and_nothing_is_missed():
    rewards, _ = shortfall(1.0, [40.0, 0.0, -40.0], FEES, None)
    assert rewards == pytest.approx([-(20.0 + 0.5) / 1000, -0.2 / 1000, -(-32.0 + 0.1) / 1000])


def test_arrival_is_the_first_bar_of_the_episode():
    term = made(ImplementationShortfall, quantity=10.0)
    episode = Episode(term, panel_of([10.0, 20.0, 22.0, 23.0]), fill="next_close", start=1)
    assert episode.step(traded=[[10.0]], positions=[[10.0]]) == pytest.approx(-10 * 2.0 / 200.0)


def test_orders_in_several_assets_share_one_notional():
    panel = panel_of([[10.0, 30.0], [11.0, 27.0]])
    episode = Episode(made(ImplementationShortfall, quantity=5.0), panel, fill="next_close")
    reward = episode.step(traded=[[5.0, 5.0]], positions=[[5.0, 5.0]], truncated=True)
    assert reward == pytest.approx(-5 * (1.0 - 3.0) / 200.0)


def test_an_asset_without_an_arrival_price_counts_with_its_costs():
    panel = panel_of([[10.0, np.nan], [10.0, 30.0], [10.0, 40.0]])
    episode = Episode(made(ImplementationShortfall, quantity=5.0), panel, fill="next_close")
    assert episode.step(traded=[[0.0, 5.0]], positions=[[0.0, 5.0]], cost=1.0) == pytest.approx(-1.0 / 50.0)


@pytest.mark.parametrize("fill", ["next_close", "same_close"])
def test_a_split_on_the_way_changes_nothing(fill):
    whole = Episode(made(ImplementationShortfall, quantity=10.0), panel_of([10.0, 10.0, 12.0, 13.0]), fill=fill)
    split = Episode(
        made(ImplementationShortfall, quantity=10.0),
        panel_of([10.0, 10.0, 6.0, 6.5], splits=[1.0, 1.0, 2.0, 1.0]),
        fill=fill,
    )
    later = {"next_close": [8.0, 8.0], "same_close": [4.0, 8.0]}[fill]
    rewards = [
        whole.step(),
        whole.step(traded=[[4.0]], positions=[[4.0]]),
        whole.step(truncated=True),
    ]
    assert rewards == pytest.approx(
        [split.step(), split.step(traded=[[later[0]]], positions=[[later[1]]]), split.step(truncated=True)]
    )
    assert sum(rewards) < 0
