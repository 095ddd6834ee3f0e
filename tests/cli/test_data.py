"""`rl data`, `rl spec validate --data`, `rl train --dry-run`."""

import json
from xml.etree import ElementTree

import pytest

from tests.data_pipelines.broken_files import BROKEN, clean, of, times

SPEC = """\
name: Own bars
data_pipeline: {{class: csv, kwargs: {{path: {path}, features: [returns_1]}}}}
env: {{class: stock_portfolio}}
agent: {{class: {agent}}}
training: {{total_timesteps: 512, n_envs: 4, start: 2020-03-01, end: 2021-06-01}}
evaluation: {{start: 2021-06-01}}
"""


@pytest.fixture
def spoilt():
    """A close x 1000, an unmarked 4:1 split and 50 missing bars."""
    frame = times(times(clean(), "AAA", 200, 600, 0.25), "BBB", 250, 251, 1000.0)
    return frame.drop(of(frame, "CCC", 100, 150))


@pytest.fixture
def spec(tmp_path, monkeypatch, rl, spoilt):
    """Writes a spec beside spoilt bars, in the working directory."""

    def write(path="bars.csv", agent="ppo_inhouse"):
        (tmp_path / "work" / "own.yaml").write_text(SPEC.format(path=path, agent=agent))
        return "own.yaml"

    spoilt.to_csv(tmp_path / "work" / "bars.csv", index=False)
    return write


def test_a_clean_file_is_clean(rl, tmp_path):
    clean().to_csv(tmp_path / "bars.csv", index=False)
    answer = rl("data", "check", tmp_path / "bars.csv")
    assert answer.code == 0
    assert "3 assets, 600 bars from 2020-01-01 to 2022-04-19 (1 day, Monday to Friday)" in answer.out
    assert "nothing looks wrong" in answer.out
    document = rl("data", "check", tmp_path / "bars.csv", "--json").json
    assert document["clean"] is True
    assert (document["errors"], document["warnings"], document["findings"]) == (0, 0, [])
    assert "coverage" not in document


@pytest.mark.parametrize("defect", ["suspected_split", "bad_price"])
def test_what_is_wrong_is_named_and_ends_with_one(defect, rl, tmp_path):
    BROKEN[defect](clean()).to_csv(tmp_path / "bars.csv", index=False)
    answer = rl("data", "check", tmp_path / "bars.csv")
    assert answer.code == 1
    assert defect in answer.out
    document = rl("data", "check", tmp_path / "bars.csv", "--json").json
    (found,) = document["findings"]
    assert found["defect"] == defect
    assert found["remedy"]
    assert document["clean"] is False


def test_a_file_without_known_columns_is_answered_with_those_that_it_has(rl, tmp_path):
    (tmp_path / "own.csv").write_text("day,px\n2020-01-01,1.5\n")
    answer = rl("data", "check", tmp_path / "own.csv", "--asset", "A")
    assert answer.code == 1
    assert answer.out.count("the table has 'day', 'px'\n") == 2
    assert answer.out.splitlines()[-1] == "2 errors, 0 warnings"
    (tmp_path / "wide.csv").write_text(",".join(["date", *(f"px{number}" for number in range(12))]) + "\n")
    answer = rl("data", "check", tmp_path / "wide.csv", "--asset", "A")
    assert "'px10' and 1 more\n" in answer.out
    assert "'px11'" not in answer.out
    assert answer.out.splitlines()[-1] == "1 error, 0 warnings"


def test_a_named_column_that_lacks_is_answered_with_those_that_it_has(rl, tmp_path):
    (tmp_path / "own.csv").write_text("day,sym,px\n2020-01-01,A,1.5\n")
    found = rl("data", "check", tmp_path / "own.csv", "--column", "close=Schluss", "--json").json["findings"]
    assert [each["text"] for each in found] == ["the data has no such column. Known: day, px, sym."]


def test_other_separators_and_decimal_commas_are_named_and_then_read(rl, tmp_path):
    clean().to_csv(tmp_path / "bars.csv", index=False, sep=";", decimal=",")
    answer = rl("data", "check", tmp_path / "bars.csv")
    assert answer.code == 1
    assert "other_separator" in answer.out
    assert "its cells are separated by ';'" in answer.out
    # Both signs at once: what it says is all that is needed.
    assert "(rl data check: --separator ';' --decimal ,)" in answer.out
    answer = rl("data", "check", tmp_path / "bars.csv", "--separator", ";", "--json")
    assert answer.code == 1
    # One cause is one line, whatever the assets and columns.
    (found,) = answer.json["findings"]
    assert (found["defect"], found["asset"]) == ("not_a_number", None)
    assert found["count"] == 5 * len(clean())
    assert found["text"].endswith(
        "is the decimal sign, set the parameter decimal of csv: ',' (rl data check: --decimal ,)"
    )
    signs = ("--separator", ";", "--decimal", ",")
    shown = rl("data", "show", tmp_path / "bars.csv", *signs, "--json").json
    assert shown["findings"] == []
    assert shown["pipeline"]["kwargs"] == {"path": "bars.csv", "separator": ";", "decimal": ","}
    clean().to_csv(tmp_path / "plain.csv", index=False)
    plain = rl("data", "show", tmp_path / "plain.csv", "--json").json
    assert shown["fingerprint"] == plain["fingerprint"]
    answer = rl("data", "check", tmp_path / "plain.csv", "--separator", ";")
    assert "its cells are separated by ','" in answer.out
    # Points are the decimal sign, and commas count thousands.
    clean().assign(volume="12,345").to_csv(tmp_path / "points.csv", index=False, sep=";")
    answer = rl("data", "check", tmp_path / "points.csv")
    assert "(rl data check: --separator ';')" in answer.out
    assert rl("data", "check", tmp_path / "plain.csv", "--separator", ",", "--decimal", ",").code == 2
    clean().to_parquet(tmp_path / "bars.parquet")
    assert rl("data", "check", tmp_path / "bars.parquet", "--separator", ";").code == 2


