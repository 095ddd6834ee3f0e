"""Flag before ENV before file before default, and what happens when they are wrong or disagree."""

import os
from itertools import product
from pathlib import Path

import pytest

from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.options.resolve import effective_spec, run_arguments, starting_spec
from alphaswarm_rl.options.settings import load_settings
from alphaswarm_rl.options.sources import misspelt_names
from alphaswarm_rl.options.table import OPTIONS
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec

FACES = [faces for faces in product([False, True], repeat=4) if any(faces)]


def base_with(**training):
    data = starting_spec().canonical()
    data["training"].update(training)
    return RLExperimentSpec.from_data(data)


@pytest.mark.parametrize(("flag", "long", "short", "file"), FACES)
def test_precedence_of_a_spec_field(flag, long, short, file):
    flags = {"env.nEnvs": "11"} if flag else {}
    environ = ({"ALPHASWARM_RL_ENV_N_ENVS": "12"} if long else {}) | ({"RL_ENV_N_ENVS": "13"} if short else {})
    spec = effective_spec(base_with(n_envs=14) if file else None, flags, environ).spec
    assert spec.training.n_envs == (11 if flag else 12 if long else 13 if short else 14)


@pytest.mark.parametrize(("flag", "long", "short", "file"), FACES)
def test_precedence_of_a_setting(flag, long, short, file, tmp_path):
    flags = {"store.keepLast": 11} if flag else {}
    environ = {"ALPHASWARM_RL_HOME": str(tmp_path)}
    environ |= ({"ALPHASWARM_RL_STORE_KEEP_LAST": "12"} if long else {}) | (
        {"RL_STORE_KEEP_LAST": "13"} if short else {}
    )
    if file:
        (tmp_path / "settings.yaml").write_text("store: {keep_last: 14}\n")
    assert load_settings(flags, environ).store.keep_last == (11 if flag else 12 if long else 13 if short else 14)


@pytest.mark.parametrize("no", [False, "false", "0", "no", "off"])
def test_an_explicit_false_overrides(no):
    assert effective_spec(None, {"eval.deterministic": no}, {}).spec.evaluation.deterministic is False
    text = {"RL_EVAL_DETERMINISTIC": "true"}
    assert effective_spec(None, {"eval.deterministic": no}, text).spec.evaluation.deterministic is False


def test_an_explicit_zero_overrides(tmp_path):
    assert effective_spec(base_with(seed=5), {"env.seed": 0}, {"RL_ENV_SEED": "4"}).spec.training.seed == 0
    assert effective_spec(base_with(seed=5), {}, {"RL_ENV_SEED": "0"}).spec.training.seed == 0
    assert effective_spec(None, {}, {"RL_TRAIN_GAMMA": "0"}).spec.agent.kwargs["gamma"] == 0


def test_an_empty_variable_is_not_set():
    environ = {"RL_ENV_N_ENVS": "", "ALPHASWARM_RL_ENV_N_ENVS": "", "RL_STORE_KEEP_LAST": ""}
    assert effective_spec(None, {}, environ).sources == {}
    assert load_settings({}, environ) == load_settings({}, {})


def test_two_values_under_two_names_are_an_error():
    with pytest.raises(OptionError, match="ENV RL_TRAIN_LEARNING_RATE and ENV RL_TRAIN_LR name the same option"):
        effective_spec(None, {}, {"RL_TRAIN_LEARNING_RATE": "1e-3", "RL_TRAIN_LR": "1e-4"})
    with pytest.raises(OptionError, match="ENV ALPHASWARM_RL_TRAIN_TIMESTEPS"):
        effective_spec(None, {}, {"ALPHASWARM_RL_TRAIN_TIMESTEPS": "1", "ALPHASWARM_RL_TRAIN_TOTAL_TIMESTEPS": "2"})


def test_two_spellings_of_one_value_are_none():
    environ = {"RL_TRAIN_LEARNING_RATE": "3e-4", "RL_TRAIN_LR": "0.0003"}
    assert effective_spec(None, {}, environ).spec == starting_spec()


