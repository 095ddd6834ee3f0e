"""`rl sql`, and `rl runs equity`, `rewards`, `actions` and `trajectories`."""

import subprocess
import sys

import pytest

from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.delivery import deliver_all
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.ledger import Ledger
from tests.lake.rows import RUN, spool
from tests.ledger.samples import SampleSpec

#: Begins with the same eight digits.
OTHER = RUN[:9] + "7" + RUN[10:]
VERBS = {"equity": "equity_curves", "rewards": "reward_decomposition", "actions": "action_logs"}


@pytest.fixture
def lake(settings):
    with Lake(settings) as lake:
        yield lake


def record(lake, run_id=RUN, number=1, *, delivered=True, **more):
    """A run in the ledger with recorded steps; gives its spec's hash."""
    with Ledger.open(lake.settings) as ledger:
        version = ledger.persist_spec(SampleSpec(number=number))
        if run_id not in [row.id for row in ledger.runs()]:
            ledger.create_run(version_id=version.id, target="train", seed=1, id=run_id)
    spool(lake, run_id, spec_hash=version.spec_hash, **more)
    if delivered:
        deliver_all(lake, lambda segments: None)
    return version.spec_hash


def test_sql_prints_a_table(rl, lake):
    record(lake)
    answer = rl("sql", "SELECT run_id, count(*) AS steps, sum(reward) AS reward FROM rl_trajectories GROUP BY ALL")
    assert answer.code == 0, answer.err
    assert [line.split() for line in answer.out.splitlines()] == [["run_id", "steps", "reward"], [RUN, "3", "1.5"]]


def test_sql_as_json(rl, lake):
    record(lake)
    query = "SELECT ts, action, sum(step)::HUGEINT AS n, DATE '2024-01-31' AS day, 0.5::DECIMAL(2, 1) AS half "
    answer = rl("sql", query + "FROM rl_trajectories WHERE step = 1 GROUP BY ALL", "--json")
    assert answer.json == {
        "columns": ["ts", "action", "n", "day", "half"],
        "rows": [["1970-01-02T00:00:00+00:00", [0.25, -0.5], 1, "2024-01-31", 0.5]],
    }


@pytest.mark.parametrize(
    "statement", ["SELECT * FROM rl_fills", "SELECT count(*) FROM rl_fills JOIN RL_POSITIONS USING (step)"]
)
def test_a_question_about_steps_that_nobody_recorded_says_so(rl, home, statement):
    answer = rl("sql", statement, "--json")
    assert answer.code == 0
    named = "rl_positions, rl_fills" if "POSITIONS" in statement else "rl_fills"
    assert f"notice: no table of {named} is there yet" in answer.err
    assert "rl train SPEC" in answer.err


def test_only_what_is_asked_for_and_not_there_is_told(rl, lake):
    record(lake)
    assert "no table" not in rl("sql", "SELECT * FROM rl_trajectories JOIN runs ON run_id = runs.id").err
    assert "no table" not in rl("sql", "SELECT 1 AS rl_one").err


