"""Target weights and orders as types."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from alphaswarm_rl.core.errors import OrderError
from alphaswarm_rl.core.orders import DomainOrder, TargetWeights, client_order_id

DAY = np.datetime64("2024-03-01")


def targets(weights=(0.5, 0.25), assets=("KO", "PEP"), at=DAY, **kwargs):
    return TargetWeights(assets, np.array(weights), at, **kwargs)


def test_targets_never_change_and_keep_no_array_of_the_callers():
    given = np.array([0.5, 0.25])
    found = TargetWeights(["KO", "PEP"], given, DAY)
    given[0] = 9.0
    assert found.as_dict() == {"KO": 0.5, "PEP": 0.25}
    assert (found.assets, found.weight("PEP")) == (("KO", "PEP"), 0.25)
    with pytest.raises(ValueError, match="read-only"):
        found.weights[0] = 1.0
    with pytest.raises(FrozenInstanceError):
        found.assets = ()


def test_the_hash_is_of_symbols_weights_and_time_alone():
    one = targets()
    assert one.sha256 == targets(at=np.datetime64("2024-03-01T00:00:00.000000000")).sha256
    assert targets((0.0, 0.5)).sha256 == targets((-0.0, 0.5)).sha256
    others = [targets((0.25, 0.5)), targets(assets=("KO", "PG")), targets(at=DAY + 1), targets((0.5, 0.25000000001))]
    assert len({one.sha256, *(other.sha256 for other in others)}) == 5
    assert one.sha256 == "18b2288398bfeb7d78e6864a861b4652638f2505ceff09117163519c59f05d04"


@pytest.mark.parametrize(
    ("kwargs", "why"),
    [
        ({"weights": (0.5, float("nan"))}, "the target weight of PEP: it is nan"),
        ({"weights": (float("inf"), 0.0)}, "the target weight of KO: it is inf"),
        ({"weights": (0.5, 0.6)}, "sum to 1.1: the account carries at most 1"),
        ({"weights": (0.5,)}, r"shape \(1,\)"),
        ({"assets": ("KO", "KO")}, "the symbol 'KO' of target weights: it is there twice"),
        ({"assets": ("KO", "")}, "it is no text"),
        ({"at": np.datetime64("NaT")}, "it is no time"),
    ],
)
def test_targets_that_mean_nothing_are_refused(kwargs, why):
    with pytest.raises(OrderError, match=why):
        targets(**kwargs)


def test_leverage_is_no_mistake_where_it_is_there_and_rounding_never_is():
    assert targets((1.0, -1.0), leverage=2.0).weight("PEP") == -1.0
    targets((0.7, 0.3 + 1e-12))


def test_a_symbol_that_is_not_there_is_named_with_the_nearest():
    with pytest.raises(OrderError, match=r"the symbol 'PEQ'.*Did you mean 'PEP'"):
        targets().weight("PEQ")


def test_an_orders_name_is_that_of_run_bar_symbol_and_target():
    name = client_order_id("run", DAY, "KO", 0.5)
    assert name == client_order_id("run", np.datetime64("2024-03-01T00:00"), "KO", 0.5)
    others = [("nur", DAY, "KO", 0.5), ("run", DAY + 1, "KO", 0.5), ("run", DAY, "PEP", 0.5), ("run", DAY, "KO", 0.25)]
    assert len({name, *(client_order_id(*other) for other in others)}) == 5
    assert name == "40ba668f37790ac2306bee325041f6a8"


def test_an_orders_legs_fit_its_type():
    order = DomainOrder("id", "KO", "sell", 3.0, take_profit=9.0, stop_loss=12.0)
    assert order.signed_quantity == -3.0
    assert replace(order, type="limit", limit_price=10.0).limit_price == 10.0
    for wrong, why in (
        ({"quantity": 0.0}, "quantity = 0.0"),
        ({"stop_loss": float("nan")}, "stop_loss = nan"),
        ({"type": "limit"}, "limit_price belongs to orders of type 'limit'"),
        ({"stop_price": 9.0}, "stop_price belongs to orders of type 'stop'"),
    ):
        with pytest.raises(OrderError, match=why):
            replace(order, **wrong)
