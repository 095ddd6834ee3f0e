"""Every verb once: each `rl` command parses, calls its one operation and prints."""

import ast
import dataclasses
import inspect
import sys
import textwrap
from importlib import import_module
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import click
import pytest

from alphaswarm_rl import cli
from alphaswarm_rl.cli import rl as root
from alphaswarm_rl.operations.data import plain
from alphaswarm_rl.operations.operation import Operation, RequestError, operations
from alphaswarm_rl.options.click_options import TableOption
from alphaswarm_rl.options.table import EVERY, OPTIONS

#: Commands that start a face or describe one, and do nothing that another face could need.
OF_THE_FACE = {"completion"}
#: Operations whose face is no `rl` command: `make demo`.
WITHOUT_COMMAND = {"demo"}
#: A command's statements after its docstring, in lines: it parses, calls and prints.
MOST_LINES = 25

#: The library that draws in a terminal, and the module that may use it.
DRAWS = {"plot": "plotext"}

FACES = Path(cli.__file__).parent
FILES = sorted(FACES.glob("*.py"))
#: What a face may raise: how it ends, and that its own words cannot be read.
RAISES = ("click.exceptions.Exit(", "click.UsageError(", "click.Abort", "click.BadParameter(")
#: Signals end the process as Ctrl-C does.
OTHER_RAISES = {"__init__": ("KeyboardInterrupt",)}
OPERATIONS = operations()


def commands(command=root, words=()):
    """Every command by its words, without other names of the same."""
    if not isinstance(command, click.Group):
        return {".".join(words): command}
    context, aliases = click.Context(command), getattr(command, "entries", {})
    names = [name for name in command.list_commands(context) if getattr(aliases.get(name), "alias_of", None) is None]
    found = {}
    for name in names:
        found |= commands(command.get_command(context, name), (*words, name))
    return found


COMMANDS = commands()
VERBS = sorted(set(COMMANDS) - OF_THE_FACE)


def function_of(name):
    """A command's own function, and its syntax tree."""
    function = inspect.unwrap(COMMANDS[name].callback)
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    return function, tree


