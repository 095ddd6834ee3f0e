import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from alphaswarm_rl.core import catalogue, kinds
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.control_characters import control_character
from alphaswarm_rl.core.hashing import added_field, birth_default, canonical_fields, is_added
from alphaswarm_rl.core.model import FrozenModel
from alphaswarm_rl.core.yaml import dump_yaml
from alphaswarm_rl.spec import RLExperimentSpec, sections
from alphaswarm_rl.spec.diff import flatten
from alphaswarm_rl.spec.experiment import NOT_EXECUTED
from tests.spec.specs import MINIMAL, TINY

#: Components of this package: other tests bring their own.
OURS = [cls for cls in catalogue.listing() if cls.__module__.startswith("alphaswarm_rl.")]

GOLDEN = Path(__file__).parent.parent / "golden" / "spec_hashes.json"


def spec(text=MINIMAL, **changes):
    from alphaswarm_rl.core.yaml import load_yaml

    return RLExperimentSpec.from_data({**load_yaml(text), **changes})


def agent(**kwargs):
    return {"class": "ppo", "kwargs": kwargs}


@pytest.mark.parametrize("rate", [3e-4, "3e-4", "0.0003", "3.0E-4"])
def test_every_spelling_of_a_number_has_one_hash(rate):
    assert spec(agent=agent(learning_rate=rate)).spec_hash == spec().spec_hash


def test_a_default_written_or_left_out_has_one_hash():
    assert spec(training={"total_timesteps": 100000}, kind="training", annotations=[]).spec_hash == spec().spec_hash


def test_key_order_does_not_matter():
    from alphaswarm_rl.core.yaml import load_yaml

    data = load_yaml(TINY)
    backwards = {
        key: dict(reversed(value.items())) if isinstance(value, dict) else value
        for key, value in reversed(data.items())
    }
    assert RLExperimentSpec.from_data(backwards).spec_hash == RLExperimentSpec.from_data(data).spec_hash


@pytest.mark.parametrize(
    "spelling",
    [
        {"class": "PPO", "kwargs": {"learning_rate": 3e-4}},
        {"class": "ppo", "module_path": "alphaswarm_rl.agents.sb3.algorithms", "kwargs": {}},
        {"class": "PPO", "module_path": "alphaswarm.rl.agents.sb3"},
        {"spec": {"class": "ppo"}},
        {"class": "SB3Adapter", "kwargs": {"algorithm": "ppo"}},
    ],
)
def test_every_spelling_of_a_reference_has_one_hash(spelling):
    assert spec(agent=spelling).spec_hash == spec().spec_hash


def test_a_preset_hashes_by_its_content():
    written_out = agent(n_steps=256, batch_size=64, n_epochs=10, net_arch=[64, 64], learning_rate=3e-4)
    assert spec(agent={"preset": "ppo_small"}).spec_hash == spec(agent=written_out).spec_hash


def test_short_names_hash_as_what_they_mean():
    assert (
        spec(agent={"class": "random"}).spec_hash
        == spec(agent={"class": "policy", "kwargs": {"policy": {"class": "random"}}}).spec_hash
    )


def test_one_annotation_may_be_plain_text():
    assert spec(annotations="note").spec_hash == spec(annotations=["note"]).spec_hash


def test_obs_spellings_have_one_hash():
    assert (
        spec(obs={"normalize": True, "clip_range": 10}).spec_hash
        == spec(obs={"normalize": "running", "clip_range": [-10.0, 10.0]}).spec_hash
    )
    assert spec(obs={"stack_frames": 1}).spec_hash == spec().spec_hash


def test_yaml_round_trip_keeps_the_hash():
    for text in (MINIMAL, TINY):
        again = RLExperimentSpec.from_yaml_str(spec(text).to_yaml())
        assert (again.spec_hash, again.exec_hash) == (spec(text).spec_hash, spec(text).exec_hash)


def _is_a_name(text):
    return control_character(text) is None and any(c.isascii() and c.isalnum() for c in text)


@given(
    st.text(min_size=1, max_size=20).filter(_is_a_name),
    st.lists(st.text(max_size=8), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(-5, 5) | st.text(max_size=5), max_size=3),
)
def test_any_text_survives_the_round_trip_through_yaml(name, annotations, metadata):
    original = spec(name=name, annotations=annotations, universe={"metadata": metadata})
    assert RLExperimentSpec.from_yaml_str(original.to_yaml()).spec_hash == original.spec_hash


