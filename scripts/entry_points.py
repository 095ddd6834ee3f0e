"""Keeps the entry points of pyproject.toml, the index of our components, equal to the classes in the source.

`--check` fails on a difference; `--write` writes the table anew; without either it is printed.
"""

import ast
import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path

from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.component import RLComponent

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "alphaswarm_rl"
PYPROJECT = ROOT / "pyproject.toml"
GROUP = "alphaswarm_rl.components"


def component_modules() -> list[str]:
    """Every module with a class that sets `rl_alias`."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        if any(_sets_alias(statement) for node in classes for statement in node.body):
            found.append(".".join(("alphaswarm_rl", *path.relative_to(PACKAGE).with_suffix("").parts)))
    return found


def _sets_alias(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "rl_alias" for target in statement.targets
    )


def index() -> dict[str, str]:
    """`kind.name` of every alias and short name, with the class that it means."""
    catalogue._index = dict  # what is installed may be of before a move
    entries = {}
    for name in component_modules():
        classes = [cls for cls in vars(import_module(name)).values() if isinstance(cls, type)]
        for cls in classes:
            if issubclass(cls, RLComponent) and cls.__module__ == name and "rl_alias" in vars(cls):
                for alias in (cls.rl_alias, *cls.rl_short_names):
                    entries[f"{cls.rl_kind}.{alias}"] = f"{name}:{cls.__qualname__}"
    return dict(sorted(entries.items()))


def main() -> int:
    """Compares, writes or prints."""
    expected = index()
    table = "".join(f'"{name}" = "{value}"\n' for name, value in expected.items())
    text = PYPROJECT.read_text(encoding="utf-8")
    if "--write" in sys.argv:
        heading = f'[project.entry-points."{GROUP}"]\n'
        PYPROJECT.write_text(re.sub(f'(?<={re.escape(heading)})(".*\\n)*', lambda _: table, text), encoding="utf-8")
    elif "--check" in sys.argv:
        declared = tomllib.loads(text)["project"]["entry-points"][GROUP]
        if declared != expected:
            different = sorted(set(declared.items()) ^ set(expected.items()))
            sys.stderr.write(
                f"entry points differ from the source: {different}\nRun scripts/entry_points.py --write.\n"
            )
            return 1
        sys.stdout.write(f"{len(expected)} names of components\n")
    else:
        sys.stdout.write(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
