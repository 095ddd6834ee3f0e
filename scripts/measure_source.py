"""Measures the package: code lines, lengths, complexity, how much is typed `Any`, riddling names.

`--check` fails where a limit is broken; `--list` names what is above a limit. Kernels, functions that Numba or Triton
compile, may be long: calls inside them cost what they save elsewhere. Stored migrations stay as they were written.
"""

import ast
import io
import re
import statistics
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from radon.complexity import cc_visit

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "alphaswarm_rl"
LONGEST_FUNCTION = 60
MOST_COMPLEX = 15
MOST_ANY = 0.05
#: What says nothing of a type: `Any`, and the aliases of `core.types` that are made of it.
ANYTHING = {"Any", "Batch", "JsonObject", "JsonMapping"}
#: Words that say nothing about a thing; names are the plain nouns and verbs of the field.
RIDDLES = re.compile(r"(^|_)(told|said|its|wanted|there)(_|$)")
#: Where names are looked at.
_NAMED = ("src", "tests", "benchmarks", "scripts")
_COMPILED = ("njit", "jit")
#: Stored migrations: what they did is never written anew.
_STORED = Path("db/migrations")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def code_lines(source: str) -> int:
    """Lines that hold code: no blanks, comments or docstrings."""
    tree = ast.parse(source)
    prose: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in skipped:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - prose)


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function and method."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def is_kernel(function: Function) -> bool:
    """Whether Numba or Triton compile it."""
    for decorator in function.decorator_list:
        name = decorator.func if isinstance(decorator, ast.Call) else decorator
        if (name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")) in _COMPILED:
            return True
    return False


def parameters(function: Function) -> list[ast.arg]:
    """Its parameters but for self and cls."""
    given = function.args
    listed = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [one for one in listed if one is not None and one.arg not in ("self", "cls")]


def is_any(parameter: ast.arg) -> bool:
    """Whether its annotation says `Any` somewhere, or a name that stands for it."""
    words = [] if parameter.annotation is None else re.findall(r"\w+", ast.unparse(parameter.annotation))
    return not ANYTHING.isdisjoint(words)


def names(tree: ast.AST) -> Iterator[str]:
    """Every name that the source gives: functions, classes, parameters, variables, attributes."""
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def riddling_names() -> list[str]:
    """Places of names that say nothing, in the package, its tests, benchmarks and scripts; tests are sentences."""
    found = []
    for path in sorted(path for folder in _NAMED for path in (ROOT / folder).rglob("*.py")):
        for name in names(ast.parse(path.read_text(encoding="utf-8"))):
            if RIDDLES.search(name) and not name.startswith("test_"):
                found.append(f"{path.relative_to(ROOT)}: {name}")
    return found


def main() -> int:
    """Prints the figures, and with `--list` the places."""
    sources = {path.relative_to(PACKAGE): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    long, complex_, anys, total = [], [], [], 0
    for path, source in sources.items():
        tree = ast.parse(source)
        kernels = {function.name for function in functions(tree) if is_kernel(function)}
        for function in functions(tree):
            length = (function.end_lineno or 0) - function.lineno + 1
            if length > LONGEST_FUNCTION and function.name not in kernels and not path.is_relative_to(_STORED):
                long.append(f"{path}:{function.lineno} {function.name}: {length} lines")
            total += len(parameters(function))
            anys += [f"{path}:{one.lineno} {function.name}({one.arg})" for one in parameters(function) if is_any(one)]
        complex_ += [
            f"{path}:{block.lineno} {block.name}: complexity {block.complexity}"
            for block in _blocks(source)
            if block.complexity > MOST_COMPLEX and block.name not in kernels
        ]
    riddles = riddling_names()
    share = len(anys) / total
    lengths = [len(source.splitlines()) for source in sources.values()]
    figures = {
        "files": len(sources),
        "lines": sum(lengths),
        "code lines": sum(map(code_lines, sources.values())),
        "median file": int(statistics.median(lengths)),
        "longest file": max(lengths),
        f"functions over {LONGEST_FUNCTION} lines": len(long),
        f"functions of complexity over {MOST_COMPLEX}": len(complex_),
        "parameters typed Any": f"{share:.1%} of {total}",
        "riddling names": len(riddles),
    }
    for name, figure in figures.items():
        sys.stdout.write(f"{name}: {figure}\n")
    if "--list" in sys.argv:
        sys.stdout.write("\n".join([*long, *complex_, *anys, *riddles]) + "\n")
    broken = bool(long or complex_ or share > MOST_ANY or riddles)
    return 1 if broken and "--check" in sys.argv else 0


def _blocks(source: str) -> Iterator[object]:
    for block in cc_visit(source):
        yield from getattr(block, "methods", ()) or [block]


if __name__ == "__main__":
    sys.exit(main())
