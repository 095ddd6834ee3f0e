"""`rl models judge`: a candidate beside the model in production, on its own validation window."""

import pytest

from alphaswarm_rl.cli.model_tables import judged_lines
from alphaswarm_rl.core.errors import ModelError, OptionError
from alphaswarm_rl.inference.trained_checkpoints import checkpoint_of_model
from alphaswarm_rl.models import gates
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.operations.model_lifecycle import JudgedModels, JudgeModel, judge_model
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.runtime.model_runs import evaluate_model
from alphaswarm_rl.settings import GatesSettings, RegistrySettings
from tests.runtime.test_judgements import models_of, validated_spec

WHO = {"who": "tester", "why": "a test"}


@pytest.fixture
def lenient(settings, monkeypatch):
    """Settings under which every model passes that was updated and whose actions vary."""
    monkeypatch.setitem(gates._profiles, "lenient", gates.Profile(("finite",), ("finite",)))
    return settings.model_copy(update={"gates": GatesSettings(profile="lenient")})


@pytest.fixture
def registry(lenient):
    with ModelRegistry.open(lenient) as opened:
        yield opened


def trained(settings, registry, *, as_seed=None, episodes=8, **training):
    """A model of a training that draws while it is judged."""
    spec = validated_spec(
        training={"total_timesteps": 64, **training},
        env_kwargs={"episode_bars": 5},
        evaluation={"episodes": episodes, "deterministic": False},
    )
    return models_of(registry, RLRuntime(spec, settings).train(seed=as_seed))[-1]


def test_a_candidate_is_judged_beside_the_model_in_production_as_its_own_training_judges(lenient, registry):
    champion = trained(lenient, registry)
    registry.promote(champion.id, **WHO)
    trained(lenient, registry)  # in staging: it is not judged
    candidate = trained(lenient, registry, validation_end="2020-07-06", seed=5, as_seed=7)
    with pytest.raises(ModelError, match=f"rl models judge {candidate.id}"):
        registry.promote(candidate.id, **WHO)
    found = judge_model(lenient, JudgeModel(candidate.id))
    assert [row.model_id for row in found.models] == [candidate.id, champion.id]
    assert (found.start, found.end, found.differences) == ("2020-06-01", "2020-07-06", ())
    assert [row.episodes for row in found.models] == [8, 8]
    assert found.models[0].judgement_key == found.models[1].judgement_key
    assert found.better in (candidate.id, champion.id)
    for row in found.models:
        newest = registry.evaluations(row.model_id)[-1]
        assert (newest.run_id, newest.deterministic, newest.seed) == (row.run_id, False, 7)  # the candidate's own seed
    lines = judged_lines(found)
    assert lines[0] == "judged on 2020-06-01 to 2020-07-06"
    assert lines[-1].startswith(f"model {found.better} comes first")
    registry.promote(candidate.id, even_if_worse=True, **WHO)
    # Alone: it is the one in production itself.
    alone = judge_model(lenient, JudgeModel(candidate.id))
    assert ([row.model_id for row in alone.models], alone.better) == ([candidate.id], None)


def test_a_spec_that_evaluates_nothing_is_judged_by_one_episode(lenient, registry):
    model = trained(lenient, registry, episodes=0)
    found = judge_model(lenient, JudgeModel(model.id))
    assert [row.episodes for row in found.models] == [1]


def test_models_that_were_not_judged_alike_are_told_why():
    found = JudgedModels("2020-06-01", "2020-07-06", (), ("half_spread_bps: 2.0 and 9.0",), None)
    assert judged_lines(found)[-1] == "not judged alike: half_spread_bps: 2.0 and 9.0"


def test_what_was_put_away_and_a_registry_that_is_off_are_refused(lenient, registry):
    first, second = (trained(lenient, registry, seed=seed) for seed in (1, 2))
    off = lenient.model_copy(update={"registry": RegistrySettings(enable=False)})
    for refused in (
        lambda: judge_model(off, JudgeModel(first.id)),
        lambda: evaluate_model(first.id, off),
        lambda: checkpoint_of_model(off, first.id),
    ):
        with pytest.raises(OptionError, match="switched off"):
            refused()
    registry.archive(second.id, because="a test")
    with pytest.raises(ModelError, match="it is archived: a test"):
        judge_model(lenient, JudgeModel(first.id, against=second.id))
    with pytest.raises(ModelError, match="it is archived: a test"):
        judge_model(lenient, JudgeModel(second.id, against=first.id))