def called(name):
    """The operations that a command's function imports, by local name, and how often each is called."""
    _, tree = function_of(name)
    imported = {
        alias.asname or alias.name: getattr(import_module(node.module), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    found = {local: value for local, value in imported.items() if isinstance(value, Operation)}
    calls = [node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return found, [local for local in calls if local in found]


def test_every_command_has_its_operation_and_every_operation_its_command():
    assert set(COMMANDS) - OF_THE_FACE == set(OPERATIONS) - WITHOUT_COMMAND


@pytest.mark.parametrize("name", VERBS)
def test_a_command_calls_exactly_its_operation(name):
    found, calls = called(name)
    assert [made.name for made in found.values()] == [name]
    assert calls == list(found)


@pytest.mark.parametrize("name", VERBS)
def test_a_command_only_parses_calls_and_prints(name):
    function, tree = function_of(name)
    first = next(node for node in tree.body if not _is_docstring(node))
    assert tree.end_lineno - first.lineno + 1 <= MOST_LINES, f"{function.__module__}.{function.__name__}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_face_refuses_nothing_itself(path):
    """Whatever is refused is refused by the operation; a face may only say that its own words cannot be read."""
    tree = ast.parse(path.read_text())
    raised = [ast.unparse(node.exc) for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc is not None]
    others = OTHER_RAISES.get(path.stem, ())
    assert [text for text in raised if not text.startswith((*RAISES, *others))] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_face_takes_operations_and_their_data_alone(path):
    """Everything that a face, its helpers included, imports from operations is an operation or a class of data."""
    for name, value in taken(ast.parse(path.read_text())).items():
        is_type = inspect.isclass(value) or get_origin(value) is not None
        assert isinstance(value, Operation) or is_type or value is plain, name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_only_commands_take_operations(path):
    """A helper is handed a result: no command calls a second operation behind its back."""
    commands_of_file = {inspect.unwrap(COMMANDS[name].callback).__name__ for name in VERBS} | {"main"}
    for function in functions(path):
        if function.name not in commands_of_file:
            assert not any(isinstance(value, Operation) for value in taken(function).values()), function.name


@pytest.mark.parametrize("path", [path for path in FILES if path.stem not in OF_THE_FACE], ids=lambda path: path.stem)
def test_a_face_shows_the_result_as_it_is(path):
    """The document of an answer is what the operation gave: a face builds none of its own."""
    for function in functions(path):
        made = {ast.unparse(node.targets[0]): node.value for node in ast.walk(function) if isinstance(node, ast.Assign)}
        given = {parameter.arg for parameter in function.args.args}
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "session.answer":
                document = ast.unparse(node.args[0])
                if document in given and document not in made:
                    continue
                called_name = ast.unparse(made[document].func)
                assert isinstance(taken(function)[called_name], Operation), ast.unparse(node)


def functions(path):
    """Every function and method of a file."""
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]


def taken(tree):
    """What a part of a file imports from operations, by local name."""
    return {
        alias.asname or alias.name: getattr(import_module(node.module), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("alphaswarm_rl.operations")
        for alias in node.names
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_faces_import_operations_and_what_is_light(path):
    allowed = ("alphaswarm_rl.cli", "alphaswarm_rl.operations", "alphaswarm_rl.core", "alphaswarm_rl.options")
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            package = name.partition(".")[0]
            if package == "alphaswarm_rl":
                assert name.startswith(allowed) or name == "alphaswarm_rl.settings", f"{path.name}: {name}"
            else:
                known = package in ("click", DRAWS.get(path.stem)) or package in sys.stdlib_module_names
                assert known, f"{path.name}: {name}"


@pytest.mark.parametrize("made", OPERATIONS.values(), ids=list(OPERATIONS))
def test_requests_and_results_are_frozen_and_have_schemas(made):
    for cls in (made.request, *(get_args(made.result) or (made.result,))):
        assert dataclasses.is_dataclass(cls), cls
        assert cls.__dataclass_params__.frozen, cls
    request, result = made.schemas()
    assert request.get("type") == "object"
    assert result


@pytest.mark.parametrize("made", OPERATIONS.values(), ids=list(OPERATIONS))
def test_an_operation_takes_settings_a_request_and_what_only_a_live_caller_has(made):
    settings, request, *live = inspect.signature(made.run).parameters.values()
    assert (settings.name, request.name) == ("settings", "request")
    for parameter in live:
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.default is not inspect.Parameter.empty
    assert made.purpose.endswith(".")
    assert get_type_hints(made.request) is not None


def test_the_table_of_options_names_commands_that_exist():
    groups = {name.rpartition(".")[0] for name in COMMANDS}
    named = {verb for option in OPTIONS for verb in (*option.verbs, *option.refused_by)}
    assert named - {EVERY} <= set(COMMANDS) | groups
    for name, command in COMMANDS.items():
        taken = {param.row for param in command.params if isinstance(param, TableOption)}
        expected = {row for row in OPTIONS if row.belongs_to(name) or EVERY in row.verbs or name in row.refused_by}
        assert taken == expected, name


def test_a_request_whose_fields_do_not_go_together_is_a_mistake_in_the_command_line():
    from click.testing import CliRunner

    with pytest.raises(RequestError, match="--reason"):
        OPERATIONS["halt"](None, OPERATIONS["halt"].request())
    done = CliRunner().invoke(root, ["halt"])
    assert done.exit_code == 2
    assert "why: Missing option '--reason'" in done.stderr
    outside = CliRunner().invoke(root, ["runs", "list", "--status", "nonsense"])
    assert outside.exit_code == 2
    assert "why: status: Input should be 'pending'" in outside.stderr


def _is_docstring(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