def test_the_long_prefix_beats_the_short_one_under_any_name():
    environ = {"ALPHASWARM_RL_TRAIN_LR": "1e-3", "RL_TRAIN_LEARNING_RATE": "1e-4"}
    assert effective_spec(None, {}, environ).spec.agent.kwargs["learning_rate"] == 0.001


@pytest.mark.parametrize(
    ("key", "text", "reason", "remedy"),
    [
        ("env.nEnvs", "four", "'four' is not an integer", "Give an integer."),
        ("env.nEnvs", "4.5", "'4.5' is not an integer", "Give an integer."),
        ("env.nEnvs", True, "True is not an integer", "Give an integer."),
        ("train.gamma", "high", "'high' is not a number", "Give a number."),
        ("train.gamma", "nan", "'nan' is not finite", "Give a number."),
        ("eval.render", "maybe", "'maybe' is neither true nor false", "Give true or false."),
        ("obs.normalize", "z-score", "'z-score' is not a choice", "Give one of none, running, fixed."),
        ("obs.clipRange", "[1]", "'[1]' is not a pair", "Give a number or a JSON pair such as [-10, 10] or null."),
        ("agent.netArch", "64,64", "'64,64' is not a JSON list", "Give a JSON list such as [64, 64]."),
        ("agent.netArch", "64", "64 is not a list", "Give a JSON list such as [64, 64]."),
        ("agent.netArch", "[64, 1.5]", "1.5 is not an integer", "Give a JSON list such as [64, 64]."),
        ("env.seed", "lucky", "'lucky' is not an integer", "Give an integer, random or null."),
    ],
)
def test_a_value_that_does_not_parse(key, text, reason, remedy):
    with pytest.raises(OptionError) as caught:
        effective_spec(None, {key: text}, {})
    assert caught.value.what.startswith(f"option {key} (flag --")
    assert (caught.value.why, caught.value.remedy) == (reason, remedy)


def test_a_setting_that_does_not_parse():
    with pytest.raises(OptionError, match=r"infer\.device \(ENV RL_INFER_DEVICE\).*one of auto, cpu, cuda, mps"):
        load_settings({}, {"RL_INFER_DEVICE": "tpu"})
    with pytest.raises(OptionError, match="not a path"):
        load_settings({"store.modelDir": ""}, {})
    with pytest.raises(OptionError, match="not a text"):
        load_settings({"store.runName": 3}, {})


def test_a_value_out_of_range_names_the_option_to_blame():
    with pytest.raises(OptionError, match=r"option train\.gamma \(ENV RL_TRAIN_GAMMA\): .*less than or equal to 1"):
        effective_spec(None, {"env.nEnvs": 2}, {"RL_TRAIN_GAMMA": "1.5"})
    with pytest.raises(OptionError, match=r"option store\.keepLast \(flag --keep-last\): .*greater than or equal to 1"):
        load_settings({"store.keepLast": "0", "store.runName": "x"}, {})


def test_two_values_out_of_range_are_both_named():
    with pytest.raises(OptionError) as caught:
        effective_spec(None, {"train.gamma": "1.5", "env.nEnvs": 0}, {})
    assert "train.gamma" in caught.value.what
    assert "env.nEnvs" in caught.value.what


@pytest.mark.parametrize(
    "read", [lambda environ: effective_spec(None, {}, environ), lambda environ: load_settings({}, environ)]
)
def test_an_unknown_name_with_our_prefix_is_a_typo(read):
    with pytest.raises(OptionError, match=r"ALPHASWARM_RL_TRAIN_GAMA.*'ALPHASWARM_RL_TRAIN_GAMMA'"):
        read({"ALPHASWARM_RL_TRAIN_GAMA": "0.9"})
    with pytest.raises(OptionError, match="ALPHASWARM_RL_TRAJECTORY_NAMESPACE"):
        read({"ALPHASWARM_RL_TRAJECTORY_NAMESPACES": "x"})


