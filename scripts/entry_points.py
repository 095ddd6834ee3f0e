"""Keeps the entry points of pyproject.toml equal to the modules that define components.

`--check` fails on a difference; without it the table is printed for pasting.
"""

import ast
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "alphaswarm_rl"
GROUP = "alphaswarm_rl.components"


def component_modules() -> dict[str, str]:
    """Every module with a class that sets `rl_alias`, by the name its entry point has."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        if any(_sets_alias(statement) for node in classes for statement in node.body):
            parts = path.relative_to(PACKAGE).with_suffix("").parts
            found[".".join(parts)] = ".".join(("alphaswarm_rl", *parts))
    return found


def _sets_alias(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "rl_alias" for target in statement.targets
    )


def main() -> int:
    """Compares or prints."""
    wanted = component_modules()
    if "--check" in sys.argv:
        declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"][
            GROUP
        ]
        if declared != wanted:
            sys.stderr.write(
                f"entry points differ from the source: {sorted(set(declared.items()) ^ set(wanted.items()))}\n"
            )
            sys.stderr.write("Paste the output of scripts/entry_points.py into pyproject.toml.\n")
            return 1
        sys.stdout.write(f"{len(wanted)} component modules\n")
        return 0
    for name, module in wanted.items():
        sys.stdout.write(f'"{name}" = "{module}"\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
