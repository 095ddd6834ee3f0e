"""What holds for every component; a new one gets all of it for nothing."""

import json
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.hashing import canonical_fields, canonical_json
from alphaswarm_rl.core.refs import build_from_config, reference

#: Parameters that have no default.
REQUIRED = {
    ("env", "anytrading"): {"task": "stocks"},
    ("env", "gymnasium"): {"id": "CartPole-v1"},
    ("agent", "policy"): {"policy": {"class": "random"}},
    ("policy", "frozen"): {"run": "0" * 32},
    ("observation", "stacked"): {"parts": [{"class": "portfolio_state"}]},
    ("reward", "composite"): {"terms": [{"class": "pnl"}]},
    ("termination", "risk_breach"): {"max_gross": 1.0},
    ("data_pipeline", "csv"): {"path": "bars.csv"},
    ("data_pipeline", "parquet"): {"path": "bars.parquet"},
    ("data_pipeline", "frame"): {"name": "bars"},
    ("data_pipeline", "iceberg"): {"table": "silver.bars"},
    ("data_pipeline", "medallion_replay"): {"table": "silver.bars", "as_of": "2024-01-01"},
    ("data_pipeline", "replay"): {"spec_hash": "0" * 64},
    ("portfolio_stage", "risk_limits"): {"max_gross": 1.0},
    ("portfolio_stage", "static_universe"): {"symbols": ["KO"]},
    ("universe_model", "static"): {"symbols": ["KO"]},
}
#: Those of this package: other tests bring components of their own.
COMPONENTS = [cls for cls in catalogue.listing() if cls.__module__.startswith("alphaswarm_rl.")]
DOCS = Path(__file__).parents[2] / "docs" / "rl-components.md"

every_component = pytest.mark.parametrize("cls", COMPONENTS, ids=lambda cls: f"{cls.rl_kind}:{cls.rl_alias}")


def kwargs(cls):
    return REQUIRED.get((cls.rl_kind, cls.rl_alias), {})


@every_component
def test_it_says_what_it_is(cls):
    assert re.fullmatch(r"[a-z][a-z0-9_]*", cls.rl_alias)
    assert cls.rl_version >= 1
    assert cls.rl_category
    assert cls.rl_source
    assert catalogue.describe(cls).description.endswith(".")


@every_component
def test_every_parameter_has_a_description(cls):
    for name, field in cls.Config.model_fields.items():
        assert field.description, name


@every_component
def test_its_parameters_survive_json(cls):
    config = cls.Config.model_validate(kwargs(cls))
    plain = canonical_fields(config)
    again = cls.Config.model_validate(json.loads(json.dumps(plain)))
    assert again == config
    assert canonical_json(canonical_fields(again)) == canonical_json(plain)


@every_component
def test_it_is_built_by_alias_by_class_name_and_with_its_module_path(cls):
    refs = [
        reference({"class": name, "module_path": cls.__module__, "kwargs": kwargs(cls)}, cls.rl_kind)
        for name in (cls.rl_alias, cls.__name__)
    ]
    assert refs[0] == refs[1]
    assert type(build_from_config(refs[0], kind=cls.rl_kind)) is cls


@every_component
def test_its_json_schema_is_json_and_forbids_unknown_keys(cls):
    schema = json.loads(json.dumps(catalogue.describe(cls).schema))
    assert schema["additionalProperties"] is False


@every_component
def test_it_is_in_the_reference_page(cls):
    _, heading, rest = DOCS.read_text(encoding="utf-8").partition(f"## {cls.rl_kind}-{cls.rl_alias}\n")
    assert heading
    section = rest.partition("\n## ")[0]
    assert catalogue.describe(cls).description in section
    for name in cls.Config.model_fields:
        assert f"`{name}`" in section


def test_every_module_with_components_is_an_entry_point_of_ours():
    declared = {point.module for point in entry_points(group=catalogue.ENTRY_POINT_GROUP)}
    assert {cls.__module__ for cls in COMPONENTS} <= declared


@pytest.mark.parametrize("module", sorted({cls.__module__ for cls in COMPONENTS}))
def test_its_module_is_light(module):
    code = (
        f"import sys, {module}; heavy = {{'torch', 'pandas', 'numba', 'stable_baselines3', 'sb3_contrib', 'sqlalchemy',"
        " 'gym_anytrading', 'mujoco', 'pyarrow', 'skfolio', 'yfinance', 'alpaca'} & set(sys.modules);"
        " assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