def test_an_unknown_short_name_is_somebody_elses():
    environ = {"RL_TRAIN_GAMA": "0.9", "RL_LOCATION": "x", "ALPHASWARM_OTHER": "y"}
    assert effective_spec(None, {}, environ).spec == starting_spec()
    assert load_settings({}, environ) == load_settings({}, {})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("RL_TRAIN_GAMA", "RL_TRAIN_GAMMA"),
        ("RL_TRAIN_TOTAL_TIMESTEP", "RL_TRAIN_TOTAL_TIMESTEPS"),
        ("RL_STORE_BACKENDS", "RL_STORE_BACKEND"),
        ("rl_train_gamma", "RL_TRAIN_GAMMA"),
    ],
)
def test_a_misspelt_short_name_is_a_notice_with_the_nearest_one(name, meant):
    (notice,) = misspelt_names({name: "1", meant: "2", "RL_LOCATION": "x", "PATH": "y"})
    assert name in notice
    assert f"Did you mean {meant}?" in notice


def test_names_of_others_and_our_own_are_no_notice():
    ours = {name: "1" for option in OPTIONS for name in option.env_names}
    assert misspelt_names(ours) == []
    assert misspelt_names({"RL_LOCATION": "x", "RL_GLUE_PORT": "1", "RL_HOME_DIR": "1", "RLLIB_DEBUG": "1"}) == []


def test_settings_load_reads_variables_and_file_as_commands_do(monkeypatch, tmp_path, caplog):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "settings.yaml").write_text("store: {keep_last: 7, checkpoint_freq: 5}\n")
    monkeypatch.setenv("RL_STORE_CHECKPOINT_FREQ", "9")
    monkeypatch.setenv("RL_STORE_CHECKPOINT_FREQS", "10")
    loaded = Settings.load()
    assert loaded == load_settings({}, os.environ)
    assert (loaded.store.keep_last, loaded.store.checkpoint_freq) == (7, 9)
    assert "RL_STORE_CHECKPOINT_FREQS is not read" in caplog.text
    (tmp_path / "other.yaml").write_text("store: {keep_last: 2}\n")
    assert Settings.load("other.yaml").store.keep_last == 2
    assert Settings().store.keep_last == 3


@pytest.mark.parametrize(
    ("word", "strategy"), [("true", "running"), ("1", "running"), (False, "none"), ("fixed", "fixed")]
)
def test_normalize_still_takes_a_switch(word, strategy):
    assert effective_spec(None, {"obs.normalize": word}, {}).spec.obs.normalize == strategy


def test_one_number_of_the_clip_range_is_a_pair():
    effective = effective_spec(None, {}, {"RL_OBS_CLIP_RANGE": "5"})
    assert effective.spec.obs.clip_range == (-5, 5)
    assert effective.sources == {"obs.clip_range": {"value": [-5.0, 5.0], "source": "ENV RL_OBS_CLIP_RANGE"}}


def test_a_network_for_images_takes_the_place_of_the_default_encoder_alone():
    images = {"RL_AGENT_POLICY_TYPE": "CnnPolicy"}
    assert effective_spec(None, {}, images).spec.agent.kwargs["encoder"] is None
    assert effective_spec(None, {"feature.encoder": "CNN"}, images).spec.agent.kwargs["encoder"] == "cnn"
    assert effective_spec(None, {"agent.policyType": "MlpPolicy"}, {}).spec.agent.kwargs["encoder"] == "mlp"
    with pytest.raises(OptionError, match=r"feature.encoder .*, agent.policyType .* contradiction"):
        effective_spec(None, {"feature.encoder": "mlp"}, images)
    with pytest.raises(OptionError, match="contradiction"):
        effective_spec(starting_spec(), {}, images)


