"""Specs with market data on the command line."""

import json
from pathlib import Path

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
    assert "the file 'prices.csv'" in missing.err
    assert f"looked for below '{Path.cwd()}'" in missing.err
    assert "--data-root" in missing.err
    assert "data.root" in missing.err
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


def test_a_window_that_sticks_out_is_noticed_on_standard_error(rl, spec):
    notice = "the evaluation window ends at 2040-01-01 and the data at 2020-04-21"
    answer = rl("evaluate", spec(SYNTHETIC), "--start", "2020-03-02", "--end", "2040-01-01", "--json")
    assert answer.json["notices"] == [notice]
    assert f"notice: {notice}" in answer.err
    assert f"notice  {notice}" in rl("runs", "show", "latest").out


def test_changed_bars_are_noticed_on_standard_error(rl, spec, bars):
    run = rl("train", spec(CSV), "--data-root", bars, "--json").json["run_id"]
    prices = bars / "prices.csv"
    prices.write_text(prices.read_text().replace("2020-02-03,102", "2020-02-03,152"))
    answer = rl("replay", run, "--data-root", bars)
    assert f"notice: the bars of the training window are not those that run {run} was trained on" in answer.err


def test_the_run_says_where_it_trained_and_where_it_was_judged(rl, spec):
    path = spec(SYNTHETIC)
    answer = rl("train", path, "--json").json["metrics"]
    assert (answer["window_start"], answer["window_end"]) == ("2020-03-02", "2020-04-21")
    text = rl("train", path).out
    assert row_of(text, "judged_on") == "2020-03-02 to 2020-04-21"
    shown = rl("runs", "show", "latest").out
    assert row_of(shown, "training_window") == "... to 2020-03-01"
    assert row_of(shown, "judged_on") == "2020-03-02 to 2020-04-21"
    assert "window_start" not in shown
    title, evaluation = shown.partition("evaluations:\n")[2].splitlines()[:2]
    place = title.index("WINDOW")
    assert evaluation[place:].startswith("2020-03-02 to 2020-04-21")
    rl("replay", "latest", "--start", "2020-02-03", "--end", "2020-02-20")
    replayed = rl("runs", "show", "latest").out
    assert row_of(replayed, "replay_window") == "2020-02-03 to 2020-02-20"
    assert row_of(replayed, "judged_on") == "2020-02-03 to 2020-02-19"


def row_of(text, name):
    (line,) = [line for line in text.splitlines() if line.split(" ")[0] == name]
    return line.removeprefix(name).strip()


def test_one_episode_has_a_mean_alone_in_the_text(rl, spec):
    one = rl("evaluate", spec(SYNTHETIC))
    assert "mean_reward" in one.out
    for name in ("std_reward", "min_reward", "max_reward"):
        assert name not in one.out + one.err
        assert name in rl("evaluate", spec(SYNTHETIC), "--json").json["metrics"]
        assert name in rl("evaluate", spec(SYNTHETIC), "--episodes", 2).out


def test_the_list_has_window_return_and_sharpe_and_marks_what_is_in_sample(rl, spec):
    path = spec(SYNTHETIC)
    path.write_text(path.read_text().replace("{class: random}", json.dumps(PPO)))
    trained = rl("train", path, "--json").json
    inside = rl("replay", "latest", "--start", "2020-02-03", "--end", "2020-02-20", "--json").json
    title, second, first, _, foot = rl("runs", "list").out.splitlines()
    assert " ".join(title.split()) == "RUN SPEC AGENT TARGET STATUS SEED STEPS REWARD WINDOW RETURN SHARPE STARTED"
    for line, run in ((first, trained), (second, inside)):
        cell = dict(zip(title.split(), line.split(), strict=False))
        assert run["run_id"].startswith(cell["RUN"])
        assert cell["RETURN"] == f"{run['metrics']['total_return']:.4f}"
        sharpe = run["metrics"]["sharpe"]  # null where it is undefined
        assert cell["SHARPE"] == ("-" if sharpe is None else f"{sharpe:.2f}")
    assert " 2020-03-02..2020-04-21 " in first
    assert " 2020-02-03..2020-02-19* " in second
    assert foot.startswith("* in sample")
    assert max(map(len, (title, first, second))) <= 120 + len("AGENT  ")
    rl("train", path, "--run-name", "third")
    assert [line.split()[-1] for line in rl("runs", "list").out.splitlines()[:3]] == ["NAME", "third", "-"]


PPO = {"class": "ppo", "kwargs": {"n_steps": 16, "batch_size": 32, "n_epochs": 1, "net_arch": [8]}}