def test_a_process_that_asked_says_nothing_but_the_answer(home):
    """DuckDB's bindings complain at the end of a process about what was never collected."""
    command = [sys.executable, "-m", "alphaswarm_rl.cli", "sql", "SELECT 1 AS one"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (["one", "1"], "")


def test_sql_without_any_run(rl):
    for kind in KINDS:
        assert rl("sql", f"SELECT count(*) AS n FROM rl_{kind}", "--json").json["rows"] == [[0]]


def test_sql_on_one_run_and_on_one_spec(rl, lake):
    own = record(lake)
    record(lake, OTHER, 2)
    for kind in KINDS:
        of_run = rl("sql", f"SELECT DISTINCT run_id FROM rl_{kind}_run_111111112222", "--json")
        of_spec = rl("sql", f'SELECT DISTINCT run_id FROM alphaswarm_silver_rl_{kind}."{own}"', "--json")
        assert of_run.json["rows"] == of_spec.json["rows"] == [[RUN]]


def test_sql_on_a_run_that_is_not_there(rl, lake):
    record(lake)
    answer = rl("sql", "FROM rl_equity_curves_run_abcdefabcdef")
    assert answer.code == 2
    assert "abcdefab-cdef" in answer.err


def test_sql_says_when_there_is_more(rl, lake):
    record(lake)
    answer = rl("sql", "FROM rl_trajectories", "--limit", 2, "--json")
    assert len(answer.json["rows"]) == 2
    assert "--limit" in answer.err
    assert rl("sql", "FROM rl_trajectories", "--limit", 3).err == ""


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("SELEC 1", "SELEC"),
        ("SELECT rewrd FROM rl_trajectories", "rewrd"),
        ("FROM rl_trajectory", "rl_trajectory"),
        ("SELECT 1; SELECT 2", "not 2"),
        ("", "not 0"),
        ("FROM 'nowhere.csv'", "nowhere.csv"),
    ],
)
def test_a_mistake_in_sql_is_an_error_that_names_the_views(rl, statement, word):
    answer = rl("sql", statement)
    assert answer.code == 2
    assert word in answer.err
    assert "rl_reward_decomposition" in answer.err


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO 'written'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'written'",
        "EXPLAIN (ANALYZE) COPY (SELECT 1) TO 'written'",
        "explain /* and */ analyze COPY (SELECT 1) TO 'written'",
        "ATTACH 'written' AS other",
        "EXPORT DATABASE 'written'",
        "CREATE TABLE mine AS SELECT 1",
        "DROP VIEW rl_trajectories",
        "SET threads = 1",
        "INSTALL httpfs",
    ],
)
def test_sql_only_reads(rl, tmp_path, statement):
    answer = rl("sql", statement)
    assert answer.code == 2
    assert "rl sql only reads" in answer.err
    assert not (tmp_path / "work" / "written").exists()


def test_a_pivot_names_its_values(rl, lake):
    record(lake)
    answer = rl("sql", "PIVOT rl_trajectories ON phase USING sum(reward)")
    assert answer.code == 2
    assert "IN (...)" in answer.err
    assert rl("sql", "PIVOT rl_trajectories ON phase IN ('train') USING sum(reward)").code == 0


def test_sql_explains_and_describes(rl, lake):
    record(lake)
    plan = rl("sql", f"EXPLAIN SELECT reward FROM rl_trajectories WHERE run_id = '{RUN}'")
    assert plan.code == 0
    assert len(plan.out.splitlines()) > 2
    assert rl("sql", "EXPLAIN ANALYZE FROM rl_trajectories").code == 0
    assert "portfolio_value" in rl("sql", "DESCRIBE rl_equity_curves").out


@pytest.mark.parametrize(
    ("statement", "proposed"),
    [
        ("SELECT portfolio_valu FROM rl_equity_curves", '"portfolio_value"'),
        ("SELECT * FROM rl_equity_curve", 'Did you mean "rl_equity_curves'),
    ],
)
def test_a_name_that_is_misspelt_is_answered_with_the_nearest(rl, lake, statement, proposed):
    record(lake)
    answer = rl("sql", statement)
    assert answer.code == 2
    assert proposed in answer.err.partition("remedy:")[0]
    assert "LINE 1" not in answer.err


def test_tables_of_the_engine_are_not_proposed(rl, lake):
    record(lake)
    answer = rl("sql", "SELECT * FROM nowhere")
    assert answer.code == 2
    assert "nowhere does not exist" in answer.err
    assert "pg_" not in answer.err


def test_a_damaged_file_is_no_mistake_in_the_sql(rl, lake):
    record(lake)
    (file,) = lake.files("rl.trajectories")
    lake.path(file.location).unlink()
    answer = rl("sql", "FROM rl_trajectories")
    assert answer.code == 1
    assert "rl lake verify" in answer.err


