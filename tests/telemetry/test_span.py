"""`alphaswarm_rl.span`: a context manager and a decorator, and nothing while nobody watches."""

import threading
import time
from contextlib import contextmanager

import pytest

import alphaswarm_rl
from alphaswarm_rl.core import tracing
from alphaswarm_rl.core.tracing import install, span


class Watching:
    """A watcher that writes down what it sees."""

    def __init__(self):
        self.seen = []

    @contextmanager
    def span(self, name, attributes):
        found = dict(attributes)
        self.seen.append(("begin", name, found))
        try:
            yield found.update
        finally:
            self.seen.append(("end", name, found))

    @property
    def ended(self):
        return [(name, found) for what, name, found in self.seen if what == "end"]


@pytest.fixture
def watching():
    watcher = Watching()
    before = install(watcher.span)
    yield watcher
    install(before)


@span("early", size=2)
def decorated_before_anybody_watched(depth=0):
    """Its own words."""
    return depth if depth == 2 else decorated_before_anybody_watched(depth + 1)


def test_it_is_exported():
    assert alphaswarm_rl.span is span


def test_a_block_is_a_span_with_its_attributes_and_those_found_inside(watching):
    with span("fit", kind="scaler") as fitting:
        fitting.set(rows=3)
        assert watching.ended == []
    assert watching.ended == [("fit", {"kind": "scaler", "rows": 3})]


def test_a_function_decorated_before_anybody_watched_is_a_span_per_call(watching):
    assert decorated_before_anybody_watched() == 2
    assert decorated_before_anybody_watched.__doc__ == "Its own words."
    # Three calls within each other: all begin before the first ends.
    assert [what for what, *_ in watching.seen] == ["begin"] * 3 + ["end"] * 3
    assert watching.ended == [("early", {"size": 2})] * 3


def test_without_a_name_a_function_goes_by_its_own(watching):
    @span
    def fit():
        return 3

    assert fit() == 3
    assert [name.rpartition(".")[2] for name, _ in watching.ended] == ["fit"]


def test_an_attribute_may_be_called_name(watching):
    with span("load", name="AAPL"):
        pass
    assert watching.ended == [("load", {"name": "AAPL"})]


def test_calls_in_several_threads_do_not_meet(watching):
    inside = threading.Barrier(4)

    @span("together")
    def work():
        inside.wait(5)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(watching.ended) == 4


def test_an_error_passes_through(watching):
    with pytest.raises(ValueError, match="mine"), span("fit"):
        raise ValueError("mine")
    assert watching.ended == [("fit", {})]


def test_nothing_happens_while_nobody_watches():
    assert tracing._factory is None
    with span("fit") as fitting:
        fitting.set(rows=3)
    assert decorated_before_anybody_watched() == 2


def test_it_costs_next_to_nothing_while_nobody_watches():
    @span("often")
    def nothing():
        pass

    best = min(_timed(nothing) for _ in range(5))
    assert best < 20e-6  # seconds a call: some microseconds even on a slow machine


def _timed(call):
    began = time.perf_counter()
    for _ in range(2000):
        call()
    return (time.perf_counter() - began) / 2000