# -- any single field changed: another hash --------------------------------------------------------------------------


@pytest.fixture
def full_catalogue(monkeypatch):
    """One component of each kind that has none yet, so that every field can be set."""
    catalogue.discover()
    for name in ("_kinds", "_components", "_names"):
        monkeypatch.setattr(catalogue, name, dict(getattr(catalogue, name)))
    for base, alias in (
        (kinds.RewardTerm, "r"),
        (kinds.ObservationBuilder, "o"),
        (kinds.ActionSpec, "a"),
        (kinds.Termination, "t"),
        (kinds.DataPipeline, "d"),
        (kinds.Ensembler, "e"),
        (kinds.TrajectoryStore, "s"),
        (kinds.BaseAdvantageEstimator, "v"),
        (kinds.UniverseModel, "u"),
    ):
        type(base)(
            f"Scratch{alias}",
            (base,),
            {
                "__doc__": "Scratch.",
                "__module__": __name__,
                "rl_alias": alias,
                **dict.fromkeys(base.__abstractmethods__, lambda self, *args: None),
            },
        )


BASE = {
    "name": "Everything",
    "universe": {"symbols": ["AAPL"], "model": {"class": "u"}, "metadata": {"a": 1}},
    "data_pipeline": {"class": "d"},
    "env": {"class": "gymnasium", "kwargs": {"id": "CartPole-v1"}},
    "reward": {"class": "r"},
    "observation": {"class": "o"},
    "action": {"class": "a"},
    "terminations": {"specs": [{"class": "t"}]},
    "agent": {"class": "ppo"},
    "training": {"advantage": {"class": "v"}, "eval_during_training": True, "extras": {"a": 1}},
    "evaluation": {"extras": {"a": 1}},
    "ensembler": {"spec": {"class": "e"}, "members": [{"class": "a2c"}], "extras": {"a": 1}},
    "trajectory_store": {"class": "s"},
    "mlflow": {"tags": {"a": "b"}},
    "extras": {"a": 1},
}

CHANGES = {
    "name": "Another",
    "slug": "another",
    "kind": "research",
    "description": "x",
    "universe.symbols": ["MSFT"],
    "universe.model": None,
    "universe.metadata": {"a": 2},
    "data_pipeline": None,
    "env": {"class": "cartpole"},
    "env.kwargs.id": "Acrobot-v1",
    "env.kwargs.kwargs": {"g": 1},
    "env.kwargs.max_episode_steps": 7,
    "obs.normalize": "running",
    "obs.clip_range": [-5, 5],
    "obs.stack_frames": 4,
    "reward": None,
    "observation": None,
    "action": None,
    "terminations": [],
    "agent": {"class": "a2c"},
    "agent.kwargs.learning_rate": 1e-3,
    "agent.kwargs.net_arch": [32],
    "agent.kwargs.gamma": 0.9,
    "agent.kwargs.n_steps": 64,
    "training.total_timesteps": 7,
    "training.log_interval": 3,
    "training.seed": 1,
    "training.n_envs": 2,
    "training.eval_during_training": False,
    "training.eval_freq": 100,
    "training.start": "2020-01-01",
    "training.end": "2030-01-01",
    "training.validation_start": "2020-01-01",
    "training.validation_end": "2030-01-01",
    "training.advantage": None,
    "training.stop_properly_penalty_coef": 0.2,
    "training.extras": {},
    "evaluation.start": "2020-01-01",
    "evaluation.end": "2030-01-01",
    "evaluation.episodes": 5,
    "evaluation.deterministic": False,
    "evaluation.render": True,
    "evaluation.extras": {},
    "ensembler": None,
    "ensembler.members": [],
    "ensembler.extras": {},
    "trajectory_store.spec": None,
    "trajectory_store.enabled": False,
    "mlflow.experiment": "x",
    "mlflow.register_model_as": "x",
    "mlflow.tags": {},
    "annotations": ["x"],
    "extras": {},
}


def changed(data, path, value):
    copy = json.loads(json.dumps(data))
    holder = copy
    *parents, last = path.split(".")
    for parent in parents:
        holder = holder[parent]
    holder[last] = value
    return copy


