"""When orders are filled."""

import pytest

from alphaswarm_rl.core.errors import BookError, DataError
from alphaswarm_rl.market.fills import FILL_POLICIES, fill_policy, fill_prices


def test_what_each_policy_means():
    table = {policy.name: (policy.price, policy.lag, policy.optimistic) for policy in FILL_POLICIES.values()}
    assert table == {
        "next_open": ("open", 1, False),
        "next_close": ("close", 1, False),
        "same_close": ("close", 0, True),
        "cheat_on_open": ("open", 1, True),
    }
    assert [name for name, policy in FILL_POLICIES.items() if policy.shows_next_open] == ["cheat_on_open"]


@pytest.mark.parametrize("name", ["next_open", "cheat_on_open"])
def test_opens_that_are_not_there_are_an_error_that_names_next_close(name):
    with pytest.raises(DataError, match=r"'open'.*'next_close'"):
        fill_prices(fill_policy(name), None, [1.0])


def test_prices_by_policy():
    assert fill_prices(fill_policy("next_open"), [1.0], [2.0]) == [1.0]
    assert fill_prices(fill_policy("next_close"), None, [2.0]) == [2.0]
    assert fill_prices(fill_policy("same_close"), [1.0], [2.0]) == [2.0]


def test_an_unknown_policy_is_answered_with_the_nearest():
    with pytest.raises(BookError, match="next_open"):
        fill_policy("nextopen")
