import re

import pytest

from alphaswarm_rl.core.errors import PartNotHere, SpecError
from alphaswarm_rl.spec import (
    RLExperimentSpec,
    diff_specs,
    load_spec,
    load_specs_from_dir,
    refuse_absent,
    refuse_verb,
    waiting_fields,
)
from alphaswarm_rl.spec.experiment import slugify
from tests.spec.specs import MINIMAL, TINY


def load(text):
    return RLExperimentSpec.from_yaml_str(text)


@pytest.mark.parametrize(
    ("name", "slug"), [("My First RL!", "my-first-rl"), ("  a  b ", "a-b"), ("x" * 100, "x" * 80), ("É-1", "1")]
)
def test_slugs(name, slug):
    assert slugify(name) == slug


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"name": "a\x1b[31m"}, "name"),
        ({"mlflow": {"experiment": "a\nb"}}, "mlflow.experiment"),
        ({"mlflow": {"register_model_as": "a\x7f"}}, "mlflow.register_model_as"),
        ({"mlflow": {"tags": {"team": "\u202ex"}}}, "mlflow.tags.team"),
        ({"mlflow": {"tags": {"te\x9bam": "x"}}}, "mlflow.tags.te\x9bam"),
        ({"universe": {"symbols": ["A\x1bB"]}}, "universe.symbols.0"),
    ],
)
def test_a_name_has_no_control_characters_but_what_is_stored_stays_readable(changed, path):
    data = {**load(MINIMAL).as_data(), **changed}
    with pytest.raises(SpecError, match=re.escape(path)) as refused:
        RLExperimentSpec.from_data(data)
    assert "it contains the control character U+" in refused.value.why
    stored = RLExperimentSpec.from_data(data, stored=True)
    assert stored.spec_hash != load(MINIMAL).spec_hash


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\ntrainig: {}", "unknown key 'trainig'. Did you mean 'training'"),
        (
            "name: x\ntraining: {total_timestep: 5}",
            "training: unknown key 'total_timestep'. Did you mean 'total_timesteps'",
        ),
        ("name: x\nagent: {class: pppo}", "agent 'pppo': the catalogue has no such component. Did you mean 'ppo'"),
        (
            "name: x\nagent: {class: ppo, kwargs: {learning_rat: 1}}",
            "unknown key 'learning_rat'. Did you mean 'learning_rate'",
        ),
        ("name: x\ntraining: {total_timesteps: many}", "training.total_timesteps: .*integer.*'many'"),
        ("name: x\ntraining: {n_envs: true}", "training.n_envs: a number is needed, not true"),
        ("name: x\ntraining: {total_timesteps: 0}", "greater than or equal to 1"),
        ("name: x\nagent: {class: ppo, kwargs: {learning_rate: .nan}}", "learning_rate: .*finite"),
        ("name: x\nagent: {class: ppo, module_path: os}", "module_path 'os'.*never imports"),
        ("name: x\nenv: {class: getcwd, module_path: os}", "env 'getcwd': the catalogue has no such component"),
        ("name: x\ndescription: !!python/object/apply:os.getcwd []", "tag .* is not plain data"),
        ("name: '!!!'", "gives no slug"),
        ("name: x\nuniverse: {metadata: {a: .nan}}", "universe.metadata: a number is not finite"),
        ("name: x\nextras: {a: [{b: 1e400}]}", "extras: a number is not finite"),
        ("name: x\nuniverse: {symbols: [700]}", "universe.symbols.0: .*string"),
        ("name: x\nevaluation: {start: 2024-13-01}", "not an ISO date"),
        ("name: x\nevaluation: {start: 2024-02-01, end: 2024-01-01}", "must lie before"),
        ("name: x\ntraining: {eval_freq: 5}", "needs eval_during_training"),
        ("name: x\nobs: {clip_range: [5, -5]}", "lower bound must be below"),
        ("- a\n- b", "not a mapping"),
        ("description: no name", "name: Field required"),
        ("", "not a mapping"),
    ],
)
def test_a_mistake_is_named_with_its_place(text, message):
    with pytest.raises(SpecError, match=message) as caught:
        load(text)
    assert caught.value.remedy