def test_a_random_seed_belongs_to_the_run():
    effective = effective_spec(base_with(seed=5), {"env.seed": "random"}, {})
    assert effective.draws_seed
    assert effective.spec == base_with(seed=5)
    assert effective.sources == {}
    assert not effective_spec(None, {"env.seed": 3}, {}).draws_seed


def test_the_file_in_the_home_folder_may_not_name_it(tmp_path):
    (tmp_path / "settings.yaml").write_text("home: /elsewhere\n")
    with pytest.raises(OptionError, match="ALPHASWARM_RL_HOME"):
        load_settings({"home.folder": tmp_path}, {})
    assert load_settings({}, {}, tmp_path / "settings.yaml").home == Path("/elsewhere")
    assert load_settings({"home.folder": "/flag"}, {}, tmp_path / "settings.yaml").home == Path("/flag")


def test_a_chosen_file_replaces_the_one_in_the_home_folder(tmp_path):
    (tmp_path / "settings.yaml").write_text("store: {keep_last: 14}\n")
    (tmp_path / "other.yaml").write_text("log_dir: here\n")
    settings = load_settings({"home.folder": tmp_path}, {}, tmp_path / "other.yaml")
    assert (settings.store.keep_last, settings.log_dir) == (3, Path("here"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("stor: {keep_last: 5}", "Did you mean 'store'"),
        ("store: {keep_lst: 5}", "Did you mean 'keep_last'"),
        ("store: {keep_last: many}", "store.keep_last"),
        ("store: {keep_last: true}", "a number is needed"),
        ("- store", "not a mapping"),
        ("store: [", "line"),
    ],
)
def test_a_broken_settings_file(text, reason, tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    with pytest.raises(OptionError) as caught:
        load_settings({"home.folder": tmp_path}, {})
    assert reason in str(caught.value)
    assert str(path) in str(caught.value)


def test_an_empty_settings_file_says_nothing_and_a_missing_one_must_not_be_chosen(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("# nothing yet\n")
    assert load_settings({}, {}, path) == load_settings({}, {})
    with pytest.raises(OptionError, match="does not exist"):
        load_settings({}, {}, tmp_path / "nowhere.yaml")


def test_run_arguments_of_a_stored_version():
    arguments = run_arguments({"env.seed": "random", "infer.device": "cpu"}, {"RL_EVAL_EPISODES": "7"})
    assert arguments.values == {"seed": "random", "episodes": 7}
    assert arguments.sources == {"seed": "flag --seed", "episodes": "ENV RL_EVAL_EPISODES"}
    assert arguments.notices == ()
    assert run_arguments({"eval.deterministic": False}, {}).values == {"deterministic": False}


def test_other_spec_options_are_refused_as_flags_and_ignored_as_variables():
    with pytest.raises(OptionError, match=r"eval\.render \(flag --no-render\).*--seed, --episodes, --deterministic"):
        run_arguments({"eval.render": False}, {})
    arguments = run_arguments({}, {"RL_TRAIN_GAMMA": "not even a number", "RL_TRAIN_LOG_DIR": "x"})
    assert arguments.values == {}
    assert arguments.notices == ("ENV RL_TRAIN_GAMMA is ignored: a stored version is run as it is stored",)


def test_a_verb_may_allow_fewer_run_arguments():
    with pytest.raises(OptionError, match="this verb takes no option of the spec"):
        run_arguments({"env.seed": 3}, {}, allowed=())
    assert len(run_arguments({}, {"RL_ENV_SEED": "3"}, allowed=()).notices) == 1


def test_run_arguments_see_typos_too():
    with pytest.raises(OptionError, match="ALPHASWARM_RL_ENV_SEED"):
        run_arguments({}, {"ALPHASWARM_RL_ENV_SEEED": "3"})


def test_a_text_has_no_control_characters():
    with pytest.raises(OptionError) as caught:
        load_settings({"store.runName": "a\x1b[2J"}, {}, None)
    assert caught.value.why == "it contains the control character U+001B"
    assert load_settings({"store.runName": "a é"}, {}, None).store.run_name == "a é"