def test_tables_of_other_names(rl, lake, monkeypatch, tmp_path):
    monkeypatch.setenv("ALPHASWARM_RL_TRAJECTORY_NAMESPACE", "mine")
    assert rl("sql", "SELECT count(*) AS n FROM rl_trajectories", "--json").json["rows"] == [[0]]
    record(lake)
    back = ("--trajectory-namespace", "rl", "--json")
    assert rl("sql", "SELECT count(*) AS n FROM rl_trajectories", *back).json["rows"] == [[3]]
    assert len(rl("runs", "equity", "latest", *back).json["rows"]) == 3


@pytest.mark.parametrize("verb", [*VERBS, "trajectories"])
def test_steps_come_in_order(rl, lake, verb):
    record(lake, env_idx=1, episodes=2)
    record(lake, number=1, phase="evaluate")
    document = rl("runs", verb, RUN[:12], "--json").json
    assert document["run_id"] == RUN
    assert document["undelivered"] == 0
    keys = [tuple(row[name] for name in ("phase", "env_idx", "episode", "step")) for row in document["rows"]]
    assert keys == sorted(keys)
    assert set(keys) == {("evaluate", 0, 0, step) for step in range(3)} | {
        ("train", 1, episode, step) for episode in range(2) for step in range(3)
    }


def test_choosing_steps(rl, lake):
    record(lake, episodes=2)
    record(lake, phase="evaluate", env_idx=1)

    def found(*options):
        return len(rl("runs", "equity", "latest", *options, "--json").json["rows"])

    assert found() == 9
    assert found("--phase", "evaluate") == 3
    assert found("--episode", 0) == 6
    assert found("--env-idx", 0, "--episode", 1) == 3
    assert found("--limit", 2) == 2
    assert "--limit" in rl("runs", "equity", "latest", "--limit", 2).err
    assert rl("runs", "equity", "latest", "--phase", "holiday").code == 2
    none = rl("runs", "equity", "latest", "--episode", 7, "--phase", "train")
    assert none.out == "there are no such rows: the run has others, but none of phase train, episode 7\n"


def test_steps_as_text_leave_out_what_is_null(rl, lake):
    record(lake)
    titles = rl("runs", "trajectories", "latest").out.splitlines()[0]
    assert "OBS HASH" in titles
    assert "LOG PROB" not in titles
    assert "RUN ID" not in titles


def test_what_is_not_delivered_is_told(rl, lake):
    record(lake)
    record(lake, delivered=False, phase="evaluate")
    answer = rl("runs", "equity", "latest", "--json")
    assert len(answer.json["rows"]) == 3
    assert answer.json["undelivered"] == 6  # a segment of each table
    assert "notice: 6 segments are not in the tables yet: rl lake commit" in answer.err


@pytest.mark.parametrize(
    ("verb", "why"), [("equity", "no account"), ("rewards", "terms"), ("actions", "no components")]
)
def test_a_run_without_such_rows_says_why(rl, lake, verb, why):
    record(lake, kinds=["trajectories"])
    answer = rl("runs", verb, "latest")
    assert answer.code == 0
    assert why in answer.out


def test_a_run_of_which_nothing_is_there_says_why(rl, lake):
    record(lake, delivered=False)
    assert "not in the tables yet" in rl("runs", "equity", "latest").out
    for path in lake.spool.rglob("*.parquet"):
        path.unlink()
    assert "delivered none yet" in rl("runs", "trajectories", "latest").out
    with Ledger.open(lake.settings) as ledger:
        ledger.finish_run(RUN, "completed")
    assert "nothing of the run was recorded" in rl("runs", "trajectories", "latest").out
    with Ledger.open(lake.settings) as ledger:
        ledger.update_run(RUN, recording={"store": "memory"})
    assert "in memory" in rl("runs", "trajectories", "latest").out
    with Ledger.open(lake.settings) as ledger:
        ledger.mark_removed(RUN)
    assert "was removed" in rl("runs", "trajectories", RUN).out


def test_steps_in_a_damaged_file_are_an_error(rl, lake):
    record(lake)
    (file,) = lake.files("rl.equity_curves")
    lake.path(file.location).write_bytes(b"not Parquet")
    answer = rl("runs", "equity", "latest")
    assert answer.code == 1
    assert "rl lake verify" in answer.err