def test_every_mistake_is_reported_at_once():
    with pytest.raises(SpecError) as caught:
        load("name: x\ntraining: {n_envs: -1, seed: -5}\nevaluation: {episodes: none}")
    assert all(place in str(caught.value) for place in ("training.n_envs", "training.seed", "evaluation.episodes"))


def test_tickers_on_and_no_are_tickers():
    assert load("name: x\nuniverse: {symbols: [ON, NO]}").universe.symbols == ["ON", "NO"]


def test_symbols_stay_as_written_in_upper_case():
    """No venue is invented, and one that is there stays."""
    written = "name: x\nuniverse: {symbols: [aapl, BRK.B, BRK.NYSE, ' eurusd ', '0700.HK', AAPL.NASDAQ]}"
    assert load(written).universe.symbols == ["AAPL", "BRK.B", "BRK.NYSE", "EURUSD", "0700.HK", "AAPL.NASDAQ"]


def test_a_spec_cannot_change():
    with pytest.raises(Exception, match="frozen"):
        load(MINIMAL).name = "other"


@pytest.mark.parametrize(
    ("field", "part"),
    [
        ("training: {extras: {a: 1}}", "declares keys"),
        ("evaluation: {extras: {a: 1}}", "declares keys"),
        ("extras: {a: 1}", "declares keys"),
    ],
)
def test_a_field_whose_part_is_not_there_is_refused(field, part):
    spec = load(MINIMAL + field)
    with pytest.raises(PartNotHere, match=part):
        refuse_absent(spec)


def test_a_component_of_a_kind_that_is_not_there_is_refused():
    with pytest.raises(SpecError, match="not there yet"):
        load(f"{MINIMAL}ensembler: {{spec: {{class: x}}}}")


def test_an_advantage_estimator_is_refused_where_the_agent_takes_none():
    spec = load(MINIMAL + "training: {advantage: {class: ReinforcePlusPlusAdvantage}}")
    with pytest.raises(SpecError, match="agent 'ppo' takes no advantage estimator") as caught:
        refuse_absent(spec)
    assert "training.advantage" in caught.value.what
    assert "Leave it out" in caught.value.remedy


def test_an_advantage_estimator_has_one_hash_by_alias_and_by_its_former_module():
    short = load(MINIMAL + "training: {advantage: {class: reinforce_plus_plus}}")
    long = """
training:
  advantage:
    class: ReinforcePlusPlusAdvantage
    module_path: alphaswarm.rl.advantage.reinforce_plus_plus
    kwargs: {minus_baseline: true, global_normalization: true, leave_one_out: true}
"""
    assert load(MINIMAL + long).spec_hash == short.spec_hash


@pytest.mark.parametrize(
    ("field", "named"),
    [
        ("universe: {symbols: [AAPL]}", "universe.symbols"),
        ("data_pipeline: {class: synthetic}", "data_pipeline"),
        ("reward: {class: pnl}", "reward"),
        ("observation: {class: portfolio_state}", "observation"),
        ("action: {class: integer_shares}", "action"),
        ("terminations: [{class: drawdown}]", "terminations"),
        ("training: {stop_properly_penalty_coef: 0.2}", "training.stop_properly_penalty_coef"),
        ("training: {start: 2020-01-01}", "training.start/end"),
        ("training: {validation_end: 2020-01-01}", "training.validation_start/validation_end"),
        ("evaluation: {end: 2020-01-01}", "evaluation.start/end"),
    ],
)
def test_a_part_that_the_environment_has_no_use_for_is_refused(field, named):
    with pytest.raises(SpecError) as caught:
        refuse_absent(load(MINIMAL + field))
    assert named in caught.value.what
    assert "'gymnasium'" in caught.value.why


