"""Specs with market data on the command line."""

import pytest

TRADING = """
name: tiny trading
env: {class: stock_trading, kwargs: {fill: next_close, episode_bars: 10}}
data_pipeline: %s
agent: {class: random}
training: {total_timesteps: 64, n_envs: 2, end: 2020-03-01}
evaluation: {start: 2020-03-01, episodes: %d}
"""
SYNTHETIC = "{class: synthetic, kwargs: {n_assets: 1, n_bars: 80, features: [macd]}}"
CSV = "{class: csv, kwargs: {path: prices.csv, asset: ACME, features: [macd]}}"


@pytest.fixture
def spec(tmp_path):
    def write(pipeline, episodes=1):
        path = tmp_path / "trading.yaml"
        path.write_text(TRADING % (pipeline, episodes))
        return path

    return write


@pytest.fixture
def bars(tmp_path):
    """A folder with a file of 80 bars."""
    folder = tmp_path / "bars"
    folder.mkdir()
    rows = [f"2020-{1 + day // 28:02d}-{1 + day % 28:02d},{100 + day % 7}" for day in range(80)]
    (folder / "prices.csv").write_text("\n".join(["date,close", *rows]))
    return folder


def test_paths_are_below_the_data_root(rl, spec, bars, monkeypatch):
    path = spec(CSV)
    missing = rl("train", path)
    assert missing.code == 2
    assert "prices.csv" in missing.err
    by_flag = rl("train", path, "--data-root", bars, "--json").json
    monkeypatch.setenv("RL_DATA_ROOT", str(bars))
    by_variable = rl("train", path, "--json").json
    assert by_flag["status"] == by_variable["status"] == "completed"
    assert by_flag["checkpoint_sha256"] == by_variable["checkpoint_sha256"]
    replayed = rl("replay", by_flag["run_id"], "--start", "2020-02-01", "--end", "2020-02-20", "--json").json
    assert replayed["parent_run_id"] == by_flag["run_id"]


def test_the_default_data_root_is_the_working_folder(rl, spec, bars, monkeypatch):
    path = spec(CSV)
    monkeypatch.chdir(bars)
    assert rl("evaluate", path).code == 0


def test_dates_without_bars_are_refused_in_words(rl, spec):
    run = rl("train", spec(SYNTHETIC), "--json").json["run_id"]
    answer = rl("replay", run, "--start", "2035-01-01", "--json")
    assert answer.code == 2
    assert "There are bars from 2020-01-01" in answer.json["error"]["remedy"]


def test_a_frame_cannot_come_from_the_command_line_and_the_error_names_it(rl, spec):
    answer = rl("train", spec("{class: frame, kwargs: {name: prices, features: [macd]}}"))
    assert answer.code == 2
    assert "frame 'prices'" in answer.err
    assert "RLRuntime(spec, frames=" in answer.err


def test_without_an_evaluation_the_judging_verbs_ask_for_episodes(rl, spec):
    trained = rl("train", spec(SYNTHETIC, episodes=0), "--json").json
    assert trained["metrics"] == {}
    for verb in ("evaluate", "replay"):
        refused = rl(verb, trained["run_id"])
        assert refused.code == 2
        assert "--episodes" in refused.err
        assert rl(verb, trained["run_id"], "--episodes", 2, "--json").json["metrics"]["episodes"] == 2


def test_validation_names_the_part_that_the_environment_does_not_take(rl, tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text("name: x\nenv: {class: cartpole}\nagent: {class: random}\nreward: {class: pnl}\n")
    answer = rl("spec", "validate", path)
    assert answer.code == 2
    assert "'reward'" in answer.out + answer.err
    assert "'cartpole'" in answer.out + answer.err
