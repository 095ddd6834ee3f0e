"""Damaged specs, settings, command lines, checkpoints and data: no internal error, no hang, no wrong success."""

import pytest

from tests.chaos.fuzzing import KINDS, defect, describe, make, outcomes, outcomes_of_processes
from tests.cli.calling import Answer

SMALL = {"spec": 60, "settings": 40, "command line": 60, "checkpoint": 25, "data": 12}


def defects(found):
    """What is wrong, so that it can be seen again; and that something was looked at."""
    found = list(found)
    assert found
    return [describe(outcome) for outcome in found if outcome.defect is not None]


@pytest.fixture
def folder(tmp_path):
    # Words such as ../x stay below the folder of the test.
    made = tmp_path / "a" / "b"
    made.mkdir(parents=True)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_damaged_has_a_reason(kind, folder):
    assert defects(outcomes(kind, range(SMALL[kind]), folder)) == []


def test_real_commands_say_the_same(folder):
    assert defects(outcomes_of_processes(KINDS, 5, folder)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_is_made_by_its_seed_alone_and_half_of_them_are_known_to_be_wrong(kind, folder):
    first = [make(kind, seed, folder / f"first{seed}") for seed in range(20)]
    again = [make(kind, seed, folder / f"again{seed}") for seed in range(20)]
    assert [case.wrong for case in first] == [case.wrong for case in again]
    assert len({case.arguments for case in first}) == 20
    assert 4 <= sum(case.wrong is not None for case in first) < 20


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (Answer(0, "done", ""), "it went well, although"),
        (Answer(1, "", "error: internal error\n  why: KeyError: 1\n  remedy: x"), "internal error"),
        (Answer(1, "", "Traceback (most recent call last):"), "internal error"),
        (Answer(-11, "", ""), "it ended with -11"),
        (Answer(2, "", "no"), "without a reason"),
    ],
)
def test_every_kind_of_defect_is_seen(answer, what, folder):
    case = next(case for seed in range(99) if (case := make("settings", seed, folder / str(seed))).wrong)
    assert what in defect(case, answer)
    assert defect(case, Answer(2, "", "error: x\n  why: y\n  remedy: z")) is None or "--json" in case.arguments
