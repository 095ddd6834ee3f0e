"""Ten models of different windows and quality: validation chooses who answers, and the lucky one never does."""

import logging
import shutil
from dataclasses import replace

import pytest

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.core.judgement import Judgement
from alphaswarm_rl.inference.policy_server import PolicyServer
from alphaswarm_rl.models.rows import NewEvaluation
from tests.inference.test_policy_server import other_row, registry, trained

__all__ = ["registry", "trained"]

SPRING = Judgement("a" * 64, "2020-03-02", "2020-05-29", 12, True, {"half_spread_bps": 2.0})
SUMMER = replace(SPRING, data="b" * 64, start="2020-06-01", end="2020-08-31")
#: What gates ask of every model that was judged here.
LEARNT = {"updates": 40, "actions_vary": True}
TEST = replace(SPRING, data="c" * 64, start="2021-01-04", end="2021-12-31")


def score(registry, row, mean, on, *, chooses=True):
    returns = [mean - 0.1, mean + 0.1] * 6
    source = "validation" if chooses else "evaluate"
    new = NewEvaluation(12, mean, 0.1, 20.0, 0, True, on.start, on.end, False, returns, source, metrics=LEARNT)
    verdict = registry.validate(row.id, evaluation=replace(new, judgement=on, chooses=chooses))
    return verdict.passed


@pytest.fixture
def ten(trained, settings, registry):
    """Five judged in spring, four in summer, and one that is good on its test window only."""
    rows = []
    for number in range(10):
        row = trained[number % len(trained)]
        folder = settings.models_path / "ten" / str(number)
        shutil.copytree(row.path, folder)
        rows.append(registry.register(other_row(row, model_path=folder)))
    for number, row in enumerate(rows):
        assert score(registry, row, 10.0 * (number + 1), SUMMER if 5 <= number < 9 else SPRING)
        score(registry, row, 500.0 - number, TEST, chooses=False)
    score(registry, rows[9], 5.0, SPRING)
    score(registry, rows[9], 9000.0, TEST, chooses=False)
    return rows


def test_validation_chooses_and_the_lucky_one_is_not_promoted(ten, registry, settings):
    lucky, spring, summer = ten[9], ten[4], ten[8]
    with pytest.raises(ModelError, match="rl models judge"):
        PolicyServer.open(settings)
    assert [row.id for row in registry.list()][:1] == [spring.id]  # the group of the newest model, the lucky one's
    # The candidate of the summer and the champion of the spring are judged on the candidate's window.
    registry.promote(spring.id, who="tester", why="the best of the spring")
    with pytest.raises(ModelError, match=f"rl models judge {summer.id}"):
        registry.promote(summer.id, who="tester", why="a later window")
    assert score(registry, spring, 80.0, SUMMER)
    with PolicyServer.open(settings) as server:
        assert server.model.id == summer.id
        for row in (lucky, spring):
            score(registry, row, 90_000.0, TEST, chooses=False)
        assert not server.refresh()
        with pytest.raises(ModelError, match="has the higher score where both were judged alike"):
            registry.promote(lucky.id, who="tester", why="look at its test window")
        registry.promote(summer.id, who="tester", why="better where both were judged")
        assert registry.by_alias("champion").id == summer.id
        assert score(registry, spring, 91.0, SUMMER)
        assert server.refresh()
        assert server.model.id == spring.id


def test_a_server_whose_model_is_revoked_waits_where_nobody_can_say_who_is_better(ten, registry, settings, caplog):
    spring, summer = ten[4], ten[8]
    score(registry, spring, 95.0, SUMMER)
    with PolicyServer.open(settings) as server, caplog.at_level(logging.ERROR):
        assert server.model.id == spring.id
        registry.archive(spring.id, because="a test")
        # The best of the spring that is left and the best of the summer were never judged alike.
        assert not server.refresh()
        assert server.model.id == spring.id
        assert not server.refresh()
        assert caplog.text.count("nobody can say which is better") == 1
        score(registry, ten[3], 1.0, SUMMER)
        assert server.refresh()
        assert server.model.id == summer.id