TRADING = """
name: Trading
env: {class: stock_trading}
agent: {class: random}
"""


def test_a_trading_environment_takes_them_all_and_needs_data():
    parts = "reward: {class: pnl}\nobservation: {class: portfolio_state}\naction: {class: integer_shares}\n"
    rest = "terminations: [{class: drawdown}]\ntraining: {start: 2020-01-01, stop_properly_penalty_coef: 0.2}\n"
    data = "data_pipeline: {class: bundled}\nuniverse: {symbols: [KO]}\n"
    refuse_absent(load(TRADING + parts + rest + data))
    with pytest.raises(SpecError, match=r"stock_trading.*no data_pipeline") as caught:
        refuse_absent(load(TRADING + parts + rest))
    assert "data_pipeline: {class: synthetic}" in caught.value.remedy


def test_no_evaluation_is_zero_episodes_and_then_no_best_model_is_sought():
    assert load("name: x\nevaluation: {episodes: 0}").evaluation.episodes == 0
    with pytest.raises(SpecError, match=r"needs evaluation\.episodes of 1 or more"):
        load("name: x\nevaluation: {episodes: 0}\ntraining: {eval_during_training: true}")
    with pytest.raises(SpecError, match=r"evaluation\.episodes"):
        load("name: x\nevaluation: {episodes: -1}")


def test_at_its_default_a_waiting_field_does_no_harm():
    refuse_absent(load(MINIMAL))
    assert {field.path for field in waiting_fields()} >= {"extras", "ensembler"}


@pytest.mark.parametrize("missing", ["env", "agent"])
def test_what_every_run_needs_is_asked_for(missing):
    spec = RLExperimentSpec.from_data({**load(MINIMAL).canonical(), missing: None})
    with pytest.raises(SpecError, match=f"it has no {missing}"):
        refuse_absent(spec)


@pytest.mark.parametrize(
    ("kind", "verb", "error"),
    [
        ("training", "train", None),
        ("research", "replay", None),
        ("evaluation", "evaluate", None),
        ("evaluation", "train", SpecError),
        ("paper", "train", PartNotHere),
        ("ensemble", "evaluate", PartNotHere),
    ],
)
def test_the_kind_restricts_the_verbs(kind, verb, error):
    spec = load(f"{MINIMAL}kind: {kind}")
    if error is None:
        refuse_verb(spec, verb)
    else:
        with pytest.raises(error, match=kind):
            refuse_verb(spec, verb)