@pytest.mark.parametrize("path", CHANGES)
def test_any_single_field_changed_gives_another_hash(full_catalogue, path):
    base = RLExperimentSpec.from_data(BASE)
    other = RLExperimentSpec.from_data(changed(base.canonical(), path, CHANGES[path]))
    assert other.spec_hash != base.spec_hash
    not_executed = any(path == left_out or path.startswith(left_out + ".") for left_out in NOT_EXECUTED)
    assert (other.exec_hash == base.exec_hash) == not_executed


def test_no_field_is_left_untested(full_catalogue):
    fields = {path for path in flatten(RLExperimentSpec.from_data(BASE).canonical()) if ".kwargs." not in path}
    covered = {path for path in CHANGES if ".kwargs." not in path}

    def is_covered(path):
        return any(path == done or path.startswith(done + ".") for done in covered)

    assert sorted(path for path in fields if not is_covered(path)) == []


@pytest.mark.parametrize("cls", OURS, ids=lambda cls: f"{cls.rl_kind}:{cls.rl_alias}")
def test_every_parameter_of_every_component_is_part_of_the_canonical_form(cls):
    required = {
        "anytrading": {"task": "stocks"},
        "gymnasium": {"id": "CartPole-v1"},
        "policy": {"policy": {"class": "random"}},
        "csv": {"path": "bars.csv"},
        "parquet": {"path": "bars.parquet"} if cls.rl_kind == "data_pipeline" else {},
        "iceberg": {"table": "silver.bars"} if cls.rl_kind == "data_pipeline" else {},
        "medallion_replay": {"table": "silver.bars", "as_of": "2024-01-01"},
        "replay": {"spec_hash": "0" * 64},
        "frame": {"name": "bars"},
        "frozen": {"run": "0" * 32},
        "stacked": {"parts": [{"class": "portfolio_state"}]},
        "composite": {"terms": [{"class": "pnl"}]},
        "risk_breach": {"max_gross": 1.5},
        "risk_limits": {"max_gross": 1.5},
        "static_universe": {"symbols": ["KO"]},
        "static": {"symbols": ["KO"]},
    }.get(cls.rl_alias, {})
    from_the_start = {name for name, field in cls.Config.model_fields.items() if not is_added(field)}
    assert set(canonical_fields(cls.Config.model_validate(required))) == from_the_start


def test_a_component_version_changes_the_exec_hash_alone(monkeypatch):
    before = (spec().spec_hash, spec().exec_hash)
    monkeypatch.setattr(catalogue.get("agent", "ppo"), "rl_version", 2)
    assert spec().spec_hash == before[0]
    assert spec().exec_hash != before[1]


def test_a_parameter_added_later_leaves_old_hashes_alone():
    class Grown(ComponentConfig):
        old: int = Field(1, description="From the start.")
        new: int = Field(5, description="Added in version 2.", json_schema_extra=added_field(since=2, born=5))

    assert canonical_fields(Grown()) == {"old": 1}
    assert canonical_fields(Grown(new=6)) == {"old": 1, "new": 6}


def test_a_stored_document_means_the_default_a_field_was_born_with(monkeypatch):
    """A default may change later: a stored document without the field keeps its old meaning and its hash."""

    def growing(default):
        class Config(ComponentConfig):
            old: int = Field(1, description="From the start.")
            new: int = Field(default, description="Added.", json_schema_extra=added_field(since=2, born=5))

        return Config

    cls = catalogue.get("env", "cartpole")
    monkeypatch.setattr(cls, "Config", growing(5))
    ref = {"class": "cartpole", "kwargs": {"old": 1}}
    before = RLExperimentSpec.from_data({"name": "x", "env": ref})
    monkeypatch.setattr(cls, "Config", growing(7))
    stored = RLExperimentSpec.from_data({"name": "x", "env": ref}, stored=True)
    assert stored.env.build().config.new == 5
    assert stored.spec_hash == before.spec_hash
    written_today = RLExperimentSpec.from_data({"name": "x", "env": ref})
    assert written_today.env.build().config.new == 7
    assert written_today.spec_hash != before.spec_hash
    explicit = RLExperimentSpec.from_data({"name": "x", "env": {"class": "cartpole", "kwargs": {"new": 5}}})
    assert explicit.env.build().config.new == 5
    assert explicit.spec_hash == before.spec_hash
    assert RLExperimentSpec.from_yaml_str(explicit.to_yaml()).spec_hash == before.spec_hash


