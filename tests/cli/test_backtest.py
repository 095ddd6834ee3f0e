"""`rl backtest`: a policy on an engine, from the command line."""

import json

import pytest

SPEC = """
name: tiny backtest
env: {class: stock_trading, kwargs: {fill: next_open, episode_bars: 10}}
action: {class: softmax_weights}
data_pipeline: {class: synthetic, kwargs: {n_assets: 2, n_bars: 80, features: [macd]}}
agent: {class: random}
training: {total_timesteps: 64, n_envs: 2, end: 2020-03-01}
evaluation: {start: 2020-03-01, episodes: 1}
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "backtest.yaml"
    path.write_text(SPEC)
    return path


def test_a_rule_is_backtested_on_both_engines_and_its_trades_are_in_the_tables(rl, spec):
    native = rl("backtest", spec, "--policy", "equal_weight", "--sizing", "at_decision", "--json").json
    other = rl(
        "backtest", spec, "--policy", "equal_weight", "--sizing", "at_decision", "--engine", "backtrader", "--json"
    )
    assert native["status"] == other.json["status"] == "completed"
    assert native["metrics"]["final_value"] == pytest.approx(other.json["metrics"]["final_value"], abs=1e-6)
    fills = rl("runs", "fills", native["run_id"], "--phase", "backtest", "--json").json
    assert fills["rows"]
    shown = rl("runs", "show", native["run_id"]).out
    assert "backtest_window" in shown
    assert rl("runs", "show", "latest", "--json").json["run"]["target"] == "backtest"
    listed = rl("runs", "list", "--where", "target=backtest", "--json").json
    assert len(listed) == 2


def test_a_runs_policy_is_backtested_as_the_environment_evaluates_it(rl, spec):
    run = rl("train", spec, "--json").json["run_id"]
    judged = rl("evaluate", run, "--episodes", "1", "--json").json
    played = rl("backtest", run, "--json").json
    assert played["parent_run_id"] == run
    assert json.dumps(played["metrics"]) == json.dumps(judged["metrics"])
    compared = rl("compare", judged["run_id"], played["run_id"], "--json")
    assert compared.code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Give a run, a spec, or --model-id N"),
        (["{spec}", "--model-id", "1"], "it plays one policy"),
        (["{spec}", "--policy", "equal_weight", "--checkpoint", "best"], "each names a policy"),
        (["{spec}", "--engine", "vectorbt"], "vectorbt"),
        (["{spec}", "--engine", "backtrader"], "Give --sizing at_decision"),
        (["{spec}", "--policy", "equal_wait"], "equal_weight"),
        (["{spec}", "--episodes", "3"], "eval.episodes"),
        (["--model-id", "77"], "the model registry"),
    ],
)
def test_what_makes_no_sense_is_wrong_input(rl, spec, arguments, says):
    answer = rl("backtest", *(spec if word == "{spec}" else word for word in arguments))
    assert answer.code == 2
    assert says in answer.err
    assert rl("runs", "list", "--json").json == []  # it is refused before there is a run


def test_a_window_without_bars_is_refused_before_there_is_a_run(rl, spec):
    for verb in ("backtest", "evaluate"):
        answer = rl(verb, spec, "--start", "2031-01-01")
        assert answer.code == 2
        assert "2031" in answer.err
    assert rl("runs", "list", "--json").json == []


def test_a_registered_model_is_backtested(rl, spec):
    text = spec.read_text().replace(
        "agent: {class: random}", "agent: {class: a2c, kwargs: {n_steps: 8, net_arch: [4]}}"
    )
    spec.write_text(text)
    rl("train", spec)
    model = rl("models", "list", "--json").json[0]["id"]
    answer = rl("backtest", "--model-id", str(model), "--json")
    assert answer.json["status"] == "completed", answer.err
    assert answer.json["checkpoint_sha256"]