def test_specs_are_found_by_path_and_by_preset_name(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(TINY)
    assert load_spec(path).name == load_spec(str(path)).name == "Tiny"
    assert load_spec("cartpole_ppo").name == "CartPole PPO"
    with pytest.raises(SpecError, match="Did you mean 'cartpole_ppo'"):
        load_spec("cartpole_pp")
    with pytest.raises(SpecError, match="does not exist"):
        load_spec(tmp_path / "none.yaml")


def test_a_folder_reports_every_broken_file_by_name(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "good.yaml").write_text(TINY)
    (tmp_path / "deep" / "also_good.yml").write_text(MINIMAL)
    (tmp_path / "bad.yaml").write_text("name: [")
    (tmp_path / "deep" / "worse.yaml").write_text("nmae: x")
    loaded = load_specs_from_dir(tmp_path)
    assert {path.name for path in loaded.specs} == {"good.yaml", "also_good.yml"}
    assert {path.name for path in loaded.broken} == {"bad.yaml", "worse.yaml"}
    assert all(path.name in str(error) for path, error in loaded.broken.items())


def test_hidden_folders_are_passed_over(tmp_path):
    (tmp_path / ".alphaswarm").mkdir()
    (tmp_path / ".alphaswarm" / "settings.yaml").write_text("log_dir: x")
    assert load_specs_from_dir(tmp_path).broken == {}


def test_an_unknown_key_hides_no_other_mistake():
    with pytest.raises(SpecError, match=r"total_timesteps.*unknown key 'trainin'"):
        load("name: x\ntrainin: 1\ntraining: {total_timesteps: -5}")


def test_a_kind_that_nothing_can_run_is_refused_by_validation():
    with pytest.raises(PartNotHere, match="paper"):
        refuse_absent(load(MINIMAL + "kind: paper"))


def test_a_diff_names_paths_and_both_values():
    left, right = load(TINY), load(TINY.replace("seed: 3", "seed: 4").replace("n_steps: 32", "n_steps: 64"))
    assert [(entry.path, entry.left, entry.right) for entry in diff_specs(left, right)] == [
        ("agent.kwargs.n_steps", 32, 64),
        ("training.seed", 3, 4),
    ]


def test_dates_are_canonical():
    training = load("name: x\ntraining: {start: 2024-01-01, end: '2024-03-01T10:00:00+02:00'}").training
    assert (training.start, training.end) == ("2024-01-01", "2024-03-01T08:00:00")


def test_what_json_cannot_say_is_refused_in_python_too():
    with pytest.raises(SpecError, match="set is not JSON data"):
        RLExperimentSpec.from_data({"name": "x", "universe": {"metadata": {"a": {1, 2}}}})


def test_a_wrapped_nothing_is_nothing():
    wrapped = load(MINIMAL + "reward: {spec: null}\nobservation: {spec: null}\naction: {spec: null}")
    assert wrapped.spec_hash == load(MINIMAL).spec_hash


@pytest.mark.parametrize(
    ("parts", "preset"),
    [
        ("env: {class: cartpole}", "cartpole_ppo"),
        ("env: {class: no_such_env}", "cartpole_ppo"),
        ("env: cartpole", "cartpole_ppo"),
        ("data_pipeline: {class: synthetic}", "my_first_rl"),
        ("env: {class: stock_trading}", "my_first_rl"),
        ("env: {spec: {class: stock_trading, kwargs: {no_such: 1}}}", "my_first_rl"),
        ("env: {preset: stock_portfolio_closes}", "my_first_rl"),
    ],
)
def test_the_remedy_names_a_preset_of_the_same_sort(parts, preset):
    with pytest.raises(SpecError) as caught:
        load(f"name: x\nno_such_field: 1\n{parts}")
    assert caught.value.remedy.startswith(f"See every field: rl spec show {preset}. ")


def test_a_date_and_the_same_moment_are_no_window():
    with pytest.raises(SpecError, match="must lie before"):
        load("name: x\nevaluation: {start: 2020-01-01, end: '2020-01-01T00:00:00'}")


@pytest.mark.parametrize(
    "younger",
    [
        {"horizon": 5},
        {"training": {"total_timesteps": 10, "warm_start": None}},
        {"agent": {"class": "ppo", "kwargs": {"a_new_parameter": 1}}},
    ],
    ids=["top", "section", "component"],
)
def test_a_stored_spec_of_a_newer_version_says_that(younger):
    data = {**load(MINIMAL).as_data(), **younger}
    with pytest.raises(SpecError, match=r"stored version 7: it was stored by a newer version .*unknown key") as caught:
        RLExperimentSpec.from_data(data, source="stored version 7", stored=True)
    assert "pip install --upgrade alphaswarm-rl" in caught.value.remedy
    with pytest.raises(SpecError, match="unknown key") as caught:
        RLExperimentSpec.from_data(data)
    assert "newer version needs that version; this is alphaswarm-rl 0." in caught.value.remedy


def test_a_stored_spec_that_is_wrong_otherwise_is_not_called_newer():
    data = {**load(MINIMAL).as_data(), "training": {"total_timesteps": -1}}
    with pytest.raises(SpecError, match="total_timesteps") as caught:
        RLExperimentSpec.from_data(data, stored=True)
    assert "newer" not in str(caught.value)
