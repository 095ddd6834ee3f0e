"""Documents: where the base comes from, and which mistakes are named."""

import pytest

from alphaswarm_rl.core.errors import SpecError
from alphaswarm_rl.core.yaml import dump_yaml
from alphaswarm_rl.spec import RLExperimentSpec, load_spec
from alphaswarm_rl.studies.tuning import Parameter, TuningDocument
from tests.studies.documents import RATE, base, document


def refused(data, *words):
    with pytest.raises(SpecError) as caught:
        TuningDocument.from_data(data)
    for word in words:
        assert word in str(caught.value)


def test_a_base_is_a_spec_a_preset_or_a_file_beside_the_document(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "spec.yaml").write_text(dump_yaml(base()))
    (folder / "tuning.yaml").write_text(dump_yaml({**document(), "base": "spec.yaml"}))
    inline = TuningDocument.from_data(document()).base_spec()
    assert TuningDocument.from_yaml_path(folder / "tuning.yaml").base_spec() == inline
    assert inline == RLExperimentSpec.from_data(base())
    preset = TuningDocument.from_data({**document(), "base": "cartpole_ppo"})
    assert preset.base_spec() == load_spec("cartpole_ppo")


def test_defaults_and_words_for_yes_and_no():
    study = TuningDocument.from_data({**document(), "study": {"pruning": "off"}}).study
    assert (study.trials, study.seed, study.direction, study.metric) == (20, 0, "maximize", "validation.mean_reward")
    assert (study.startup_trials, study.pruning, study.name) == (5, False, None)


def test_a_plain_spec_is_told_apart_from_a_document():
    refused(base(), "it is a spec", "space:")


def test_wrong_bases_are_named(tmp_path):
    missing = TuningDocument.from_data({**document(), "base": "no_such.yaml"}, folder=tmp_path)
    with pytest.raises(SpecError, match="does not exist"):
        missing.base_spec()
    with pytest.raises(SpecError, match="Did you mean 'cartpole_ppo'"):
        TuningDocument.from_data({**document(), "base": "cartpole_pp"}).base_spec()


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        ({"type": "float", "low": 1.0, "high": 0.5}, ["low (1.0) must lie below high (0.5)"]),
        ({"type": "float", "low": 1.0}, ["needs low and high"]),
        ({"type": "float", "low": 0.0, "high": 1.0, "log": True}, ["above 0"]),
        ({"type": "float", "low": 0.1, "high": 1.0, "log": True, "step": 0.1}, ["exclude each other"]),
        ({"type": "float", "low": 0.0, "high": 1.0, "step": 0.3}, ["whole number of steps"]),
        ({"type": "float", "low": 0.0, "high": 1.0, "choices": [1, 2]}, ["choices are for type categorical"]),
        ({"type": "int", "low": 0.5, "high": 2}, ["whole numbers"]),
        ({"type": "categorical", "choices": [1]}, ["two or more"]),
        ({"type": "categorical", "choices": [[8], [8]]}, ["all different"]),
        ({"type": "categorical", "choices": [1, 2], "low": 1}, ["low is not for type categorical"]),
        ({"type": "categorical", "choices": [1, 2], "log": True}, ["log is not for type categorical"]),
        ({"type": "uniform", "low": 0, "high": 1}, ["'float', 'int' or 'categorical'"]),
        ({"type": "float", "low": 0, "hihg": 1}, ["unknown key 'hihg'", "'high'"]),
    ],
)
def test_a_wrong_parameter_says_what_is_wrong_with_it(parameter, words):
    refused(document({"training.n_envs": parameter}), "space.training.n_envs", *words)


def test_a_tenth_fits_into_one_ten_times_in_spite_of_rounding():
    assert Parameter(type="float", low=0.1, high=0.7, step=0.1).extremes == [0.1, 0.7, 0.2]


@pytest.mark.parametrize(
    ("study", "words"),
    [
        ({"metric": "mean_reward"}, ["validation.NAME or evaluation.NAME"]),
        ({"metric": "validation.shrpe"}, ["Did you mean 'sharpe'"]),
        ({"trials": 0}, ["study.trials", "greater than or equal to 1"]),
        ({"direction": "up"}, ["study.direction"]),
        ({"name": "a/b"}, ["study.name"]),
        ({"trails": 3}, ["unknown key 'trails'", "'trials'"]),
    ],
)
def test_a_wrong_study_says_what_is_wrong_with_it(study, words):
    refused(document(**study), *words)


def test_there_must_be_something_to_search():
    refused({"base": base(), "space": {}}, "space")
    refused({"space": RATE}, "base")
