"""`rl bench truth` trains, judges, and says how much of the optimum is reached."""

from pathlib import Path

import pytest

from alphaswarm_rl.bench.truth_tasks import TASKS

AGENT = ("--agent", "ppo", "--steps", "8192")


def test_it_says_fraction_interval_and_optimum(rl, home):
    document = rl("bench", "truth", "regime", *AGENT, "--seeds", "2", "--json").json
    (row,) = document["rows"]
    assert (row["task"], row["agent"], row["needed"]) == ("regime", "ppo", 0.95)
    assert row["low"] < row["fraction"] < row["high"]
    assert row["j_opt"] == pytest.approx(TASKS["regime"].solution().j_opt)
    assert [seed["seed"] for seed in row["seeds"]] == [101, 102]
    assert {seed["steps"] for seed in row["seeds"]} == {8192}
    assert len({seed["spec_hash"] for seed in row["seeds"]}) == 1
    runs = rl("runs", "list", "--json").json
    assert {seed["run_id"] for seed in row["seeds"]} <= {run["id"] for run in runs}


def test_without_a_home_nothing_is_left(rl, monkeypatch):
    monkeypatch.delenv("ALPHASWARM_RL_HOME")
    answer = rl("bench", "truth", "noise", *AGENT, "--seeds", "1")
    assert answer.code == 0, answer.err
    assert "of the random policy's" in answer.out
    assert list(Path.cwd().iterdir()) == []


def test_docs_are_written_where_they_belong(rl):
    refused = rl("bench", "truth", "noise", *AGENT, "--docs")
    assert refused.code == 2
    assert "docs/results" in refused.err
    page = Path("docs/results/truth.md")
    page.parent.mkdir(parents=True)
    assert rl("bench", "truth", "merton", *AGENT, "--seeds", "1", "--docs").code == 0
    text = page.read_text()
    assert "`rl bench truth merton --agent ppo --seeds 1 --steps 8192`" in text
    assert "| merton | ppo | 1 |" in text


@pytest.mark.parametrize("wrong", [("ouu",), ("--steps", "5000001"), ("--seeds", "0"), ("--agent", "nobody", "ou")])
def test_wrong_input_is_refused(rl, wrong):
    answer = rl("bench", "truth", *wrong)
    assert answer.code == 2, answer.out


def test_one_task_is_learnt_to_its_bound(rl):
    (row,) = rl("bench", "truth", "regime", "--steps", "65536", "--seeds", "2", "--json").json["rows"]
    assert row["agent"] == "ppo_inhouse"
    assert row["reached"] is True, row["low"]
    assert row["warnings"] == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_whole_suite_reaches_its_bounds(rl):
    document = rl("bench", "truth", "--json").json
    assert {row["task"]: row["reached"] for row in document["rows"]} == dict.fromkeys(TASKS, True)
