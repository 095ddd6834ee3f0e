"""Nothing is unpickled, evaluated or imported by a name that a file gives."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "alphaswarm_rl"
DANGEROUS_MODULES = {"pickle", "cloudpickle", "dill", "shelve", "marshal", "joblib"}
DANGEROUS_CALLS = {"eval", "exec", "compile", "__import__"}
#: The only places that import a module by name: entry points and --plugin, extras, and tables of our own.
MAY_IMPORT = {
    "__init__.py",
    "agents/sb3/model.py",
    "cli/lazy.py",
    "core/catalogue.py",
    "core/errors.py",
    "data_pipelines/__init__.py",
    "operations/operation.py",
    "options/__init__.py",
    "runtime/__init__.py",
    "settings.py",
    "statistics/__init__.py",
    "telemetry/exporters.py",
    "terminations/__init__.py",
}

#: The only place that reads tensors of somebody else's file.
READS_TENSORS = "agents/sb3/zip_file.py"


def findings():
    for path in PACKAGE.rglob("*.py"):
        where = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                yield from (f"{where}: {name}" for name in names if name.partition(".")[0] in DANGEROUS_MODULES)
            if isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                if isinstance(node.func, ast.Name) and name in DANGEROUS_CALLS:
                    yield f"{where}: {name}"
                if name == "import_module" and where not in MAY_IMPORT:
                    yield f"{where}: {name}"
                called = ast.unparse(node.func) if name == "load" else ""
                harmless = where == READS_TENSORS and _tensors_alone(node)
                if called in {"torch.load", "yaml.load", "np.load", "numpy.load"} and not harmless:
                    yield f"{where}: {called}"


def _tensors_alone(call):
    """Whether torch is told to build tensors and to refuse everything else."""
    return any(word.arg == "weights_only" and ast.unparse(word.value) == "True" for word in call.keywords)


def test_there_is_no_way_for_a_file_to_run_code():
    assert sorted(findings()) == []