def test_a_training_on_another_separator_is_refused_by_the_parameter(rl, tmp_path):
    clean().to_csv(tmp_path / "work" / "bars.csv", index=False, sep="\t")
    (tmp_path / "work" / "own.yaml").write_text(SPEC.format(path="bars.csv", agent="equal_weight"))
    for command in (("train", "own.yaml", "--dry-run"), ("spec", "validate", "own.yaml", "--data")):
        refused = rl(*command)
        assert refused.code == 2
        assert "its cells are separated by 'tab'" in refused.out + refused.err
        assert "Set the parameter separator of csv: 'tab'" in refused.out + refused.err
    text = SPEC.format(path="bars.csv, separator: tab", agent="equal_weight")
    (tmp_path / "work" / "own.yaml").write_text(text)
    assert rl("train", "own.yaml", "--dry-run").code == 0


def test_columns_of_a_file_are_said_by_flags_and_shown_as_a_spec_has_them(rl, tmp_path):
    own = {"date": "Tag", "asset": "WKN", "close": "Schluss"}
    clean().rename(columns=own).to_csv(tmp_path / "own.csv", index=False)
    assert rl("data", "check", tmp_path / "own.csv").code == 1
    flags = ["--column", "timestamp=Tag", "--column", "asset=WKN", "--column", "close=Schluss"]
    document = rl("data", "show", tmp_path / "own.csv", *flags, "--json").json
    assert document["columns"] == {"timestamp": "Tag", "asset": "WKN", "close": "Schluss"}
    columns = {"timestamp": "Tag", "asset": "WKN", "close": "Schluss"}
    assert document["pipeline"] == {"class": "csv", "kwargs": {"path": "own.csv", "columns": columns}}
    assert [row["bars"] for row in document["coverage"]] == [600, 600, 600]
    assert "picture" not in document


def test_wide_files_are_read_by_their_pattern(rl, tmp_path):
    wide = clean().pivot(index="date", columns="asset", values=["close", "volume"])
    wide.columns = [f"{asset}|{column}" for column, asset in wide.columns]
    wide.to_parquet(tmp_path / "wide.parquet")
    answer = rl("data", "check", tmp_path / "wide.parquet", "--wide-columns", "{asset}|{column}", "--json")
    assert (answer.code, answer.json["assets"], answer.json["rows"]) == (0, 3, 1800)


def test_show_says_what_there_is_and_draws_it(rl, tmp_path, spoilt):
    spoilt.to_csv(tmp_path / "bars.csv", index=False)
    answer = rl("data", "show", tmp_path / "bars.csv", "--picture", tmp_path / "bars.svg")
    assert answer.code == 0
    for line in (
        "periods_per_year  252",
        "days              Monday to Friday",
        "CCC    550",
        f"wrote {tmp_path}/bars.svg",
    ):
        assert line in answer.out
    drawn = ElementTree.parse(tmp_path / "bars.svg").getroot()
    texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"AAA", "BBB", "CCC", "1 unmarked split", "50 missing bars that others have"} <= set(texts)
    marks = list(drawn.iter("{http://www.w3.org/2000/svg}title"))
    assert [mark.text.split()[0] for mark in marks] == ["AAA", "BBB", "CCC"]


def test_a_picture_has_no_markup_of_a_name(rl, tmp_path):
    frame = clean().replace({"asset": {"AAA": '<script x="&">'}})
    times(frame, "BBB", 300, 600, 0.25).to_csv(tmp_path / "bars.csv", index=False)
    assert rl("data", "show", tmp_path / "bars.csv", "--picture", tmp_path / "bars.svg").code == 0
    drawn = ElementTree.parse(tmp_path / "bars.svg").getroot()
    assert not list(drawn.iter("{http://www.w3.org/2000/svg}script"))
    assert '<script x="&">' in [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]


