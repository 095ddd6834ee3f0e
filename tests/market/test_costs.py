"""What trading costs, by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaswarm_rl.core.errors import BookError, DataError
from alphaswarm_rl.market.costs import CostModel, affordable, charge, fee
from alphaswarm_rl.market.margin import CASH_ACCOUNT, Margin
from tests.market.accounts import costs


def rates(**kwargs):
    free = {"commission_rate": 0.0, "half_spread_bps": 0.0, "borrow_rate": 0.0}
    return CostModel(**{**free, **kwargs}).rates(252)


def test_the_default_is_not_free():
    default = CostModel().rates(252)
    paid = fee(default, 100, 50.0, 0.0)
    assert paid.commission == pytest.approx(5000 * 0.0005)
    assert paid.spread == pytest.approx(5000 * 0.0002)
    assert paid.impact == 0
    assert default.borrow == 0.02 / 252


def test_commission_is_rate_and_shares_but_at_least_the_minimum():
    model = rates(commission_rate=0.001, commission_per_share=0.01, commission_minimum=7.0)
    assert fee(model, 100, 50.0, 0.0).commission == 7.0
    assert fee(model, 200, 50.0, 0.0).commission == pytest.approx(10 + 2)
    assert fee(model, 0, 50.0, 0.0).total == 0


def test_sells_may_have_a_rate_of_their_own():
    model = rates(commission_rate=0.001, sell_commission_rate=0.002)
    assert fee(model, 10, 10.0, 0.0).total == pytest.approx(0.1)
    assert fee(model, -10, 10.0, 0.0).total == pytest.approx(0.2)


def test_impact_goes_with_the_square_root_of_the_share_of_volume():
    model = rates(impact=0.1)
    assert fee(model, 100, 20.0, 10_000.0).impact == pytest.approx(100 * 20 * 0.1 * math.sqrt(0.01))
    assert fee(model, 400, 20.0, 10_000.0).impact == pytest.approx(8 * fee(model, 100, 20.0, 10_000.0).impact)


def test_impact_without_volume_names_the_column():
    with pytest.raises(DataError, match=r"column 'volume'.*impact to 0"):
        CostModel(impact=0.1).check_volume(None)
    CostModel().check_volume(None)


@pytest.mark.parametrize("field", ["commission_rate", "borrow_rate", "impact", "half_spread_bps"])
@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf])
def test_a_cost_is_a_number_from_zero_up(field, value):
    with pytest.raises(BookError, match=field):
        CostModel(**{field: value})


def test_a_rate_in_basis_points_by_mistake_is_refused():
    with pytest.raises(BookError, match="5 basis points"):
        CostModel(commission_rate=5)


def test_bars_per_year_are_positive():
    with pytest.raises(BookError, match="periods_per_year"):
        CostModel().rates(0)


def test_a_cash_account_cannot_owe_funding():
    with pytest.raises(BookError, match="funding_rate"):
        CASH_ACCOUNT.check_costs(CostModel(funding_rate=1e-4))
    Margin().check_costs(CostModel(funding_rate=-1e-4))


@pytest.mark.parametrize(("initial", "maintenance"), [(0.0, 0.0), (0.5, 0.6), (1.5, 0.2), (math.nan, 0.2)])
def test_margins_that_make_no_sense_are_refused(initial, maintenance):
    with pytest.raises(BookError, match="maintenance"):
        Margin(initial, maintenance)


def test_affordable_by_hand():
    assert affordable(rates(), 1000.0, 10.0, 0.0, whole=True) == 100
    assert affordable(rates(), 0.3, 0.1, 0.0, whole=True) == 2  # three times 0.1 is more than 0.3 in floats
    assert affordable(rates(commission_rate=0.001), 1000.0, 10.0, 0.0, whole=True) == 99
    assert affordable(rates(commission_minimum=5.0), 1000.0, 10.0, 0.0, whole=True) == 99
    assert affordable(rates(commission_minimum=5.0), 5.0, 10.0, 0.0, whole=True) == 0
    # 100 units take 1000 and an impact of 1000 * 0.1 * sqrt(100 / 10000) = 10.
    assert affordable(rates(impact=0.1), 1010.0, 10.0, 10_000.0, whole=True) == 100
    assert affordable(rates(impact=0.1), 1009.9, 10.0, 10_000.0, whole=True) == 99


@given(
    model=costs(funding=False),
    cash=st.floats(0, 1e7),
    price=st.floats(0.01, 1e4),
    volume=st.floats(1, 1e9),
)
def test_affordable_is_the_largest_number_that_can_be_paid(model, cash, price, volume):
    numbers = model.rates(252)
    whole = affordable(numbers, cash, price, volume, whole=True)
    assert whole == math.floor(whole) >= 0
    assert whole == 0 or charge(numbers, whole, price, volume) <= cash
    assert charge(numbers, whole + 1, price, volume) > cash
    part = affordable(numbers, cash, price, volume, whole=False)
    assert part == 0 or charge(numbers, part, price, volume) <= cash
    assert part == 0 or charge(numbers, part, price, volume) >= cash * (1 - 1e-11)
