"""`rl decide`: what a trained policy would trade, from the command line."""

import numpy as np
import pytest

from alphaswarm_rl.settings import Settings
from tests.operations.test_documents import conforming

SPEC = """
name: decides
env: {class: stock_portfolio, kwargs: {fill: next_close, sizing: at_decision, portfolio: [{class: position_cap}]}}
data_pipeline: {class: csv, kwargs: {path: prices.csv, features: [macd]}}
agent: {class: ppo_inhouse, kwargs: {n_steps: 16, batch_size: 16, n_epochs: 1, net_arch: [8]}}
training: {total_timesteps: 16, n_envs: 1, end: 2020-06-01}
evaluation: {start: 2020-06-01, end: 2020-08-01}
"""


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder with a file of bars of two assets, to the end of 2020."""
    folder = tmp_path / "bars"
    folder.mkdir()
    rng = np.random.default_rng(0)
    days = [day for day in np.arange(np.datetime64("2020-01-01"), np.datetime64("2021-01-01")) if np.is_busday(day)]
    rows = ["date,tic,close"]
    for asset in ("AAA", "BBB"):
        closes = 50 * np.exp(np.cumsum(rng.normal(0, 0.01, len(days))))
        rows += [f"{day},{asset},{close:.4f}" for day, close in zip(days, closes, strict=True)]
    (folder / "prices.csv").write_text("\n".join(rows))
    monkeypatch.setenv("RL_DATA_ROOT", str(folder))
    return folder


@pytest.fixture
def run(rl, data, tmp_path):
    spec = tmp_path / "decides.yaml"
    spec.write_text(SPEC)
    answer = rl("train", spec, "--json")
    assert answer.code == 0, answer.err
    return answer.json["run_id"]


def test_a_run_decides_by_symbol_after_every_stage(rl, run, data, tmp_path):
    found = rl("decide", run, "--asof", "2020-07-15", "--cash", 10_000, "--json").json
    assert (found["bar"], found["targets"], found["history"]) == ("2020-07-15", "weights", "complete")
    assert found["stages"] == ["softmax_weights", "position_cap"]
    assert found["run_id"] == run
    assert not found["indicative"]
    assert [row["symbol"] for row in found["assets"]] == ["AAA", "BBB"]
    assert all(row["target"] == row["by_stage"][-1] for row in found["assets"])
    assert sum(row["target"] for row in found["assets"]) + found["cash_target"] == pytest.approx(1.0)
    assert {order["symbol"] for order in found["orders"]} == {"AAA", "BBB"}
    shown = rl("decide", "latest", "--asof", "2020-07-15", "--cash", 10_000)
    assert shown.code == 0
    for words in ("SOFTMAX_WEIGHTS", "POSITION_CAP", "CASH", "ORDER", "buy"):
        assert words in shown.out
    # The same bars by a file, and all of the file's later bars are cut off.
    by_file = rl("decide", run, "--bars", data / "prices.csv", "--asof", "2020-07-15", "--cash", 10_000, "--json").json
    assert by_file["assets"] == found["assets"]
    assert by_file["orders"] == found["orders"]
    held = tmp_path / "held.csv"
    held.write_text("symbol,quantity\nAAA,100\nCASH,5000\n")
    other = rl("decide", run, "--asof", "2020-07-15", "--positions", held, "--json").json
    assert (other["cash"], other["assets"][0]["held"] > 0.3) == (5000.0, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--cash", 1), "--asof DATE"),
        (("--asof", "2020-07-15"), "--cash X or --positions FILE"),
        (("--asof", "2020-01-15", "--cash", 1), "--start"),
        (("--asof", "2031-01-15", "--cash", 1), "--bars FILE"),
        (("--asof", "yesterday", "--cash", 1), "2017-06-30"),
        (("--asof", "2020-07-15", "--cash", "nan"), "finite"),
        (("--asof", "2020-07-15", "--positions", "none.csv"), "not there"),
        (("--asof", "2020-07-15", "--bars", "none.csv", "--cash", 1), "not there"),
        (("--asof", "2020-07-15", "--cash", 1, "--unvalidated"), "model:ID"),
    ],
)
def test_what_cannot_be_decided_says_what_is_missing(rl, run, arguments, words):
    answer = rl("decide", run, *arguments)
    assert answer.code == 2, answer.err
    assert words in " ".join(answer.err.split())


def test_a_decision_conforms_to_its_schema(run):
    document = conforming("decide", Settings.load(), run_or_model=run, asof="2020-07-15", cash=10_000.0)
    assert [row["symbol"] for row in document["assets"]] == ["AAA", "BBB"]


def test_a_model_decides_too(rl, run):
    (model,) = rl("models", "list", "--json").json
    refused = rl("decide", f"model:{model['id']}", "--asof", "2020-07-15", "--cash", 10_000)
    assert refused.code == 2
    arguments = ("--unvalidated", "--asof", "2020-07-15", "--cash", 10_000, "--json")
    found = rl("decide", f"model:{model['id']}", *arguments).json
    by_run = rl("decide", run, "--asof", "2020-07-15", "--cash", 10_000, "--json").json
    assert found["model_id"] == model["id"]
    assert found["assets"] == by_run["assets"]
    assert rl("decide", "model:champion", "--asof", "2020-07-15", "--cash", 1).code == 2


def test_the_kill_switch_refuses_and_offline_does_not(rl, run):
    assert rl("halt", "--reason", "enough").code == 0
    refused = rl("decide", run, "--asof", "2020-07-15", "--cash", 10_000)
    assert (refused.code, "enough" in refused.err) == (2, True)
    assert rl("decide", run, "--asof", "2020-07-15", "--cash", 10_000, "--offline").code == 0