def test_a_spec_is_looked_at_through_its_pipeline(rl, spec, home):
    answer = rl("data", "check", spec(), "--json")
    assert answer.code == 1
    assert [found["defect"] for found in answer.json["findings"]] == ["suspected_split", "spike", "gap"]
    assert rl("data", "show", "gbm_daily_spec_that_is_not_there").code == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nothing.csv"], "it is not there"),
        (["cartpole_ppo"], "it has no data_pipeline to look at"),
        (["cartpole_ppo", "--asset", "X"], "they are of a file"),
        (["bars.csv", "--column", "close"], "each is MEANING=NAME"),
        (["bars.csv", "--column", "price=px"], "neither a part of a bar"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(arguments, text, rl, spec):
    answer = rl("data", "check", *arguments)
    assert answer.code == 2
    assert text in answer.err


def test_validate_with_data_reads_files_dates_and_shapes(rl, spec, home):
    answer = rl("spec", "validate", spec(), "--data")
    assert answer.code == 0
    assert "notice: data: 1 unmarked split: AAA 2020-10-07" in answer.out
    assert not home.exists()
    assert rl("spec", "validate", spec(path="none.csv")).code == 0
    broken = rl("spec", "validate", spec(path="none.csv"), "--data")
    assert broken.code == 2
    assert "it is not there" in broken.out
    for line, text in {
        "evaluation: {start: 2030-01-01}": "There are bars from",
        "training: {start: 2010-01-01, end: 2011-01-01, total_timesteps: 64}": "There are bars from",
        "observation: {class: technical_indicators, kwargs: {features: [rsi_30]}}": "rsi_30",
    }.items():
        section = line.partition(":")[0]
        kept = [row for row in SPEC.format(path="bars.csv", agent="ppo").splitlines() if not row.startswith(section)]
        (home.parent / "work" / "own.yaml").write_text("\n".join([*kept, line]))
        broken = rl("spec", "validate", "own.yaml", "--data", "--json")
        assert broken.code == 2, line
        assert text in str(broken.json["specs"][0]["error"]), line


def test_a_spec_that_is_only_evaluated_is_validated_as_one(rl, home):
    (home.parent / "work" / "rule.yaml").write_text(
        "name: rule\nkind: evaluation\ndata_pipeline: {class: synthetic}\nenv: {class: stock_portfolio}\n"
        "observation: {class: portfolio_state}\nagent: {class: equal_weight}\nevaluation: {start: 2021-01-01}\n"
    )
    assert rl("spec", "validate", "rule.yaml", "--data").code == 0


def test_a_dry_run_goes_up_to_the_first_step_and_writes_nothing(rl, spec, home, tmp_path):
    before = sorted(path for path in (tmp_path / "work").rglob("*"))
    path = spec()
    answer = rl("train", path, "--dry-run", "--json")
    plan = answer.json
    assert answer.code == 0
    assert (plan["total_timesteps"], plan["num_envs"], plan["vector_steps"]) == (512, 4, 128)
    assert plan["rollouts"] == -(-512 // plan["rollout_transitions"])
    assert plan["windows"]["training"]["first_bar"] == "2020-03-02"
    assert plan["windows"]["evaluation"]["last_bar"] == "2022-04-19"
    assert plan["trading_costs"]["commission_rate"] == 0.0005
    assert plan["trading_costs"]["fill"] == "next_open"
    assert len([notice for notice in plan["notices"] if notice.startswith("data: ")]) == 3
    assert not home.exists()
    assert sorted(path for path in (tmp_path / "work").rglob("*")) == sorted([*before, tmp_path / "work" / "own.yaml"])
    lines = rl("train", path, "--dry-run").out
    assert "nothing was written" in lines
    assert "half_spread_bps" in lines


def test_a_dry_run_and_the_run_agree(rl, spec):
    path = spec(agent="equal_weight")
    plan = rl("train", path, "--dry-run", "--json").json
    run = rl("train", path, "--json").json
    assert (run["spec_hash"], run["seed"]) == (plan["spec_hash"], plan["seed"])
    shown = rl("runs", "show", run["run_id"], "--json").json
    assert json.dumps(shown).count(plan["data_fingerprint"]) >= 1


def test_a_run_tells_what_is_wrong_before_it_begins_and_keeps_it_in_its_row(rl, spec, home):
    answer = rl("train", spec(agent="equal_weight"), "--json")
    notices = [notice for notice in answer.json["notices"] if notice.startswith("data: ")]
    assert [notice.partition(":")[2].split()[0] for notice in notices] == ["1", "1", "50"]
    places = ("AAA 2020-10-07", "BBB 2020-12-16", "CCC 2020-05-20")
    assert all(place in notice for place, notice in zip(places, notices, strict=True))
    lines = [json.loads(line) for line in next((home / "logs").glob("*.jsonl")).read_text().splitlines()]
    (loaded,) = [line for line in lines if line["stage"] == "data.loaded"]
    assert set(notices) <= set(loaded["notices"])
    # On the way, before anything is built: who waits can stop it.
    assert all(notice in answer.err for notice in notices)
