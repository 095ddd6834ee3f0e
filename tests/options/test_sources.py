"""Each option, set by each face, is the same value at the same place, or the same refusal."""

import dataclasses

import click
import pytest
from click.testing import CliRunner

from alphaswarm_rl.core.errors import OptionError, PartNotHere
from alphaswarm_rl.core.yaml import dump_yaml
from alphaswarm_rl.options.click_options import TableOption, given
from alphaswarm_rl.options.paths import set_value, value_at
from alphaswarm_rl.options.resolve import effective_spec, starting_spec
from alphaswarm_rl.options.settings import load_settings, named_plugins
from alphaswarm_rl.options.sources import Given, read_sources, refuse_absent_part
from alphaswarm_rl.options.table import BY_KEY, OPTIONS
from alphaswarm_rl.spec import RLExperimentSpec

from .samples import SAMPLES

SPEC = [option for option in OPTIONS if option.target == "spec"]
SETTINGS = [option for option in OPTIONS if option.target == "settings"]


def by_key(options):
    return pytest.mark.parametrize("option", options, ids=[option.key for option in options])


def from_command_line(*arguments):
    """The flags as a real command receives them."""
    seen = {}

    @click.command(params=[click.Argument(["spec"], required=False), *map(TableOption, OPTIONS)])
    def command(**params):
        seen.update(given(params))

    result = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return seen


def flag(option):
    text, value = SAMPLES[option.key]
    if option.type.is_boolean:
        return [option.flag if value else option.off_flag]
    return [option.flag, text]


def plain(value):
    return list(value) if isinstance(value, tuple) else value


def settings_file(folder, option):
    data = {}
    value = plain(SAMPLES[option.key][1])
    set_value(data, option.path, value if isinstance(value, str | int | float | list | None) else str(value))
    path = folder / "chosen.yaml"
    path.write_text(dump_yaml(data))
    return path


def test_every_option_has_a_sample_that_is_not_its_default():
    assert list(SAMPLES) == [option.key for option in OPTIONS]
    for option in OPTIONS:
        text, value = SAMPLES[option.key]
        assert option.type.read(text) == value != option.default


@by_key(SPEC)
def test_spec_options(option):
    text, value = SAMPLES[option.key]
    data = starting_spec().canonical()
    if option.key == "agent.algorithm":  # what the starting spec chose goes with it, the rest is a2c's own
        chosen = {"encoder": "mlp", "net_arch": [64, 64]}
        data["agent"] = {"class": value, "kwargs": chosen}
    else:
        set_value(data, "env.kwargs.id" if option.path == "env" else option.path, plain(value))
    expected = RLExperimentSpec.from_data(data)
    by_file = effective_spec(expected, {}, {})
    assert by_file.sources == {}

    by_flag = effective_spec(None, from_command_line(*flag(option)), {})
    assert by_flag.spec == by_file.spec == expected != starting_spec()
    assert by_flag.spec.spec_hash == expected.spec_hash
    ((path, source),) = by_flag.sources.items()
    assert source == {"value": plain(value), "source": f"flag {flag(option)[0]}"}
    assert value_at(by_flag.spec.canonical(), path) == plain(value)

    for name in option.env_names:
        by_env = effective_spec(None, {}, {name: text})
        assert by_env.spec == expected
        assert by_env.sources == {path: {"value": plain(value), "source": f"ENV {name}"}}


@by_key(SETTINGS)
def test_an_option_whose_part_is_not_here_is_refused_unless_it_says_its_default(option):
    """No option waits for its part today; one that does is not accepted and ignored."""
    waiting = dataclasses.replace(option, part="paper trading")
    value = SAMPLES[option.key][1]
    assert value != option.default
    with pytest.raises(PartNotHere, match=r"paper trading.*not part of this version") as caught:
        refuse_absent_part(Given(waiting, value, f"flag {option.flag}"))
    assert option.key in caught.value.what
    assert option.flag in caught.value.what
    refuse_absent_part(Given(waiting, option.default, f"flag {option.flag}"))


@by_key(SETTINGS)
def test_settings_options(option, tmp_path):
    text, value = SAMPLES[option.key]
    by_flag = load_settings(from_command_line(*flag(option)), {})
    by_file = load_settings({}, {}, settings_file(tmp_path, option))
    assert by_flag == by_file != load_settings({}, {})
    assert value_at(by_flag.model_dump(), option.path) == value
    for name in option.env_names:
        assert load_settings({}, {name: text}) == by_flag


