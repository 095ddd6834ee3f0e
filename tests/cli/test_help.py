"""Help, lazy loading, completion and the names the command is installed under."""

import inspect
import subprocess
import sys
import time
from importlib.metadata import entry_points, version

import click
import pytest

from alphaswarm_rl.cli import rl as root

HEAVY = ("torch", "pandas", "sqlalchemy", "mlflow", "gymnasium", "numpy", "pydantic", "rich")


def leaves(command=root, path=()):
    """Every command below a group, with the words that call it."""
    if not isinstance(command, click.Group):
        return [(path, command)]
    context = click.Context(command)
    return [
        leaf
        for name in command.list_commands(context)
        for leaf in leaves(command.get_command(context, name), (*path, name))
    ]


LEAVES = leaves()
IDS = [" ".join(path) for path, _ in LEAVES]


def test_help_loads_nothing_heavy():
    code = (
        "import sys, runpy; sys.argv = ['rl', '--help']\n"
        "try: runpy.run_module('alphaswarm_rl.cli', run_name='__main__')\n"
        f"finally: print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Commands:" in done.stdout
    assert done.stderr.strip() == "[]"


def test_help_takes_little_time():
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "alphaswarm_rl.cli", "--help"], capture_output=True, check=True)
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 0.6


@pytest.mark.parametrize("name", root.entries)
def test_the_table_says_what_the_command_says(name):
    command = root.entries[name].load()
    assert inspect.cleandoc(command.help).partition("\n")[0] == root.entries[name].line
    assert command.name == (root.entries[name].alias_of or name)


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=IDS)
def test_every_command_has_help_and_the_global_options(rl, path, command):
    answer = rl(*path, "--help")
    assert answer.code == 0
    for flag in ("--json", "--debug", "--plugin", "--home", "--db-url", "--settings", "--log-level"):
        assert flag in answer.out
    # Nothing of our own docstrings' sections is for users.
    assert "Args:" not in answer.out


def test_help_documents_the_exit_codes(rl):
    out = rl("--help").out
    for code in ("0  it went well", "1  a run failed", "2  wrong input", "3  halted"):
        assert code in out


def test_an_option_that_would_do_nothing_is_refused_with_the_reason(rl, random_spec):
    assert "--tracking-uri" in rl("train", "--help").out
    answer = rl("train", random_spec, "--tracking-uri", "http://localhost:1")
    assert answer.code == 2
    assert "the back-end local writes plain files" in answer.err


def test_an_unknown_command_proposes_the_nearest(rl):
    answer = rl("trian")
    assert answer.code == 2
    assert "'train'" in answer.err


def test_version(rl):
    assert version("alphaswarm-rl") in rl("--version").out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(rl, shell):
    answer = rl("completion", shell)
    assert answer.code == 0
    assert "_RL_COMPLETE" in answer.out
    assert rl("completion", shell, "--json").json["shell"] == shell


def test_completion_refuses_another_shell(rl):
    assert rl("completion", "cmd").code == 2


def test_completion_completes(monkeypatch):
    monkeypatch.setenv("_RL_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "rl re")
    monkeypatch.setenv("COMP_CWORD", "1")
    done = subprocess.run([sys.executable, "-m", "alphaswarm_rl.cli"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["plain,replay", "plain,resume"]


@pytest.mark.parametrize(
    ("script", "verb"),
    [
        ("rl-train", "rl train"),
        ("rl-eval", "rl evaluate"),
        ("rl-infer", "rl infer"),
        ("introspect-options", "rl options"),
    ],
)
def test_other_names_are_verbs(script, verb, monkeypatch, capsys):
    (point,) = entry_points(group="console_scripts", name=script)
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    with pytest.raises(SystemExit) as exit_:
        point.load()()
    assert exit_.value.code == 0
    assert f"Usage: {verb}" in capsys.readouterr().out
