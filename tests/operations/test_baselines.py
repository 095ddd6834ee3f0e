"""Rules that are judged beside a policy: what fails, and whose fault it is."""

import pytest

from alphaswarm_rl.core.errors import DiskError, SpecError
from alphaswarm_rl.operations.compare import CompareRuns, compare
from alphaswarm_rl.runtime import RLRuntime
from tests.runtime.conftest import tiny


@pytest.fixture
def judged(settings):
    """A run that judged a rule."""
    return RLRuntime(tiny(agent={"class": "random"}), settings).evaluate()


def failing(error):
    """An evaluation that fails with that error, where the rule is the constant one."""
    evaluate = RLRuntime.evaluate

    def failed(self, **arguments):
        if self.spec.agent.label == "constant":
            raise error
        return evaluate(self, **arguments)

    return failed


def test_a_rule_that_cannot_be_judged_is_said_and_the_others_are_compared(settings, judged, monkeypatch):
    refused = SpecError("the policy 'constant'", "it fits no action of this kind", "Choose another.")
    monkeypatch.setattr(RLRuntime, "evaluate", failing(refused))
    found = compare(settings, CompareRuns((judged.run_id,), baselines=True))
    assert found.baselines_failed == {"constant": str(refused)}
    (group,) = found.groups
    assert [run.label for run in group.runs if run.baseline] == ["random"]


def test_a_disk_that_fails_is_no_fault_of_a_rule(settings, judged, monkeypatch):
    monkeypatch.setattr(RLRuntime, "evaluate", failing(DiskError("the disk", "it is full", "Free space.")))
    with pytest.raises(DiskError, match="it is full"):
        compare(settings, CompareRuns((judged.run_id,), baselines=True))
