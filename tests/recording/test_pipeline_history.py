"""What portfolio stages made of weights, and the limits they reached, are in the tables and their views."""

import duckdb
import numpy as np
import pytest

from alphaswarm_rl.lake.views import ensure_duckdb_views, register_run_views, run_view
from alphaswarm_rl.operations.sql import Query, run_query
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import Settings
from tests.runtime.test_trading import trading

PORTFOLIO = [
    {"class": "softmax", "kwargs": {"temperature": 0.1}},
    {"class": "constant", "kwargs": {"scale": 0.9}},
    {"class": "position_cap", "kwargs": {"max_position": 0.6}},
    {"class": "stacked", "kwargs": {"max_gross": 0.7, "max_drawdown": 0.001}},
]
STAGES = ["softmax_weights", "softmax", "constant", "position_cap", "risk_limits"]


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return Settings(home=tmp_path_factory.mktemp("pipeline") / "home")


@pytest.fixture(scope="module")
def judged(settings):
    """A run of random weights through stages, and one without stages."""
    parts = {"agent": {"class": "random"}, "action": {"class": "softmax_weights"}, "evaluation": {"episodes": 1}}
    plain = RLRuntime(trading(**parts), settings).train()
    staged = RLRuntime(trading(env_kwargs={"portfolio": PORTFOLIO}, **parts), settings).train()
    return plain.run_id, staged.run_id


@pytest.fixture
def connection(settings, judged):
    with duckdb.connect() as connection:
        ensure_duckdb_views(connection, settings)
        yield connection


def test_the_weights_after_every_stage_are_a_view(connection, judged):
    of_run = f"WHERE run_id = '{judged[1]}' AND phase = 'evaluate'"
    rows = connection.execute(
        f"SELECT episode, step, asset_idx, list(stage ORDER BY stage_idx), list(target ORDER BY stage_idx) "
        f"FROM rl_pipeline_history {of_run} GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    targets = connection.execute(
        f"SELECT episode, step, asset_idx, targets FROM rl_positions {of_run} ORDER BY ALL"
    ).fetchall()
    assert len(rows) == len(targets) > 0
    for (*key, stages, weights), (*expected, of_positions) in zip(rows, targets, strict=True):
        assert key == expected
        assert stages == STAGES
        assert weights == of_positions
    assets = [weights for *_, asset, _, weights in rows if asset >= 0]
    assert max(weights[3] for weights in assets) == 0.6


def test_limits_that_were_reached_are_a_view(connection, judged):
    found = connection.execute(
        f'SELECT kind, min(value), max(value), any_value("limit"), any_value(severity), any_value(message) '
        f"FROM rl_limit_breaches WHERE run_id = '{judged[1]}' GROUP BY kind ORDER BY kind"
    ).fetchall()
    assert [(kind, limit, severity) for kind, _, _, limit, severity, _ in found] == [
        ("max_drawdown", 0.001, "critical"),
        ("max_gross", 0.7, "warning"),
        ("max_position", 0.6, "warning"),
    ]
    for kind, least, _, limit, _, message in found:
        assert least >= limit, kind
        assert message


def test_a_breach_is_there_exactly_where_the_targets_were_cut(connection, judged):
    rows = connection.execute(
        f"SELECT p.episode, p.step, max(abs(targets[3])) > 0.6 + 1e-12, sum(abs(targets[4])) > 0.7 + 1e-12, "
        f"max(targets[5]), sum(abs(targets[5])) FROM rl_positions p "
        f"WHERE run_id = '{judged[1]}' AND phase = 'evaluate' AND asset_idx >= 0 GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    kinds = connection.execute(
        f"SELECT episode, step, kind FROM rl_limit_breaches WHERE run_id = '{judged[1]}' AND phase = 'evaluate'"
    ).fetchall()
    for episode, step, capped, scaled, largest, total in rows:
        assert ((episode, step, "max_position") in kinds) == capped
        assert ((episode, step, "max_gross") in kinds) == scaled
        assert largest <= 0.6
        assert total <= 0.7 + 1e-12
    assert any(row[2] for row in rows)
    assert not all(row[2] for row in rows)


def test_without_stages_nothing_is_reached_and_the_action_is_all_there_is(connection, judged):
    of_run = f"WHERE run_id = '{judged[0]}'"
    assert connection.execute(f"SELECT count(*) FROM rl_limit_breaches {of_run}").fetchone() == (0,)
    assert connection.execute(f"SELECT count(info) FROM rl_trajectories {of_run}").fetchone() == (0,)
    stages = connection.execute(f"SELECT DISTINCT stage FROM rl_pipeline_history {of_run}").fetchall()
    assert stages == [("softmax_weights",)]


def test_training_steps_are_not_measured(connection):
    assert connection.execute("SELECT DISTINCT phase FROM rl_limit_breaches").fetchall() == [("evaluate",)]


def test_one_run_has_views_of_its_own(settings, judged):
    with duckdb.connect() as connection:
        register_run_views(judged[1], connection, settings)
        for view, table in (("rl_pipeline_history", "positions"), ("rl_limit_breaches", "trajectories")):
            name = run_view(table, judged[1]).replace(f"rl_{table}", view)
            assert connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] > 0


def test_rl_sql_reads_them(settings, judged):
    statement = "SELECT stage, avg(target) FROM rl_pipeline_history WHERE asset_idx >= 0 GROUP BY stage"
    rows = run_query(settings, Query(statement=statement)).rows
    assert {stage for stage, _ in rows} == set(STAGES)
    assert np.isfinite([mean for _, mean in rows]).all()
    assert run_query(settings, Query(statement="SELECT count(*) FROM rl_limit_breaches")).rows[0][0] > 0
