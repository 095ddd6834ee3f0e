"""A trained policy on backtest engines: runs of their own, equal to the environment where the engine is exact."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from alphaswarm_rl.core.errors import BookError, ComponentError, EnvError, RunError, UnknownComponent
from alphaswarm_rl.core.judgement import judgement_differences
from alphaswarm_rl.execution.engine import BacktestRequest
from alphaswarm_rl.execution.native import NativeEngine
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.inference.checkpoints import load_checkpoint
from alphaswarm_rl.inference.policy import LoadedPolicy
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import Settings
from tests.runtime.conftest import tiny
from tests.runtime.test_trading import LATER, trading

SIZED = {"sizing": "at_decision", "order_rules": {"rebalance_threshold": 0.001}, "fill": "next_open"}
WEIGHTS = {"action": {"class": "softmax_weights"}, "bars": {"n_assets": 3}}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return Settings(home=tmp_path_factory.mktemp("backtests") / "home")


@pytest.fixture(scope="module")
def trained(home):
    """A training whose weights become units at the decision."""
    return RLRuntime(trading(env_kwargs=SIZED, **WEIGHTS), home).train()


@pytest.fixture(scope="module")
def judged(home, trained):
    """Its policy, judged by one episode of the environment."""
    runtime = RLRuntime.from_run(trained.run_id, home)
    return runtime.evaluate(episodes=1), runtime


def rows_without(table, *names):
    keys = ["env_idx", "episode", "step", "asset_idx", *(["fill_idx"] if "fill_idx" in table.column_names else [])]
    keys = [key for key in keys if key in table.column_names]
    return table.drop_columns(list(names)).sort_by([(key, "ascending") for key in keys]).to_pylist()


def test_on_the_native_engine_it_is_the_evaluation_to_the_last_bit(home, trained, judged):
    evaluated, environment = judged
    runtime = RLRuntime.from_run(trained.run_id, home)
    result = runtime.backtest("native")
    assert result.metrics == evaluated.metrics
    for kind in ("positions", "fills", "equity_curves", "action_logs"):
        ours, theirs = runtime.rows(kind, result.run_id), environment.rows(kind, evaluated.run_id)
        assert ours.num_rows > 0, kind
        of_run = [name for name in ("run_id", "phase", "recorded_at") if name in ours.column_names]
        assert rows_without(ours, *of_run) == rows_without(theirs, *of_run), kind
        assert set(ours["phase"].to_pylist()) == {"backtest"}


def test_its_row_says_engine_window_costs_measures_and_fingerprints(home, trained, judged):
    result = RLRuntime.from_run(trained.run_id, home).backtest("native", window=LATER, seed=7)
    with Ledger.open(home) as ledger:
        row, (evaluation,) = ledger.run(result.run_id), ledger.evaluations(result.run_id)
        judged_row = ledger.evaluations(judged[0].run_id)[0]
    assert (row.target, row.parent_run_id, row.version_id) == ("backtest", trained.run_id, trained.version_id)
    assert row.arguments["engine"] == "native"
    assert (row.window_start, row.window_end) == (LATER.start, LATER.end)
    assert row.checkpoint_sha256 == trained.checkpoint_sha256
    assert row.data_fingerprint
    assert row.code_fingerprint
    assert row.sharpe == result.metrics["sharpe"]
    assert evaluation.phase == "backtest"
    costs = evaluation.judgement.costs
    assert costs["sizing"]["rebalance_threshold"] == 0.001
    assert "engine" not in costs  # it is the environment's own decision step
    same = RLRuntime.from_run(trained.run_id, home).backtest("native")
    with Ledger.open(home) as ledger:
        assert judgement_differences(ledger.evaluations(same.run_id)[0].judgement, judged_row.judgement) == []


def test_sizing_can_be_another_than_the_environments(home, trained):
    runtime = RLRuntime(trading(action={"class": "softmax_weights"}, agent={"class": "equal_weight"}), home)
    at_fill, at_decision = runtime.backtest(), runtime.backtest(sizing="at_decision")
    assert at_fill.metrics["final_value"] != at_decision.metrics["final_value"]
    assert at_fill.metrics["final_value"] == pytest.approx(at_decision.metrics["final_value"], rel=0.01)
    with Ledger.open(home) as ledger:
        assert ledger.run(at_decision.run_id).arguments["sizing"] == "at_decision"
        assert ledger.run(at_decision.run_id).spec_hash == ledger.run(at_fill.run_id).spec_hash


def test_on_backtrader_positions_and_cash_are_the_environments(home, trained, judged):
    runtime = RLRuntime.from_run(trained.run_id, home)
    result = runtime.backtest("backtrader")
    evaluated, environment = judged
    for kind, name in (("positions", "quantity"), ("equity_curves", "cash"), ("equity_curves", "portfolio_value")):
        ours, theirs = runtime.rows(kind, result.run_id), environment.rows(kind, evaluated.run_id)
        order = [("step", "ascending"), *([("asset_idx", "ascending")] if kind == "positions" else [])]
        ours, theirs = (table.sort_by(order)[name].to_numpy() for table in (ours, theirs))
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    with Ledger.open(home) as ledger:
        costs = ledger.evaluations(result.run_id)[0].judgement.costs
    assert costs["engine"] == "backtrader"


def test_a_checkpoint_on_the_bridge_is_the_evaluation_without_an_environment(home, trained, judged):
    loaded = load_checkpoint(Path(trained.checkpoint), expected_sha256=trained.checkpoint_sha256)
    spec = loaded.trained_spec
    builder = Builder(spec, seed=loaded.seed, device="cpu")
    builder.restore_data(loaded.states)
    builder.load_data((spec.evaluation.window,))
    env = builder.build_env("evaluate", num_envs=1, phase="evaluate", window=spec.evaluation.window)
    plan, raw = env.unwrapped.plan, builder.data.raw(spec.evaluation.window)
    policy = LoadedPolicy(loaded, home)
    market = policy.market(raw)
    agent = policy.bridge(market)
    request = BacktestRequest.of_plan(plan, market, agent.decider)
    result = NativeEngine().run(request, agent=agent)
    assert result.alarms == ()
    assert result.equity[-1] == judged[0].metrics["final_value"]


@pytest.mark.parametrize(
    ("spec", "arguments", "error", "says"),
    [
        (tiny(agent={"class": "random"}), {}, EnvError, "it trades nothing"),
        (trading(agent={"class": "random"}), {"engine": "vectorbt"}, UnknownComponent, "vectorbt"),
        (trading(agent={"class": "random"}), {"sizing": "at_decision"}, EnvError, "gives none"),
        (trading(), {}, RunError, "needs a trained policy"),
        (
            trading(env_kwargs=SIZED, agent={"class": "random"}, **WEIGHTS),
            {"sizing": "at_fill"},
            ComponentError,
            "order_rules",
        ),
        (
            trading(env_kwargs={"fill": "next_open"}, agent={"class": "random"}, **WEIGHTS),
            {"engine": "backtrader"},
            BookError,
            "--sizing at_decision",
        ),
    ],
    ids=["no trading", "unknown engine", "shares", "untrained", "rules", "backtrader"],
)
def test_what_cannot_be_backtested_is_refused(home, spec, arguments, error, says):
    with pytest.raises(error) as caught:
        RLRuntime(spec, home).backtest(**arguments)
    assert says in str(caught.value)


def test_the_arguments_are_plain_data(home, trained):
    result = RLRuntime.from_run(trained.run_id, home).backtest("native", deterministic=False, seed=3)
    with Ledger.open(home) as ledger:
        arguments = ledger.run(result.run_id).arguments
    assert json.loads(json.dumps(arguments)) == {
        "seed": 3,
        "episodes": 1,
        "deterministic": False,
        "engine": "native",
    }
    assert dataclasses.is_dataclass(result)
