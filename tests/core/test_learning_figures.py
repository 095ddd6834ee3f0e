import pytest

from alphaswarm_rl.core.learning_figures import LearningFigures


def test_figures_are_found_whatever_stands_before_their_names():
    found = LearningFigures.of(
        {"train/loss": 2.0, "train/value_loss": 3.0, "train/entropy": 0.5, "train/explained_variance": 0.25}
    )
    assert found == LearningFigures({"loss": 2.0, "value_loss": 3.0}, 0.5, 0.25)
    assert LearningFigures.of({"loss": 1.0, "train/n_updates": 7.0}) == LearningFigures({"loss": 1.0})


def test_an_entropy_loss_is_the_negative_entropy_and_no_loss():
    assert LearningFigures.of({"train/entropy_loss": -0.7}) == LearningFigures({}, 0.7)
    assert LearningFigures.of({"train/entropy_loss": None}) == LearningFigures()
    assert LearningFigures.of({"entropy": 0.2, "entropy_loss": -0.7}).entropy == 0.2


@pytest.mark.parametrize(
    ("losses", "stands_for_all"),
    [
        ({"loss": 1.0, "value_loss": 2.0}, 1.0),
        ({"actor_loss": 3.0, "critic_loss": 4.0, "value_loss": 2.0}, 4.0),
        ({"policy_loss": 3.0, "value_loss": 2.0}, 2.0),
        ({"loss": None, "value_loss": 2.0}, None),
        ({"policy_loss": 3.0}, None),
        ({}, None),
    ],
)
def test_one_loss_stands_for_all(losses, stands_for_all):
    assert LearningFigures.of(losses).loss == stands_for_all
