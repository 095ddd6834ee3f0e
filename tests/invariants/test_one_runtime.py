"""Every training goes through RLRuntime: nobody but the runtime and the agents calls an agent's train or learn."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "alphaswarm_rl"
MAY = ("runtime", "agents")


def forbidden_calls(source):
    """Lines that call `.train(...)` or `.learn(...)` on anything but a runtime, or the context of a study on it."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("train", "learn")
        and not _is_the_runtime(node.func)
    ]


def _is_the_runtime(call):
    owner = ast.unparse(call.value)
    return call.attr == "train" and (owner in ("runtime", "context") or owner.startswith("RLRuntime"))


def test_nobody_else_trains():
    found = {
        str(path.relative_to(PACKAGE)): lines
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in MAY
        and (lines := forbidden_calls(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source", ["model.learn(100)", "agent.train(env, 100, hooks)", "x.y.learn(total_timesteps=5)", "policy.train()"]
)
def test_the_search_finds_what_it_is_for(source):
    assert forbidden_calls(source) == [1]


@pytest.mark.parametrize(
    "source", ["RLRuntime(spec).train()", "runtime.train(seed=3)", "context.train(changes)", "train(env)"]
)
def test_the_search_leaves_the_runtime_alone(source):
    assert forbidden_calls(source) == []


def test_the_runtime_itself_is_found():
    assert forbidden_calls((PACKAGE / "runtime" / "train.py").read_text(encoding="utf-8"))
