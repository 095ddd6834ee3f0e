"""A component of somebody else's: by entry point, and by an operator's order."""

import os
import subprocess
import sys

PLUGIN = '''
from alphaswarm_rl.core.kinds import RewardTerm

class Bonus(RewardTerm):
    """A constant bonus."""

    rl_alias = "plugin_bonus"

    def step(self, view, state, out):
        out[...] = 1.0
'''
LIST = "from alphaswarm_rl.core import catalogue; print([cls.rl_alias for cls in catalogue.listing('reward')])"


def install(folder, module="their_rewards", target=None):
    """What pip leaves behind: a module and a dist-info folder with an entry point."""
    (folder / f"{module}.py").write_text(PLUGIN)
    info = folder / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[alphaswarm_rl.components]\ntheirs = {target or module}\n")


def python(code, folder):
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )


def test_another_distribution_joins_by_entry_point(tmp_path):
    install(tmp_path)
    done = python(LIST, tmp_path)
    assert "'plugin_bonus'" in done.stdout, done.stderr


def test_a_broken_plugin_is_named_with_its_distribution(tmp_path):
    install(tmp_path, target="no_such_module")
    done = python(LIST, tmp_path)
    assert "component module 'no_such_module' of their-package" in done.stderr
    assert "Mend or uninstall their-package" in done.stderr


def test_an_operator_names_a_plugin_on_the_command_line(tmp_path):
    (tmp_path / "loose.py").write_text(PLUGIN)
    arguments = ["components", "list", "--kind", "reward", "--plugin", "loose", "--json"]
    code = f"import sys; sys.argv[1:] = {arguments}\nfrom alphaswarm_rl.cli import main\nmain()"
    done = python(code, tmp_path)
    assert "plugin_bonus" in done.stdout, done.stderr


def test_another_distributions_module_is_imported_only_when_a_name_is_not_ours(tmp_path):
    install(tmp_path)
    look = (
        "from alphaswarm_rl.core import catalogue; import sys;"
        "print(catalogue.get('reward', '{}').rl_alias, 'their_rewards' in sys.modules)"
    )
    assert python(look.format("pnl"), tmp_path).stdout.split() == ["pnl", "False"]
    assert python(look.format("plugin_bonus"), tmp_path).stdout.split() == ["plugin_bonus", "True"]


def test_another_distribution_cannot_take_a_name_of_ours(tmp_path):
    install(tmp_path)
    (tmp_path / "their_rewards.py").write_text(PLUGIN.replace("plugin_bonus", "pnl"))
    done = python(LIST, tmp_path)
    assert "both claim it" in done.stderr
