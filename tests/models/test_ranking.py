"""Scores are compared where they were judged alike, and nowhere else; where there are dates validation chooses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.core.judgement import Judgement
from alphaswarm_rl.models import ModelRegistry, ModelRow
from alphaswarm_rl.models.rows import UNDATED
from tests.models.samples import ME, add, evaluation, new_model

SPRING = Judgement("a" * 64, "2020-03-02", "2020-05-29", 10, True, {"half_spread_bps": 2.0})
SUMMER = replace(SPRING, data="b" * 64, start="2020-06-01", end="2020-08-31")
DEARER = replace(SPRING, costs={"half_spread_bps": 9.0})
TEST = replace(SPRING, data="c" * 64, start="2021-01-04", end="2021-12-31")


def scored(registry: ModelRegistry, row: ModelRow, mean: float, on: Judgement, *, chooses: bool = True) -> ModelRow:
    """Gives a model a score and has the gates judge it: on a validation window, or one that is only reported."""
    new = evaluation(
        mean,
        0.01,
        window_start=on.start,
        window_end=on.end,
        in_sample=False,
        source="validation" if chooses else "evaluate",
        judgement=on,
        chooses=chooses,
    )
    registry.validate(row.id, evaluation=new)
    return registry.get(row.id)


def model(registry: ModelRegistry, folder: Path, mean: float | None = None, on: Judgement = SPRING) -> ModelRow:
    row = registry.register(new_model(folder))
    return row if mean is None else scored(registry, row, mean, on)


def test_the_window_of_the_test_is_reported_and_never_chooses(registry: ModelRegistry, tmp_path: Path) -> None:
    good = model(registry, tmp_path / "good", 50.0)
    lucky = model(registry, tmp_path / "lucky", 10.0)
    good, lucky = (scored(registry, row, mean, TEST, chooses=False) for row, mean in ((good, 20.0), (lucky, 900.0)))
    assert registry.best() == good
    assert [row.id for row in registry.list()] == [good.id, lucky.id]
    assert (lucky.mean_reward, lucky.eval_window_end, lucky.judgement_key) == (10.0, "2020-05-29", SPRING.key)
    reported = registry.evaluations(lucky.id)[-1]
    assert (reported.mean_reward, reported.judgement_key, reported.judged_on) == (900.0, None, TEST)
    assert registry.successor(good) == good


def test_scores_of_other_dates_are_not_compared(registry: ModelRegistry, tmp_path: Path) -> None:
    spring = model(registry, tmp_path / "spring", 50.0)
    summer = model(registry, tmp_path / "summer", 900.0, SUMMER)
    with pytest.raises(ModelError, match=f"rl models judge {summer.id} --against {spring.id}") as caught:
        registry.best()
    assert f"models {summer.id} and {spring.id} were judged on different" in caught.value.why
    assert registry.successor(spring) == spring
    assert registry.successor(summer) == summer
    # Judged alike, the better one is the best, whatever either scored elsewhere.
    spring = scored(registry, spring, 950.0, SUMMER)
    assert registry.best() == spring
    assert registry.better(spring.id, summer.id) == registry.better(summer.id, spring.id) == spring.id
    assert registry.successor(summer) == spring


def test_scores_under_other_costs_are_not_compared(registry: ModelRegistry, tmp_path: Path) -> None:
    cheap, dear = model(registry, tmp_path / "cheap", 50.0), model(registry, tmp_path / "dear", 40.0, DEARER)
    assert registry.better(cheap.id, dear.id) is None
    with pytest.raises(ModelError, match="not compared"):
        registry.best()


def test_who_lost_under_an_earlier_judgement_stays_beaten(registry: ModelRegistry, tmp_path: Path) -> None:
    """A champion beat the others in spring; in summer it alone was judged beside the newcomer."""
    champion = model(registry, tmp_path / "champion", 50.0)
    others = [model(registry, tmp_path / f"other {number}", 10.0 + number) for number in range(3)]
    newcomer = model(registry, tmp_path / "newcomer", 7.0, SUMMER)
    champion = scored(registry, champion, 6.0, SUMMER)
    assert registry.best() == newcomer
    assert registry.successor(champion) == newcomer
    # The newest judgement that both share counts: the other way round the champion stays.
    champion = scored(registry, champion, 8.0, SUMMER)
    assert registry.best() == champion
    assert all(registry.successor(row) == champion for row in (*others, newcomer))


def test_models_that_go_round_in_a_circle_have_no_best(registry: ModelRegistry, tmp_path: Path) -> None:
    first, second, third = (model(registry, tmp_path / name) for name in ("first", "second", "third"))
    for better, worse, on in ((first, second, SPRING), (second, third, SUMMER), (third, first, DEARER)):
        scored(registry, better, 2.0, on)
        scored(registry, worse, 1.0, on)
    with pytest.raises(ModelError, match="not compared"):
        registry.best()
    # Whoever answers goes on: nobody is led round.
    assert [registry.successor(row).id for row in (first, second, third)] == [first.id, second.id, third.id]


def test_one_that_cannot_answer_is_passed_over(registry: ModelRegistry, tmp_path: Path) -> None:
    rows = [model(registry, tmp_path / str(mean), mean) for mean in (1.0, 3.0, 2.0)]
    assert registry.successor(rows[0]) == rows[1]
    assert registry.successor(rows[0], passed_over=[rows[1].id]) == rows[2]
    summer = model(registry, tmp_path / "summer", 9.0, SUMMER)
    assert registry.successor(rows[0]) == rows[1]  # who beats it directly, not who was judged elsewhere
    assert registry.successor(rows[0], passed_over=[rows[1].id, rows[2].id]) == rows[0]
    assert registry.successor(summer, passed_over=[summer.id, *(row.id for row in rows)]) is None


def test_a_model_that_was_never_judged_on_validation_is_never_the_best_and_that_is_said(
    registry: ModelRegistry, tmp_path: Path
) -> None:
    row = model(registry, tmp_path / "no window")
    row = scored(registry, row, 900.0, TEST, chooses=False)
    assert (row.validated, row.mean_reward, row.judgement_key) == (True, 900.0, None)  # kept and shown
    assert registry.best() is None
    why, remedy = registry.why_none_is_best()
    assert f"those that passed ({row.id}) have none" in why
    assert f"rl models judge {row.id}" in remedy
    with pytest.raises(ModelError, match="no score on a validation window"):
        registry.promote(row.id, **ME)
    worse = model(registry, tmp_path / "judged", 1.0)
    assert registry.best() == worse
    assert [each.id for each in registry.list()] == [worse.id, row.id]
    assert registry.successor(row) == worse


def test_without_any_model_that_passed_it_says_so(registry: ModelRegistry, tmp_path: Path) -> None:
    model(registry, tmp_path / "unscored")
    assert registry.why_none_is_best()[0] == "no such model has passed its newest validation"


def test_a_better_score_by_a_hair_is_better_and_of_equal_ones_the_newest(
    registry: ModelRegistry, tmp_path: Path
) -> None:
    older = model(registry, tmp_path / "older", 5.0)
    newer = model(registry, tmp_path / "newer", 5.0)
    elsewhere = model(registry, tmp_path / "elsewhere", 1.0, SUMMER)
    assert registry.better(older.id, newer.id) == newer.id
    scored(registry, newer, 0.5, SUMMER)
    assert registry.best() == registry.get(elsewhere.id)
    scored(registry, older, 1.0 + 1e-9, SUMMER)
    assert registry.best() == registry.get(older.id)


def test_without_dates_every_evaluation_chooses_whatever_its_episodes_and_seed(
    registry: ModelRegistry, tmp_path: Path
) -> None:
    few = Judgement(None, None, None, 10, True)
    first, second = add(registry, tmp_path / "first", 10.0), add(registry, tmp_path / "second", None)
    new = evaluation(20.0, episodes=30, judgement=replace(few, episodes=30, deterministic=False), source="validation")
    registry.validate(second.id, evaluation=new)
    assert registry.best() == registry.get(second.id)
    assert [row.judgement_key for row in registry.list()] == [UNDATED, UNDATED]
    registry.promote(first.id, **ME)
    registry.promote(second.id, **ME)
    registry.promote(first.id, **ME)  # as it always was: people decide


def test_alike_models_stand_together_in_lists(registry: ModelRegistry, tmp_path: Path) -> None:
    spring = [model(registry, tmp_path / f"spring {mean}", mean) for mean in (1.0, 3.0)]
    unjudged = scored(registry, model(registry, tmp_path / "unjudged"), 99.0, TEST, chooses=False)
    summer = [model(registry, tmp_path / f"summer {mean}", mean, SUMMER) for mean in (2.0, 4.0)]
    unscored = model(registry, tmp_path / "unscored")
    expected = [summer[1], summer[0], spring[1], spring[0], unjudged, unscored]
    assert [row.id for row in registry.list()] == [row.id for row in expected]
    assert [row.id for row in registry.list(judgement_key=SPRING.key)] == [spring[1].id, spring[0].id]


def test_production_needs_to_be_judged_as_the_champion_was(registry: ModelRegistry, tmp_path: Path) -> None:
    champion = model(registry, tmp_path / "champion", 5.0)
    registry.promote(champion.id, **ME)
    candidate = model(registry, tmp_path / "candidate", 50.0, SUMMER)
    with pytest.raises(ModelError, match=f"rl models judge {candidate.id}") as caught:
        registry.promote(candidate.id, **ME)
    assert "never judged alike" in caught.value.why
    scored(registry, champion, 60.0, SUMMER)
    with pytest.raises(ModelError, match="--even-if-worse"):
        registry.promote(candidate.id, **ME)
    assert registry.by_alias("champion").id == champion.id
    scored(registry, candidate, 61.0, SUMMER)
    registry.promote(candidate.id, **ME)
    assert registry.by_alias("champion").id == candidate.id
    with pytest.raises(ModelError, match="--even-if-worse"):
        registry.promote(champion.id, **ME)
    registry.promote(champion.id, even_if_worse=True, **ME)
    assert registry.by_alias("champion").id == champion.id
    registry.promote(champion.id, alias="steady", **ME)  # it is there already: nothing is compared


def test_gates_judge_the_score_that_chooses(registry: ModelRegistry, tmp_path: Path) -> None:
    row = model(registry, tmp_path / "lucky")
    failing = evaluation(1.0, episodes=2, window_start="2020-03-02", judgement=SPRING, chooses=True)
    assert not registry.validate(row.id, evaluation=failing).passed
    reported = evaluation(900.0, window_start="2021-01-04", judgement=TEST)
    verdict = registry.validate(row.id, evaluation=reported)
    assert not verdict.passed
    assert verdict.evidence["newest"]["episodes"] == 2
    assert not registry.has_passed(row.id)
    assert registry.best() is None


def test_what_is_reported_later_leaves_a_validated_model_validated(registry: ModelRegistry, tmp_path: Path) -> None:
    row = model(registry, tmp_path / "good", 5.0)
    row = scored(registry, row, -100.0, TEST, chooses=False)
    assert row.validated
    assert registry.has_passed(row.id)
    assert row.mean_reward == 5.0
    registry.add_evaluation(row.id, evaluation(1.0, window_start="2021-01-04", judgement=TEST))
    assert not registry.has_passed(row.id)  # nobody judged it since


def test_pruning_ranks_models_that_were_judged_alike(registry: ModelRegistry, tmp_path: Path) -> None:
    spring = [model(registry, tmp_path / f"spring {mean}", mean) for mean in (100.0, 300.0, 200.0)]
    summer = [model(registry, tmp_path / f"summer {mean}", mean, SUMMER) for mean in (2.0, 1.0)]
    unscored = model(registry, tmp_path / "unscored")
    gone = {row.id: row.archived_because for row in registry.plan_prune(keep_top_n=2, max_age_days=None)}
    assert set(gone) == {spring[0].id, unscored.id}
    assert gone[spring[0].id] == "it is number 3 of those it is compared with, and 2 are kept"
    assert "number 4" in (gone[unscored.id] or "")
    assert {row.id for row in registry.plan_prune(keep_top_n=1, max_age_days=None)} == {
        *(row.id for row in (spring[0], spring[2], summer[1], unscored))
    }


def test_of_every_judgement_the_first_is_held_and_no_score_holds_another(
    registry: ModelRegistry, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    spring = [model(registry, folder / f"spring {mean}", mean) for mean in (1.0, 2.0)]
    summer = model(registry, folder / "summer", -5.0, SUMMER)
    scored(registry, model(registry, folder / "reported"), 900.0, TEST, chooses=False)
    model(registry, folder / "unscored")
    assert registry.held(folder) == {spring[1].path, summer.path}
    assert registry.held(tmp_path / "other") == set()


def test_metrics_that_a_user_gave_for_dates_are_compared_with_nothing(registry: ModelRegistry, tmp_path: Path) -> None:
    for number, (fields, key) in enumerate(
        [
            ({"metrics": {"dated": True}}, None),
            ({"metrics": {"dated": False}}, UNDATED),
            ({"in_sample": True}, None),
            ({"in_sample": False}, UNDATED),
            ({"window_end": "2020-12-31"}, None),
            ({"judgement": SPRING}, None),
            ({"judgement": SPRING, "chooses": True}, SPRING.key),
        ]
    ):
        row = registry.register(new_model(tmp_path / str(number)))
        assert registry.add_evaluation(row.id, evaluation(**fields)).judgement_key == key, fields
        assert registry.get(row.id).judgement_key == key
