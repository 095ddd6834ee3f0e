"""The ledger's list of components is filled by the first run."""

import logging

from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.kinds import Policy
from alphaswarm_rl.ledger import mirror
from tests.runtime.conftest import tiny

RANDOM = {"agent": {"class": "random"}, "training": {"total_timesteps": 64}}


class OfATest(Policy):
    """A policy that no distribution names."""

    rl_alias = "of_a_test_that_looks_at_the_mirror"

    class Config(ComponentConfig):
        """No parameters."""

    def build(self, request):
        raise NotImplementedError


def test_the_first_run_fills_it_and_the_next_leaves_it_alone(train, ledger):
    assert ledger.components() == []
    train(**RANDOM)
    first = ledger.components()
    aliases = {(row.rl_kind, row.alias) for row in first}
    assert {("env", "cartpole"), ("agent", "ppo"), ("termination", "drawdown")} <= aliases
    installed = [cls for cls in catalogue.listing() if cls.__module__.startswith("alphaswarm_rl.")]
    assert aliases == {(cls.rl_kind, cls.rl_alias) for cls in installed}
    assert ledger.components_fingerprint() == mirror.components_fingerprint()
    train(**RANDOM)
    assert [row.updated_at for row in ledger.components()] == [row.updated_at for row in first]


def test_a_component_of_a_running_program_is_none_of_it(train, ledger):
    assert catalogue.get("policy", OfATest.rl_alias) is OfATest
    train(**RANDOM)
    assert OfATest.rl_alias not in {row.alias for row in ledger.components()}


def test_a_broken_package_of_somebody_else_fails_no_run(train, ledger, monkeypatch, caplog):
    def broken():
        raise ComponentError("component module 'theirs'", "it cannot be imported", "Mend or uninstall theirs.")

    monkeypatch.setattr(mirror, "installed_components", broken)
    with caplog.at_level(logging.WARNING, logger="alphaswarm_rl"):
        assert train(**RANDOM).status == "completed"
    assert ledger.components() == []
    assert "the list of components is not stored: component module 'theirs'" in caplog.text
    monkeypatch.undo()
    train(spec=tiny(**RANDOM))
    assert ledger.components() != []