def test_birth_defaults_are_frozen():
    """A field added after version 1 keeps the default it was born with, for ever."""
    models = {f"{cls.rl_kind}:{cls.rl_alias}": cls.Config for cls in OURS}
    models |= {
        name: each for name, each in vars(sections).items() if isinstance(each, type) and issubclass(each, FrozenModel)
    }
    models["RLExperimentSpec"] = RLExperimentSpec
    born = {
        f"{owner}.{name}": birth_default(field)
        for owner, model in models.items()
        for name, field in model.model_fields.items()
        if is_added(field)
    }
    assert born == json.loads((GOLDEN.parent / "birth_defaults.json").read_text())


# -- the golden pairs: they may only grow ----------------------------------------------------------------------------

RECOMPUTE = """
import json, sys
from alphaswarm_rl.spec import RLExperimentSpec, sections
for pair in json.load(open(sys.argv[1])):
    spec = RLExperimentSpec.from_yaml_str(pair["yaml"])
    assert (spec.spec_hash, spec.exec_hash) == (pair["spec_hash"], pair["exec_hash"]), pair["yaml"]
print("ok")
"""


@pytest.mark.parametrize(
    "surroundings",
    [
        {"PYTHONHASHSEED": "0", "LC_ALL": "C", "TZ": "UTC"},
        {"PYTHONHASHSEED": "12345", "LC_ALL": "de_DE.UTF-8", "TZ": "Pacific/Auckland"},
        {"PYTHONHASHSEED": "random", "LC_ALL": "tr_TR.UTF-8", "TZ": "America/St_Johns"},
    ],
    ids=["plain", "german", "turkish"],
)
def test_the_golden_hashes_hold_everywhere(surroundings):
    done = subprocess.run(
        [sys.executable, "-c", RECOMPUTE, str(GOLDEN)],
        env={**os.environ, **surroundings},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "ok"


FORMER = [
    pytest.param(pair, former, id=f"{pair['exec_hash'][:8]}-{former['exec_hash'][:8]}")
    for pair in json.loads(GOLDEN.read_text())
    for former in pair.get("former", ())
]


@pytest.mark.parametrize(("pair", "former"), FORMER)
def test_a_former_hash_is_that_of_older_components_or_of_what_was_written_for_it(monkeypatch, pair, former):
    """A golden pair changes only where a component's version rose, or where one document means another since."""
    for name, version in former.get("component_versions", {}).items():
        cls = catalogue.get(*name.split(":"))
        assert cls.rl_version > version
        monkeypatch.setattr(cls, "rl_version", version)
    then = RLExperimentSpec.from_yaml_str(former.get("yaml", pair["yaml"]))
    assert then.exec_hash == former["exec_hash"] != pair["exec_hash"]
    assert then.spec_hash == former.get("spec_hash", pair["spec_hash"])


def test_bare_symbols_hash_as_they_are_and_not_as_of_a_venue():
    """Before the first release a bare ticker was given .NASDAQ; what is stored so keeps its hash and its asset."""
    bare, stored = spec(universe={"symbols": ["AAPL"]}), spec(universe={"symbols": ["AAPL.NASDAQ"]})
    assert bare.spec_hash != stored.spec_hash
    again = RLExperimentSpec.from_data(stored.as_data(), stored=True)
    assert (again.universe.symbols, again.spec_hash) == (["AAPL.NASDAQ"], stored.spec_hash)


def test_the_golden_file_covers_the_presets():
    from alphaswarm_rl.core.presets import load_preset, preset_names

    golden = {pair["spec_hash"] for pair in json.loads(GOLDEN.read_text())}
    for name in preset_names("experiments"):
        assert RLExperimentSpec.from_data(load_preset("experiments", name)).spec_hash in golden, name


def test_dumping_quotes_what_would_not_read_back():
    assert dump_yaml({"symbols": ["ON", "NO", "1e5"]}) == "symbols:\n- ON\n- NO\n- '1e5'\n"
