"""An observer shows each builder's columns side by side, and starts what it remembers anew with every episode."""

import numpy as np
import pytest
import torch

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.arrays.backend_torch import TorchBackend, float64_by_default
from alphaswarm_rl.core.kinds import ObservationBuilder
from alphaswarm_rl.core.view import View
from alphaswarm_rl.market.fills import fill_policy
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.observer import Observer
from alphaswarm_rl.market.panel import MarketPanel

CASH = [100.0, 200.0, 300.0]


class Looks(ObservationBuilder):
    """How often it looked in the episode, and the cash that it saw on the way."""

    def __init__(self):
        self.rows_that_matter = []

    def init(self, n, xp):
        return {"looks": xp.zeros(n, dtype=xp.int64), "seen": xp.zeros((n, 2), dtype=xp.float64)}

    def names(self, panel):
        return ("looks", "cash before")

    def step(self, view, state, out):
        self.rows_that_matter.append(getattr(view.market.backend, "only", None))
        out[:, 0] = state["looks"] + 1
        out[:, 1] = state["seen"][:, 0]
        state["looks"][...] = state["looks"] + 1
        state["seen"][...] = view.cash[:, None]


class Cash(ObservationBuilder):
    """The cash, without any memory."""

    def __init__(self):
        self.rows_that_matter = []

    def names(self, panel):
        return ("cash",)

    def step(self, view, state, out):
        self.rows_that_matter.append(getattr(view.market.backend, "only", None))
        out[:, 0] = view.cash


@pytest.fixture
def market():
    days = np.datetime64("2024-01-01") + np.arange(3)
    panel = MarketPanel.from_arrays({"timestamps": days, "assets": ["A"], "close": np.full((3, 1), 10.0)})
    return lambda backend: market_of(panel, fill_policy("next_close"), backend)


def accounts(market, cash):
    view = View(market, 0.0, len(cash))
    view.cash[:] = market.backend.put(np.array(cash))
    return view


def test_episodes_that_begin_are_looked_at_anew_and_the_others_go_on(market):
    observer = Observer((Looks(), Cash()), market(NUMPY), 3)
    assert observer.feature_names == ("looks", "cash before", "cash")
    view = accounts(market(NUMPY), CASH)
    assert observer.observe(view).tolist() == [[1, 0, 100], [1, 0, 200], [1, 0, 300]]
    assert observer.observe(view).tolist() == [[2, 100, 100], [2, 200, 200], [2, 300, 300]]
    begun = np.array([0, 2])
    observer.begin(begun)
    out = np.empty((2, 3), np.float32)
    assert observer.observe_rows(view.rows(begun), begun, out).tolist() == [[1, 0, 100], [1, 0, 300]]
    assert observer.observe(view).tolist() == [[2, 100, 100], [3, 200, 200], [2, 300, 300]]


def test_in_torch_an_end_is_seen_before_the_reset_and_the_next_episode_after_it(market):
    with float64_by_default():
        tables = market(TorchBackend("cpu"))
        begun, observer = Observer((Looks(), Cash()), tables, 1), Observer((Looks(), Cash()), tables, 3)
        observer.observe(accounts(tables, CASH))
        before, after = accounts(tables, [110.0, 210.0, 310.0]), accounts(tables, [50.0, 210.0, 50.0])
        ended = torch.tensor([True, False, True])
        out, final = torch.zeros((3, 3), dtype=torch.float32), torch.zeros((3, 3), dtype=torch.float32)
        observer.observe_ends(begun, before, after, ended, out, final)
        assert final[ended].tolist() == [[2, 100, 110], [2, 300, 310]]
        assert out.tolist() == [[1, 0, 50], [2, 200, 210], [1, 0, 50]]
        assert tables.backend.only is None
        # What is remembered is that of the episodes that go on, and one look of those that began.
        assert observer.observe(after).tolist() == [[2, 50, 50], [3, 210, 210], [2, 50, 50]]
        assert begun.parts[0].own["looks"].tolist() == [0]


def test_in_torch_only_builders_that_remember_look_at_the_ends_of_all_accounts(market):
    with float64_by_default():
        tables, builders = market(TorchBackend("cpu")), (Looks(), Cash())
        begun, observer = Observer(builders, tables, 1), Observer(builders, tables, 3)
        view, ended = accounts(tables, CASH), torch.tensor([True, False, True])
        out, final = torch.zeros((3, 3)), torch.zeros((3, 3))
        observer.observe_ends(begun, view, view, ended, out, final)
    remembers, forgets = (builder.rows_that_matter for builder in builders)
    assert remembers == [None, None]
    assert forgets[0] is ended
    assert forgets[1] is None
