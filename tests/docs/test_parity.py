"""What is there is documented."""

import tomllib

import click

from alphaswarm_rl.cli import reporting
from alphaswarm_rl.cli.root import rl
from alphaswarm_rl.core import catalogue, errors
from alphaswarm_rl.ledger.runs import ENDED, LIVE
from alphaswarm_rl.options.table import OPTIONS
from alphaswarm_rl.runtime import RunFailed
from alphaswarm_rl.runtime.events import STAGES
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.spec.diff import flatten
from tests.docs.pages import DOCS, ROOT


def text(name):
    return (DOCS / name).read_text(encoding="utf-8")


def commands(command, context):
    if not isinstance(command, click.Group):
        return [context.command_path]
    found = []
    for name in command.list_commands(context):
        sub = command.get_command(context, name)
        found += commands(sub, click.Context(sub, info_name=name, parent=context))
    return found


def error_classes():
    return [error for error in vars(errors).values() if isinstance(error, type) and error.__module__ == errors.__name__]


def missing(words, page):
    return [word for word in words if word not in text(page)]


def test_every_command_is_documented():
    assert missing([f"`{path}" for path in commands(rl, click.Context(rl, info_name="rl"))], "cli.md") == []


def test_every_installed_name_is_documented():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert missing([f"`{name}" for name in scripts], "cli.md") == []


def test_every_option_is_documented_with_every_name():
    assert (
        missing([f"`{name}`" for option in OPTIONS for name in (option.key, option.flags, *option.env)], "options.md")
        == []
    )


def test_every_spec_field_is_documented():
    fields = flatten(RLExperimentSpec(name="x").canonical())
    assert missing([f"`{path}`" for path in fields], "spec.md") == []


def test_every_setting_is_documented():
    assert missing([f"`{option.path}`" for option in OPTIONS if option.target == "settings"], "settings.md") == []


def test_every_exit_code_is_documented():
    codes = {reporting.OK, reporting.BROKEN, reporting.WRONG_INPUT, reporting.HALTED}
    assert {error.exit_code for error in [*error_classes(), RunFailed]} <= codes
    assert missing([f"| {code} |" for code in codes], "cli.md") == []


def test_every_error_is_documented():
    assert missing([f"`{error.__name__}`" for error in error_classes()], "core.md") == []


def test_every_stage_and_state_is_documented():
    assert missing([f"`{stage}`" for stage in STAGES], "runtime.md") == []
    assert missing([f"`{state}`" for state in (*LIVE, *ENDED)], "overview.md") == []


def test_every_kind_and_component_is_documented():
    ours = [cls for cls in catalogue.listing() if cls.__module__.startswith("alphaswarm_rl.")]
    assert missing([f"## {cls.rl_kind}-{cls.rl_alias}\n" for cls in ours], "rl-components.md") == []
    kinds = [kind for kind, base in catalogue.kinds().items() if base.__module__.startswith("alphaswarm_rl.")]
    assert missing([f"`{kind}`" for kind in kinds], "rl-components.md") == []


def test_every_preset_is_documented():
    names = [path.stem for path in (ROOT / "src" / "alphaswarm_rl" / "configs").rglob("*.yaml")]
    assert missing([f"`{name}`" for name in names], "configs.md") == []


def test_every_extra_is_documented():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    names = ("envs", "db", "data_pipelines", "overfitting", "tracking", "telemetry", "tuning", "backtesting")
    pages = "".join(text(f"{name}.md") for name in names)
    assert [extra for extra in extras if extra not in ("all", "dev") and f"`{extra}`" not in pages] == []
