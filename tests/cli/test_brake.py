"""Some of the figures of `benchmarks/brake.py`: real commands, stopped within a second."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def brake():
    """The benchmark as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
        yield import_module("brake")


@pytest.fixture(scope="module")
def place(brake, tmp_path_factory):
    return brake.Place(tmp_path_factory.mktemp("brake"), silence=5.0)


@pytest.mark.parametrize(
    ("form", "state"),
    [("resume", "fine"), ("infer --run", "locked"), ("infer --model-id --episodes", "restored"), ("replay", "lost")],
)
def test_a_command_stops_within_a_second(brake, place, form, state):
    (chosen,) = [each for each in brake.FORMS if each.name == form]
    assert brake.measure(place, chosen, state) <= brake.MOST_SECONDS


def test_a_command_whose_ledger_is_gone_stops_after_the_silence(brake, place):
    (chosen,) = [each for each in brake.FORMS if each.name == "infer --run"]
    assert brake.MOST_SECONDS < brake.measure(place, chosen, "gone") <= place.silence