def test_a_flag_at_its_default_hides_a_file_that_asks_for_an_absent_part(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("store: {backend: mlflow}\n")
    assert load_settings({"store.backend": "local"}, {}, path).store.backend == "local"


@pytest.mark.parametrize(
    "name", ["MLFLOW_TRACKING_URI", "WANDB_PROJECT", "OTEL_SDK_DISABLED", "OTEL_EXPORTER_OTLP_PROTOCOL"]
)
def test_foreign_names_never_cause_an_error(name):
    assert load_settings({}, {name: "http/protobuf"}) == load_settings({}, {})
    assert effective_spec(None, {}, {name: "x"}).sources == {}


def test_foreign_names_are_read_last_once_their_part_is_here():
    option = dataclasses.replace(BY_KEY["metrics.endpoint"], part=None)
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a"}
    assert [item.value for item in read_sources([option], {}, environ)] == ["http://a"]
    environ["RL_METRICS_ENDPOINT"] = "http://b"
    assert [item.value for item in read_sources([option], {}, environ)] == ["http://b"]


def test_nothing_given_is_seen_as_nothing():
    assert from_command_line("spec.yaml") == {}


def test_null_is_a_value_and_none_is_not():
    assert from_command_line("--seed", "null") == {"env.seed": "null"}
    assert effective_spec(None, {"env.seed": "null"}, {"RL_ENV_SEED": "3"}).spec.training.seed is None
    assert effective_spec(None, {"env.seed": None}, {"RL_ENV_SEED": "3"}).spec.training.seed == 3


def test_the_help_names_the_variable_the_default_and_the_choices():
    command = click.Command("train", params=[TableOption(option) for option in OPTIONS if option.target == "spec"])
    text = " ".join(CliRunner().invoke(command, ["--help"]).output.split())
    assert "--gamma NUMBER Discount factor. [ENV RL_TRAIN_GAMMA; default 0.99 without a SPEC]" in text
    assert "--learning-rate NUMBER Learning rate. [ENV RL_TRAIN_LEARNING_RATE; default 3e-4 without a SPEC]" in text
    assert "--obs-normalize [none|running|fixed]" in text
    assert "--deterministic / --no-deterministic" in text
    assert "--log-dir" not in text


def test_command_line_options_know_their_row():
    params = [TableOption(option) for option in OPTIONS]
    assert all(isinstance(param, TableOption) for param in params)
    assert [param.row for param in params] == list(OPTIONS)
    level = next(param for param in params if param.row.key == "logs.level")
    assert [item.value for item in level.type.shell_complete(None, level, "w")] == ["warn"]


def test_an_unknown_flag_key_is_an_error_with_the_nearest():
    with pytest.raises(OptionError, match=r"train\.gama.*train\.gamma"):
        effective_spec(None, {"train.gama": 1}, {})


@pytest.mark.parametrize("named", ["", "  ", "my_a,", ",my_a", "my_a, ,my_b", '[""]', '["my_a", " "]'])
def test_an_empty_name_of_a_plug_in_is_refused_by_every_face(named, tmp_path):
    for flags, environ in (
        ({"home.plugins": (named,)}, {}),
        *([({}, {"ALPHASWARM_RL_PLUGINS": named})] if named else []),
    ):
        with pytest.raises(OptionError, match=r"option home\.plugins.*has an empty name in it.*Give names"):
            load_settings(flags, environ)
        # Those too who may do without settings.
        with pytest.raises(OptionError, match="has an empty name in it"):
            named_plugins(flags, environ)
    path = tmp_path / "chosen.yaml"
    path.write_text(dump_yaml({"plugins": ["my_a", named.strip()[:0]]}))
    with pytest.raises(OptionError, match=r"chosen\.yaml.*plugins: a plug-in has no name"):
        load_settings({}, {}, path)


def test_no_plug_in_is_named_by_an_empty_list_and_by_a_variable_that_is_set_to_nothing(tmp_path):
    path = tmp_path / "chosen.yaml"
    path.write_text("plugins: [my_a]\n")
    assert load_settings({}, {"ALPHASWARM_RL_PLUGINS": ""}, path).plugins == ("my_a",)
    assert load_settings({}, {"ALPHASWARM_RL_PLUGINS": "[]"}, path).plugins == ()
    assert named_plugins({"home.plugins": ("my_b my_c",)}, {}, path) == ("my_b", "my_c")
