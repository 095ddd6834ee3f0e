"""Every command that writes, killed at any moment, or on a disk that is full or fails: nothing is lost or doubled."""

import random
import signal

import pytest

from alphaswarm_rl.operations.operation import operations
from tests.chaos.commands import MADE_OF_OTHERS, SCENES, Stage
from tests.chaos.trouble import Trouble

#: Seeds of the full counts: 1,224 kills, and 272 each of full and of failing disks.
KILLS = range(100, 136)
TROUBLES = range(200, 208)


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """The stage of a scene, set once."""
    known = {}

    def of(name):
        if name not in known:
            known[name] = Stage(tmp_path_factory.mktemp(name.replace(" ", "-")), SCENES[name])
        return known[name]

    return of


def _disturbed(stage, what, seed):
    nth = random.Random(f"{stage.scene.command} {what} {seed}").randint(1, stage.events)
    answer = stage.play(Trouble(what, nth))
    while what == "kill" and answer.code == 0 and nth > 1:
        # How many calls there are depends a little on the clock: it came to its end before this one.
        nth = nth * 9 // 10
        answer = stage.play(Trouble(what, nth))
    where = f"{what} at call {nth} of {stage.events}"
    if what == "kill":
        assert answer.code == -signal.SIGKILL, (where, answer.code, answer.err[-1500:])
    else:
        assert answer.code in (0, 1, 2), (where, answer.code, answer.err[-1500:])
        assert "internal error" not in answer.err, (where, answer.err[-1500:])
    stage.recover()
    stage.check()


def test_every_operation_that_changes_something_has_a_scene():
    changing = {name for name, operation in operations().items() if operation.changes}
    assert {scene.verb for scene in SCENES.values()} == changing - MADE_OF_OTHERS


#: Of the fast suite: seeds by scene.
TELLING = [("train", 1), ("resume", 1), ("evaluate", 1), ("lake commit", 1), ("runs rm", 1), ("models promote", 1)]


@pytest.mark.parametrize(("name", "seed"), TELLING)
def test_a_command_that_is_killed_at_any_moment_can_be_gone_on_with(stage, name, seed):
    _disturbed(stage(name), "kill", seed)


@pytest.mark.parametrize("what", ["full", "io"])
def test_a_disk_that_is_full_or_fails_loses_nothing(stage, what):
    _disturbed(stage("train"), what, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", KILLS)
@pytest.mark.parametrize("name", SCENES)
def test_a_thousand_kills(stage, name, seed):
    _disturbed(stage(name), "kill", seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", TROUBLES)
@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("what", ["full", "io"])
def test_two_hundred_times_a_full_disk_and_a_failing_one(stage, name, what, seed):
    _disturbed(stage(name), what, seed)
