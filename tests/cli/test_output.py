"""Text is only text: hostile strings are refused where somebody gives them, and escaped wherever they are shown."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from alphaswarm_rl import cli
from alphaswarm_rl.cli.text import columns, pairs, shown
from alphaswarm_rl.ledger import Ledger, tables
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.tables import models, promotions
from alphaswarm_rl.settings import Settings

from .calling import RANDOM

#: A colour, a title of the window, a C1 sequence, a line that looks like ours, a carriage return, reversed text.
HOSTILE = "x\x1b[31mred\x1b]0;title\x07\x9b2J\x7f\nerror: forged\r\u202etxet\u2028end"
SHOWN = r"x\u001b[31mred\u001b]0;title\u0007\u009b2J\u007f"
#: All that may be on a terminal beside plain text is the end of a line.
NOT_PLAIN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
FILES = sorted(Path(cli.__file__).parent.glob("*.py"))


def assert_plain(answer):
    for text in (answer.out, answer.err):
        found = NOT_PLAIN.search(text)
        assert found is None, (hex(ord(found[0])), text)
        assert "\nerror: forged" not in text


def test_tables_are_laid_out_after_their_cells_are_escaped():
    assert columns(("A", "B\x1b"), [("\x1b", "b"), ("longer", "c\nd")]) == [
        r"A       B\u001b",
        r"\u001b  b",
        "longer  c d",
    ]
    assert pairs({"name\x9b": "a\x07", "none": None}) == [r"name\u009b  a\u0007"]
    assert shown({"k\x1b": ["v\x1b"]}) == r"k\u001b=v\u001b"


#: Whatever could write to a terminal past `cli/output.py`.
_OUT = {"echo", "secho", "print", "print_exc", "print_exception", "print_stack", "show", "confirm", "prompt", "pause"}
_OUT |= {"echo_via_pager", "writelines", "print_help"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_is_printed_but_by_the_one_way_out(path):
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            found += [called] if called in _OUT else []
            if called == "write":  # of a session, which is `put`
                found += [] if ast.unparse(node.func) in ("session.write", "self.write") else [ast.unparse(node.func)]
    assert found == (["echo", "echo", "confirm"] if path.name == "output.py" else [])


def test_the_search_for_other_ways_out_finds_them():
    code = "import click\nclick.echo('x')\nprint('x')\nsys.stdout.write('x')\ntraceback.print_exc()\n"
    calls = [node.func for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    names = {call.attr if isinstance(call, ast.Attribute) else call.id for call in calls}
    assert names - {"write"} <= _OUT


# What somebody gives us.


def yaml_text(text):
    return json.dumps(text)  # JSON's escapes are YAML's


_SPECS = {
    "name": RANDOM.replace("tiny random", yaml_text(HOSTILE)),
    "tag": f"{RANDOM}mlflow: {{tags: {{team: {yaml_text(HOSTILE)}}}}}\n",
    "tag name": f"{RANDOM}mlflow: {{tags: {{{yaml_text(HOSTILE)}: blue}}}}\n",
    "experiment": f"{RANDOM}mlflow: {{experiment: {yaml_text(HOSTILE)}}}\n",
    "model name": f"{RANDOM}mlflow: {{register_model_as: {yaml_text(HOSTILE)}}}\n",
    "symbol": f"{RANDOM}universe: {{symbols: [{yaml_text('AA' + chr(0x1B))}]}}\n",
    "slug": f"{RANDOM}slug: {yaml_text(HOSTILE)}\n",
}


@pytest.mark.parametrize("field", _SPECS)
def test_a_spec_with_a_hostile_name_is_refused(rl, tmp_path, field):
    path = tmp_path / "hostile.yaml"
    path.write_text(_SPECS[field])
    for command in (("train", path), ("spec", "validate", path)):
        answer = rl(*command)
        assert answer.code == 2
        if field != "slug":  # which has a pattern of its own
            assert "it contains the control character U+001B" in answer.err + answer.out
        assert_plain(answer)
    assert rl("runs", "list", "--json").json == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "SPEC", "--run-name", HOSTILE),
        ("train", "SPEC", "--experiment-name", HOSTILE),
        ("halt", "--reason", HOSTILE),
        ("halt", "--release", "--reason", HOSTILE),
    ],
    ids=lambda arguments: " ".join(arguments).replace(HOSTILE, "HOSTILE"),
)
def test_a_hostile_word_on_the_command_line_is_refused(rl, ppo_spec, arguments):
    given = [ppo_spec if word == "SPEC" else word for word in arguments]
    answer = rl(*given)
    assert answer.code == 2, answer.out
    assert "it contains the control character U+001B" in answer.err
    assert_plain(answer)
    refused = rl(*given, "--json")
    assert refused.error["why"].endswith("it contains the control character U+001B")
    assert (rl("halt", "--log", "--json").json, rl("runs", "list", "--json").json) == ([], [])


METRICS = json.dumps(
    {"mean_reward": 1.0, "std_reward": 0.0, "episodes": 1, "mean_episode_length": 1.0, "total_timesteps": 256}
)


@pytest.mark.parametrize(
    "arguments",
    [
        ("models", "promote", "1", "--reason", HOSTILE),
        ("models", "promote", "1", "--reason", "good", "--who", HOSTILE),
        ("models", "promote", "1", "--reason", "good", "--alias", HOSTILE),
        ("models", "protect", "1", "--reason", HOSTILE),
        ("models", "add", "CHECKPOINT", METRICS, "--tag", HOSTILE),
    ],
    ids=lambda arguments: " ".join(arguments).replace(HOSTILE, "HOSTILE"),
)
def test_a_hostile_word_about_a_model_is_refused(rl, trained, arguments):
    answer = rl(*(trained["checkpoint"] if word == "CHECKPOINT" else word for word in arguments))
    assert answer.code == 2, answer.out
    assert "it contains the control character U+001B" in answer.err
    assert_plain(answer)
    (model,) = rl("models", "list", "--json").json
    assert (model["deployment_status"], model["tags"], model["aliases"]) == ("staging", [], [])


def test_a_hostile_name_of_a_run_in_an_environment_variable_is_refused(rl, ppo_spec, monkeypatch):
    monkeypatch.setenv("RL_STORE_RUN_NAME", HOSTILE)
    answer = rl("train", ppo_spec)
    assert (answer.code, "U+001B" in answer.err) == (2, True)
    assert_plain(answer)


def test_a_hostile_symbol_in_data_is_refused(rl, tmp_path):
    data = Settings().data_path / "bars.csv"
    rows = [f"2024-01-{day:02d},A\x1b[31mA,{day}.0" for day in range(1, 21)]
    data.write_text("\n".join(["date,symbol,close", *rows]) + "\n")
    path = tmp_path / "hostile.yaml"
    path.write_text(
        "name: hostile data\nenv: {class: stock_trading}\nagent: {class: random}\n"
        "data_pipeline: {class: csv, kwargs: {path: bars.csv}}\ntraining: {total_timesteps: 4}\n"
    )
    answer = rl("train", path)
    assert answer.code == 2, answer.err
    assert "the name of asset 0" in answer.err
    assert "U+001B" in answer.err
    assert_plain(answer)


@pytest.mark.parametrize("mistaken", [("train", HOSTILE), ("nonsense\x1b[2J",), ("train", "--gama\x1b[2J", "1")])
def test_a_mistake_is_shown_escaped(rl, mistaken):
    for more in ((), ("--debug",), ("--json",)):
        answer = rl(*mistaken, *more)
        assert answer.code == 2
        assert_plain(answer)


def test_bytes_that_are_no_text_are_shown_escaped(tmp_path):
    command = [sys.executable, "-m", "alphaswarm_rl.cli", "train", b"\xff\x1b[31m.yaml"]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, check=False, env=os.environ)
    assert done.returncode == 2
    assert rb"\udcff\x1b[31m.yaml" in done.stderr
    assert b"internal error" not in done.stderr


# What others left.


@pytest.fixture
def poisoned(home, trained):
    """A home whose ledger and registry hold hostile text wherever text can be; the id of its run."""
    settings, run = Settings(home=home), trained["run_id"]
    hostile_key = {HOSTILE: 1.5, "text": HOSTILE}
    with Ledger.open(settings) as ledger:
        ledger.append_event(run, ledger.next_seq(run), "train.step", ledger.run(run).created_at, hostile_key)
        ledger.engage(run, "halted", "tester")
        with ledger.engine.begin() as connection:
            for statement in (
                sa.update(tables.specs).values(name=HOSTILE, description=HOSTILE, annotations=[HOSTILE]),
                sa.update(tables.runs).values(
                    name=HOSTILE,
                    family=HOSTILE,
                    error=HOSTILE,
                    notices=[HOSTILE],
                    halt_reason=HOSTILE,
                    host=HOSTILE,
                    device=HOSTILE,
                    result_summary=hostile_key,
                    overrides={HOSTILE: {"value": HOSTILE, "source": HOSTILE}},
                    arguments=hostile_key,
                ),
                sa.update(tables.evaluations).values(metrics={"window_start": HOSTILE, "window_end": HOSTILE}),
                sa.update(tables.kill_switch).values(reason=HOSTILE, set_by=HOSTILE),
                sa.insert(tables.kill_switch_log).values(
                    scope=run, action="engage", reason=HOSTILE, actor=HOSTILE, at=ledger.run(run).created_at
                ),
            ):
                connection.execute(statement)
    with ModelRegistry.open(settings) as registry:
        registry.set_alias(1, "canary", who="tester", why="why")
        with registry.engine.begin() as connection:
            connection.execute(sa.update(models).values(env_id=HOSTILE, tags=[HOSTILE], git_commit=HOSTILE))
            row = dict(connection.execute(sa.select(promotions)).mappings().one())
            connection.execute(sa.insert(promotions).values({**row, "id": 99, "who": HOSTILE, "why": HOSTILE}))
    folder = settings.tracking_path / "journal"
    (folder / f"{run}.state.json").write_text(json.dumps({"offset": 0, "problem": HOSTILE, "set_aside": [HOSTILE]}))
    return run


_SQL = f"select '{HOSTILE}' as \"a\x1bb\", count(*) from rl_trajectories"

COMMANDS = [
    ("runs", "list"),
    ("runs", "show", "RUN"),
    ("runs", "events", "RUN"),
    ("runs", "trajectories", "RUN", "--limit", "3"),
    ("runs", "equity", "RUN", "--limit", "3"),
    ("runs", "positions", "RUN", "--limit", "3"),
    ("runs", "fills", "RUN", "--asof", "2020-03-23"),
    ("runs", "holdings", "RUN"),
    ("runs", "gc", "--dry-run"),
    ("specs", "list"),
    ("specs", "versions", "tiny-ppo"),
    ("specs", "trials", "tiny-ppo"),
    ("spec", "show", "RUN"),
    ("spec", "diff", "RUN", "cartpole_random"),
    ("halt", "--status"),
    ("halt", "--log"),
    ("models", "list"),
    ("models", "show", "1"),
    ("models", "validate", "1", "--dry-run"),
    ("models", "prune", "--dry-run"),
    ("store", "status"),
    ("sql", _SQL),
    ("sql", f"explain {_SQL}"),
    ("lake", "status"),
    ("doctor",),
    ("resume", "RUN"),
    ("evaluate", "RUN"),
    ("infer", "--run", "RUN"),
    ("runs", "rm", "RUN"),
]


def test_every_command_shows_hostile_text_escaped(rl, poisoned):
    showing = set()
    for command in COMMANDS:
        arguments = [poisoned if word == "RUN" else word for word in command]
        answer = rl(*arguments)
        assert "internal error" not in answer.err, (command, answer.err)
        assert_plain(answer)
        if SHOWN in answer.out + answer.err:
            showing.add(" ".join(command[:2]))
        assert_plain(rl(*arguments, "--json", "--log-level", "debug"))
    assert showing >= {
        *("runs list", "runs show", "runs events", "specs list", "halt --status", "halt --log"),
        *("models list", "models show", "store status", f"sql {_SQL}", "resume RUN"),
    }


def test_json_is_what_was_stored(rl, poisoned):
    shown_run = rl("runs", "show", poisoned, "--json").json["run"]
    assert (shown_run["name"], shown_run["error"], shown_run["notices"]) == (HOSTILE, HOSTILE, [HOSTILE])
    assert shown_run["result_summary"] == {HOSTILE: 1.5, "text": HOSTILE}
    assert rl("halt", "--log", "--json").json[-1]["reason"] == HOSTILE
    answered = rl("sql", _SQL, "--json").json
    assert (answered["columns"][0], answered["rows"][0][0]) == ("a\x1bb", HOSTILE)
    events = rl("runs", "events", poisoned, "--json").json
    assert events[-1]["payload"][HOSTILE] == 1.5


PLUGIN = f"""
import logging, warnings

logging.getLogger("alphaswarm_rl.hostile").warning({HOSTILE!r})
warnings.warn({HOSTILE!r})
raise RuntimeError({HOSTILE!r})
"""


@pytest.mark.parametrize("debug", [(), ("--debug",)], ids=["", "debug"])
def test_what_a_plugin_says_and_fails_with_is_shown_escaped(rl, random_spec, debug):
    Path("hostile_words.py").write_text(PLUGIN)
    sys.modules.pop("hostile_words", None)
    answer = rl("train", random_spec, "--plugin", "hostile_words", *debug)
    assert answer.code != 0
    assert SHOWN in answer.err
    assert_plain(answer)
