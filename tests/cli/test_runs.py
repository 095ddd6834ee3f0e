"""`rl runs list`, `show`, `events` and `export`."""

import csv
import json
import subprocess
import sys

from alphaswarm_rl.core.wording import PORTFOLIO_METRICS
from alphaswarm_rl.spec import RLExperimentSpec


def test_an_empty_ledger(rl):
    assert rl("runs", "list").out == "there are no such runs\n"
    assert rl("runs", "list", "--json").json == []
    assert rl("runs", "show", "latest").code == 2


def test_list(rl, trained):
    rl("evaluate", "latest")
    assert [row["target"] for row in rl("runs", "list", "--json").json] == ["evaluate", "train"]
    assert [row["id"] for row in rl("runs", "list", "--target", "train", "--json").json] == [trained["run_id"]]
    assert rl("runs", "list", "--status", "failed", "--json").json == []
    assert len(rl("runs", "list", "--limit", 1, "--json").json) == 1
    assert len(rl("runs", "list", "--slug", "tiny-ppo", "--json").json) == 2
    assert trained["run_id"][:8] in rl("runs", "list").out


def test_columns_that_no_run_fills_are_not_listed(rl, trained):
    title = rl("runs", "list").out.splitlines()[0]
    assert title.split() == ["RUN", "SPEC", "AGENT", "TARGET", "STATUS", "SEED", "STEPS", "REWARD", "STARTED"]


def test_list_sorted_chosen_and_cut(rl, trained):
    rl("evaluate", "latest")
    rows = rl("runs", "list", "--sort", "-timesteps", "--columns", "id, agent,target", "--json").json
    assert [list(row) for row in rows] == [["id", "agent", "target"]] * 2
    assert [row["agent"] for row in rows] == ["ppo", "ppo"]
    text = rl("runs", "list", "--where", "agent = ppo and target = train", "--columns", "id,mean_reward").out
    assert text.split()[:4] == ["ID", "MEAN", "REWARD", trained["run_id"]]
    assert len(text.splitlines()) == 2
    assert rl("runs", "list", "--where", "agent = dqn", "--columns", "id").out == "there are no such runs\n"
    assert {row["agent"] for row in rl("runs", "list", "--json").json} == {"ppo"}


def test_a_policy_is_listed_under_its_own_name(rl, random_spec):
    rl("evaluate", random_spec)
    assert [row["agent"] for row in rl("runs", "list", "--json").json] == ["random"]


def test_a_wrong_column_is_refused_by_the_names_of_all(rl):
    for option in ("--where", "--sort", "--columns"):
        answer = rl("runs", "list", option, "sharp > 1" if option == "--where" else "sharp")
        assert answer.code == 2
        assert "Did you mean 'sharpe'? The columns are id, " in answer.err
        assert "judged_end" in answer.err


def test_the_list_imports_nothing_heavy(home):
    code = (
        "import sys; from alphaswarm_rl.cli import rl\n"
        "rl.main(['runs', 'list', '--sort', 'sharpe', '--where', 'agent = ppo'], prog_name='rl', "
        "standalone_mode=False)\n"
        "print([name for name in ('torch', 'pandas', 'duckdb', 'pyarrow', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["there are no such runs", "[]"]


def test_list_with_wrong_input(rl, trained):
    assert "completed" in rl("runs", "list", "--status", "complete").err
    assert rl("runs", "list", "--status", "complete").code == 2
    assert rl("runs", "list", "--slug", "tiny-pp").code == 2


def test_show(rl, trained):
    child = rl("replay", trained["run_id"], "--json").json
    shown = rl("runs", "show", trained["run_id"], "--json").json
    assert shown["run"]["status"] == "completed"
    assert shown["run"]["halt_checks"] > 0
    assert shown["spec"]["slug"] == "tiny-ppo"
    assert shown["spec"]["version"] == 1
    assert [evaluation["phase"] for evaluation in shown["evaluations"]] == ["evaluate"]
    assert [checkpoint["timesteps"] for checkpoint in shown["checkpoints"]] == [256]
    assert shown["children"] == [child["run_id"]]
    text = rl("runs", "show", "latest").out
    assert "halt_checks" in text
    assert "tiny-ppo version 1" in text


TRADING = """
name: Tiny trading
env: {class: stock_trading, kwargs: {fill: next_close}}
data_pipeline: {class: synthetic, kwargs: {n_assets: 2, n_bars: 60, features: [macd]}}
agent: {class: constant, kwargs: {action: [1.0, 0.5]}}
"""


def test_show_says_how_an_account_did(rl, tmp_path):
    (tmp_path / "trading.yaml").write_text(TRADING)
    answer = rl("evaluate", tmp_path / "trading.yaml", "--json").json["metrics"]
    stored = rl("runs", "show", "latest", "--json").json
    text = rl("runs", "show", "latest").out
    for name in PORTFOLIO_METRICS:
        assert stored["run"]["result_summary"][name] == stored["evaluations"][0]["metrics"][name] == answer[name]
        assert [line.split()[0] for line in text.splitlines() if line].count(name) == 1
    assert "TOTAL RETURN  SHARPE" in text
    assert f"{answer['sortino']:.6g}" in rl("evaluate", "latest").out


def test_show_of_an_environment_without_accounts_has_no_such_columns(rl, trained):
    assert "SHARPE" not in rl("runs", "show", "latest").out


def test_events(rl, trained):
    events = rl("runs", "events", trained["run_id"], "--json").json
    later = rl("runs", "events", trained["run_id"], "--after", 3, "--follow", "--json").json
    assert later == events[3:]
    text = rl("runs", "events", trained["run_id"]).out
    assert len(text.splitlines()) == len(events)
    assert "agent.built" in text


def test_export(rl, random_spec, tmp_path):
    run = rl("train", random_spec, "--json").json
    folder = tmp_path / "exported"
    assert rl("runs", "export", run["run_id"], "--out", folder).code == 0
    assert json.loads((folder / "run.json").read_text())["id"] == run["run_id"]
    assert RLExperimentSpec.from_yaml_path(folder / "spec.yaml").spec_hash == run["spec_hash"]
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert events[-1]["stage"] == "done"
    assert len(json.loads((folder / "evaluations.json").read_text())) == 1
    episodes = list(csv.DictReader((folder / "episodes.csv").open()))
    assert episodes
    assert {episode["run_id"] for episode in episodes} == {run["run_id"]}
    again = rl("runs", "export", run["run_id"], "--out", folder)
    assert again.code == 2
    assert "not empty" in again.err
    assert rl("runs", "export", run["run_id"], "--out", random_spec).code == 2
