"""The names of other documents for specs, versions, components and the judging of a model."""

import pytest

from alphaswarm_rl import RLExperimentSpec, RLRuntime, registry
from alphaswarm_rl.core import refs
from alphaswarm_rl.core.errors import LedgerError, ModelError, SpecError
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models import ModelRegistry
from tests.runtime.conftest import tiny


def test_equal_content_is_one_version_and_any_change_another(settings):
    first = registry.persist_spec(tiny(), settings=settings)
    assert registry.persist_spec(RLExperimentSpec.from_yaml_str(tiny().to_yaml()), settings=settings) == first
    other = registry.persist_spec(tiny(training={"seed": 4}), settings=settings)
    assert other != first
    with Ledger.open(settings) as ledger:
        assert [row.id for row in ledger.versions("tiny")] == [first, other]


def test_a_project_has_versions_of_its_own(settings):
    ids = {registry.persist_spec(tiny(), project, settings=settings) for project in ("default", "other", "other")}
    assert len(ids) == 2
    assert [row.project_id for row in registry.list_rl_specs(settings=settings)] == ["default", "other"]


def test_a_stored_version_is_the_spec_again(settings):
    version_id = registry.persist_spec(tiny(), settings=settings)
    registry.persist_spec(tiny(training={"seed": 4}), settings=settings)
    assert registry.replay_spec_version(version_id, settings=settings) == tiny()
    assert registry.replay_spec_version(version_id, settings=settings).spec_hash == tiny().spec_hash
    with pytest.raises(LedgerError, match="the ledger has none with this id"):
        registry.replay_spec_version("nowhere", settings=settings)


def test_a_spec_is_found_by_slug_by_name_or_as_a_preset(settings):
    registry.persist_spec(tiny(), settings=settings)
    registry.persist_spec(tiny(training={"seed": 4}), settings=settings)
    assert registry.get_rl_spec("tiny", settings=settings).seed == 4
    assert registry.get_rl_spec("Tiny", settings=settings).seed == 4
    assert registry.get_rl_spec("cartpole_ppo", settings=settings).name == "CartPole PPO"
    with pytest.raises(SpecError, match="no preset of that name"):
        registry.get_rl_spec("nothing_of_this_name", settings=settings)


def test_a_name_of_several_specs_is_refused_and_a_slug_is_not(settings):
    for slug in ("one", "two"):
        registry.persist_spec(tiny(slug=slug), settings=settings)
    with pytest.raises(LedgerError, match="several have that name: one, two"):
        registry.get_rl_spec("Tiny", settings=settings)
    assert registry.get_rl_spec("two", settings=settings).slug == "two"


def test_the_factory_is_the_one_of_the_core():
    assert registry.build_from_config is refs.build_from_config
    assert "cartpole" in {found.alias for found in registry.list_rl_components("env")}


def test_the_settings_of_the_environment_count_where_none_are_given(settings, monkeypatch):
    monkeypatch.setenv("ALPHASWARM_RL_HOME", str(settings.home))
    version_id = registry.persist_spec(tiny())
    assert registry.replay_spec_version(version_id, settings=settings) == tiny()
    assert [row.slug for row in registry.list_rl_specs()] == ["tiny"]


def test_a_model_is_judged_and_the_verdict_kept(settings):
    RLRuntime(tiny(evaluation={"episodes": 10}), settings).train()
    lenient = settings.model_copy(update={"gates": settings.gates.model_copy(update={"max_dispersion": 100.0})})
    strict = settings.model_copy(update={"registry": settings.registry.model_copy(update={"min_reward": 1000.0})})
    assert registry.validate_model(1, settings=strict) is False
    assert registry.validate_model(1, settings=lenient) is True
    with ModelRegistry.open(settings) as models:
        assert [row.passed for row in models.validations(1)][-2:] == [False, True]
        assert models.get(1).validated
    with pytest.raises(ModelError, match="model 99"):
        registry.validate_model(99, settings=settings)
