"""`rl compare`, `rl evaluate --baselines` and `rl runs equity --plot`."""

import json

import pytest

from alphaswarm_rl.ledger import Ledger

SPEC = """
name: Tiny trading
env: {class: stock_trading, kwargs: {fill: next_close}}
data_pipeline: {class: synthetic, kwargs: {n_assets: 2, n_bars: 60, features: [macd], seed: %d}}
agent: {class: %s}
evaluation: {episodes: 1}
"""
RULES = {"cash", "equal_weight", "buy_and_hold", "minimum_variance", "mean_variance", "random"}


@pytest.fixture
def judge(rl, tmp_path):
    """Judges an agent on a market of that seed; gives the answer's document."""

    def run(agent="equal_weight", seed=1, *options):
        path = tmp_path / f"{agent}-{seed}.yaml"
        path.write_text(SPEC % (seed, agent))
        answer = rl("evaluate", path, *options, "--json")
        assert answer.code == 0, answer.err
        return answer.json

    return run


def test_runs_that_were_judged_alike_stand_in_one_table_with_intervals(rl, judge):
    first, second = judge("random"), judge("equal_weight")
    found = rl("compare", first["run_id"], second["run_id"], "--sort", "total_return", "--json").json
    (group,) = found["groups"]
    best = max(first, second, key=lambda run: run["metrics"]["total_return"])
    assert group["runs"][0]["run_id"] == best["run_id"]
    assert group["differs"] == []
    for run in group["runs"]:
        assert run["why_no_intervals"] is None
        for name in ("sharpe", "sortino", "total_return", "annual_return", "max_drawdown", "volatility"):
            measured = run["measures"][name]
            assert measured["low"] < measured["high"], name
        assert run["measures"]["cost"]["low"] is None
        sharpe = run["measures"]["sharpe"]
        assert sharpe["low"] <= sharpe["value"] <= sharpe["high"]
    assert found["spec_runs"] == [first["run_id"], second["run_id"]]
    changed = {item["path"]: item["values"] for item in found["spec_differences"]}
    assert changed["agent.kwargs.policy.class"] == ["random", "equal_weight"]
    text = rl("compare", first["run_id"], second["run_id"]).out
    assert "equal_weight" in text
    assert "SHARPE" in text
    assert "[" in text


def test_runs_that_were_judged_otherwise_are_said_to_differ_and_in_what(rl, judge):
    one, other = judge("random", 1), judge("random", 2)
    found = rl("compare", one["run_id"], other["run_id"], "--json").json
    assert [len(group["runs"]) for group in found["groups"]] == [1, 1]
    (respect,) = found["groups"][1]["differs"]
    assert respect.startswith("data: ")
    text = rl("compare", one["run_id"], other["run_id"]).out
    assert "differs from the first: data: " in text
    assert "cannot be compared" in text


def test_environments_without_dates_are_compared_by_the_returns_of_their_episodes(rl, random_spec, judge):
    run = rl("evaluate", random_spec, "--json").json
    found = rl("compare", run["run_id"], "--baselines", "--json").json
    (group,) = found["groups"]
    assert {item["label"] for item in group["runs"] if item["baseline"]} == {"constant", "random"}
    reward = group["runs"][0]["measures"]["mean_reward"]
    assert reward["low"] < reward["value"] < reward["high"]
    assert "sharpe" not in group["runs"][0]["measures"]
    assert found["spec_differences"] == []
    traded = judge("random")
    assert len(rl("compare", run["run_id"], traded["run_id"], "--json").json["groups"]) == 2


def test_baselines_are_judged_once_in_the_same_way(rl, judge):
    result = judge("random", 1, "--baselines")
    assert {rule["name"] for rule in result["baselines"]} == RULES
    assert all(rule["error"] is None for rule in result["baselines"])
    cash = next(rule for rule in result["baselines"] if rule["name"] == "cash")
    assert (cash["metrics"]["total_return"], cash["metrics"]["turnover"]) == (0.0, 0.0)
    before = rl("runs", "list", "--columns", "agent,status", "--json").json
    found = rl("compare", result["run_id"], "--baselines", "--sort", "sharpe", "--json").json
    assert rl("runs", "list", "--columns", "agent,status", "--json").json == before
    (group,) = found["groups"]
    labels = [run["label"] for run in group["runs"]]
    assert set(labels) == RULES
    assert labels[-1] == "cash"  # its Sharpe ratio is undefined, and ranks behind every other
    assert group["runs"][-1]["measures"]["sharpe"]["value"] is None
    assert group["runs"][-1]["undefined"] == {
        "sharpe": "the returns do not vary",
        "sortino": "no return is a loss",
    }
    assert group["runs"][0]["undefined"] == {}
    text = rl("compare", result["run_id"], "--baselines").out
    assert "cash (baseline)" in text
    assert f"undefined for {group['runs'][-1]['run_id'][:8]}: sharpe, the returns do not vary" in text


