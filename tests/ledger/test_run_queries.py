"""Choosing and ordering runs by their columns, on SQLite and on PostgreSQL."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from alphaswarm_rl.core.errors import OptionError, RunError
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.run_queries import run_columns
from tests.ledger.samples import SampleSpec


class AgentSpec(SampleSpec):
    """A spec with an agent."""

    def as_data(self) -> dict[str, Any]:
        policy = {"class": "policy", "kwargs": {"policy": {"class": "equal_weight", "kwargs": {}}}}
        ppo = {"class": "ppo", "kwargs": {"policy": {"class": "not the agent's name"}}}
        return {**super().as_data(), "agent": [ppo, policy, None][self.number]}


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    """Four runs: a to d, the last without an agent and without figures."""
    for number, columns in enumerate(
        (
            {"sharpe": 0.5, "name": "a", "result_summary": {"sortino": 2.0, "window_start": "2019-01-02"}},
            {"sharpe": -1.0, "name": "b", "result_summary": {"sortino": -3.5, "cost": None}, "in_sample": True},
            {"sharpe": 1.5, "name": "c", "result_summary": {"sortino": None}, "in_sample": False},
            {"name": "d", "timesteps": 2**40},
        )
    ):
        version = ledger.persist_spec(AgentSpec(number=(0, 1, 0, 2)[number]))
        started = datetime(2024, 1, 1 + number, 12, tzinfo=UTC)
        ledger.create_run(version_id=version.id, target="train", seed=number, started_at=started, **columns)
    return ledger


def names(ledger: Ledger, *where: str, **more: Any) -> str:
    """The names of the runs that are found, in their order."""
    return "".join(str(shown["name"]) for _, shown in ledger.listed_runs(["name"], where=where, **more))


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("sharpe > 0.5", "c"),
        ("sharpe >= 0.5", "ca"),
        ("sharpe < 0.5", "b"),
        ("sharpe <= 0.5", "ba"),
        ("sharpe = 0.5", "a"),
        ("sharpe != 0.5", "dcb"),
        ("sharpe = null", "d"),
        ("sharpe != null", "cba"),
        ("sortino > -4", "ba"),
        ("sortino = null", "dc"),
        ("cost = null", "dcba"),
        ("agent = ppo", "ca"),
        ("agent = equal_weight", "b"),
        ("agent != ppo", "db"),
        ("agent ~ WEIGHT", "b"),
        ("agent ~ %", ""),
        ("name = 'a'", "a"),
        ('name = "b"', "b"),
        ("name = 'it''s'", ""),
        ("name = 'null'", ""),
        ("name > a and name < d", "cb"),
        ("sharpe>0 AND name=a", "a"),
        ("in_sample = yes", "b"),
        ("in_sample = false", "c"),
        ("in_sample != true", "dca"),
        ("started_at >= 2024-01-02", "dcb"),
        ("started_at > 2024-01-02T12:00:00+00:00", "dc"),
        ("judged_start = 2019-01-02", "a"),
        ("version = 1", "ca"),
        ("timesteps > 1e12", "d"),
        ("timesteps < 99999999999999999999999", "dcba"),
        ("seed = 3", "d"),
    ],
)
def test_conditions(filled: Ledger, where: str, found: str) -> None:
    assert names(filled, where) == found


def test_all_conditions_must_hold(filled: Ledger) -> None:
    assert names(filled, "sharpe > -2", "sharpe < 1") == "ba"
    assert names(filled, "sharpe > -2", status="completed") == ""
    assert names(filled, "sharpe > -2", target="train", slug="cartpole", limit=1) == "c"


@pytest.mark.parametrize(
    ("sort", "found"),
    [
        (None, "dcba"),
        ("sharpe", "cabd"),
        ("-sharpe", "bacd"),
        ("name", "abcd"),
        ("-name", "dcba"),
        ("started_at", "dcba"),
        ("-started_at", "abcd"),
        ("sortino", "abdc"),
        ("agent", "bcad"),
    ],
)
def test_the_order_has_what_is_undefined_last_either_way(filled: Ledger, sort: str | None, found: str) -> None:
    assert names(filled, sort=sort) == found


def test_columns_that_are_shown(filled: Ledger) -> None:
    (row, shown), *_ = filled.listed_runs(["sortino", "agent", "judged_start", "version"], where=["name = a"])
    assert row.name == "a"
    assert shown == {"sortino": 2.0, "agent": "ppo", "judged_start": "2019-01-02", "version": 1}
    everything = filled.listed_runs(list(run_columns()))
    assert [len(shown) for _, shown in everything] == [len(run_columns())] * 4
    assert not {"result_summary", "machine", "overrides"} & set(run_columns())


def test_removed_runs_are_left_out(filled: Ledger) -> None:
    run_id = filled.runs()[0].id
    filled.finish_run(run_id, "completed")
    filled.mark_removed(run_id)
    assert names(filled) == "cba"
    assert names(filled, include_removed=True) == "dcba"


@pytest.mark.parametrize(
    ("where", "word"),
    [
        ("sharp > 1", "Did you mean 'sharpe'"),
        ("result_summary = 1", "The columns are id, "),
        ("sharpe", "COLUMN OPERATOR VALUE"),
        ("sharpe >", "COLUMN OPERATOR VALUE"),
        ("", "a condition is missing"),
        ("sharpe > 1 and", "a condition is missing"),
        ("sharpe > 1 or sharpe < 0", "is no condition"),
        ("name = 'a", "is no condition"),
        ("name = a; DROP TABLE rl_runs", "is no condition"),
        ("sharpe > x", "it is a number"),
        ("sharpe > nan", "it is a number"),
        ("sharpe > inf", "it is a number"),
        ("in_sample = 2", "it is a boolean"),
        ("in_sample > true", "a boolean takes no >"),
        ("sharpe ~ 1", "a number takes no ~"),
        ("started_at > yesterday", "ISO date"),
        ("sharpe > null", "neither more nor less"),
    ],
)
def test_what_is_no_condition_is_refused(filled: Ledger, where: str, word: str) -> None:
    with pytest.raises(OptionError, match=re.escape(word)):
        names(filled, where)


def test_a_wrong_state_is_refused(ledger: Ledger) -> None:
    with pytest.raises(RunError, match="completed"):
        names(ledger, status="complete")