@pytest.mark.parametrize("env", ["stock_trading, kwargs: {hmax: 50", "stop_loss, kwargs: {hmax: 500, stop: 0.8"])
def test_parameters_of_an_action_that_rules_replace_are_no_obstacle(rl, tmp_path, env):
    path = tmp_path / "orders.yaml"
    path.write_text((SPEC % (1, "random")).replace("stock_trading, kwargs: {", f"{env}, "))
    result = rl("evaluate", path, "--baselines", "--json").json
    assert [rule["error"] for rule in result["baselines"]] == [None] * len(RULES)
    (group,) = rl("compare", result["run_id"], "--baselines", "--json").json["groups"]
    assert {run["label"] for run in group["runs"]} == RULES


def test_with_a_margin_rules_trade_by_weights_under_the_same_judgement(rl, tmp_path):
    path = tmp_path / "short.yaml"
    margin = "margin: {initial: 0.5, maintenance: 0.25, short: true}"
    action = "action: {class: continuous_weights, kwargs: {short: true}}"
    path.write_text((SPEC % (1, "random")).replace("next_close}", f"next_close, {margin}}}") + action)
    result = rl("evaluate", path, "--baselines", "--json").json
    assert [rule["error"] for rule in result["baselines"]] == [None] * len(RULES)
    (group,) = rl("compare", result["run_id"], "--baselines", "--json").json["groups"]
    assert {run["label"] for run in group["runs"]} == RULES
    cash = next(rule for rule in result["baselines"] if rule["name"] == "cash")
    assert (cash["metrics"]["total_return"], cash["metrics"]["turnover"]) == (0.0, 0.0)


def test_a_comparison_says_what_it_cannot_know(rl, judge, settings):
    run = judge("random")
    with Ledger.open(settings) as ledger:
        ledger.mark_removed(run["run_id"])
    removed = rl("compare", run["run_id"], "--json").json["groups"][0]["runs"][0]
    assert removed["why_no_intervals"] == "the run was removed"
    assert removed["measures"]["sharpe"]["low"] is None
    assert "no intervals for" in rl("compare", run["run_id"]).out
    silent = judge("equal_weight", 1, "--no-persist-trajectories")
    found = rl("compare", silent["run_id"], "--json").json["groups"][0]["runs"][0]
    assert found["why_no_intervals"] == "its steps were not recorded"


def test_wrong_input_is_refused(rl, judge, settings):
    assert rl("compare").code == 2
    assert rl("compare", "abcd").code == 2
    run = judge("random")
    unknown = rl("compare", run["run_id"], "--sort", "sharp")
    assert unknown.code == 2
    assert "Did you mean 'sharpe'?" in unknown.err
    with Ledger.open(settings) as ledger:
        row = ledger.run(run["run_id"])
        unjudged = ledger.create_run(version_id=row.version_id, target="train", seed=1)
    answer = rl("compare", unjudged.id)
    assert answer.code == 2
    assert "never judged" in answer.err
    assert rl("evaluate", "--model-id", 1, "--baselines").code == 2


def test_the_account_is_drawn(rl, judge, monkeypatch):
    run = judge("equal_weight")
    monkeypatch.setenv("COLUMNS", "70")
    drawn = rl("runs", "equity", run["run_id"], "--plot")
    assert drawn.code == 0, drawn.err
    assert "drawdown, %" in drawn.out
    assert max(len(line) for line in drawn.out.splitlines()) <= 70
    assert "┌" in drawn.out
    assert "\x1b" not in drawn.out
    document = rl("runs", "equity", run["run_id"], "--plot", "--limit", 3, "--json").json
    assert len(document["rows"]) == 3
    curve = document["curve"]
    assert len(curve["values"]) == len(curve["times"]) == len(curve["drawdowns"]) > 3
    assert curve["values"][-1] == run["metrics"]["final_value"]
    assert min(curve["drawdowns"]) == pytest.approx(run["metrics"]["max_drawdown"], abs=0.02)
    assert max(curve["drawdowns"]) == 0.0
    assert "curve" not in json.loads(rl("runs", "equity", run["run_id"], "--json").out)


def test_what_has_no_account_is_not_drawn_and_says_why(rl, random_spec):
    rl("evaluate", random_spec)
    assert "the environment has no account" in rl("runs", "equity", "latest", "--plot").out
