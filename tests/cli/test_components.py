"""`rl components`."""

import subprocess
import sys

import pytest

from alphaswarm_rl.core import catalogue


def test_list_is_the_catalogue(rl):
    listed = {(row["rl_kind"], row["alias"]) for row in rl("components", "list", "--json").json}
    assert listed >= {("env", "cartpole"), ("env", "gymnasium"), ("agent", "ppo"), ("policy", "random")}
    assert listed <= {(cls.rl_kind, cls.rl_alias) for cls in catalogue.listing()}


@pytest.mark.parametrize("kind", ["env", "rl_env", "Env"])
def test_one_kind(rl, kind):
    assert {row["rl_kind"] for row in rl("components", "list", "--kind", kind, "--json").json} == {"env"}


def test_policies_are_listed_and_shown_among_the_agents(rl):
    listed = rl("components", "list", "--kind", "agent", "--json").json
    aliases = [row["alias"] for row in listed]
    assert {row["rl_kind"] for row in listed} == {"agent"}
    assert {"ppo", "equal_weight", "random", "policy"} < set(aliases)
    assert aliases == sorted(aliases)
    assert "equal_weight" in {row["alias"] for row in rl("components", "list", "--kind", "policy", "--json").json}
    assert "ppo" not in {row["alias"] for row in rl("components", "list", "--kind", "policy", "--json").json}
    shown = rl("components", "show", "agent", "equal_weight")
    assert '"rebalance_bars": {' in [line.strip() for line in shown.out.splitlines()]


def test_kinds_without_components_and_unknown_ones(rl):
    assert "no component of kind 'ensembler'" in rl("components", "list", "--kind", "ensembler").out
    unknown = rl("components", "list", "--kind", "agnt")
    assert unknown.code == 2
    assert "'agent'" in unknown.err


def test_listing_from_the_mirror_imports_no_component(rl):
    code = (
        "import sys\nfrom alphaswarm_rl.cli import rl\n"
        "rl.main(['components', 'list'], prog_name='rl', standalone_mode=False)\n"
        "names = ('alphaswarm_rl.agents.sb3.algorithms', 'alphaswarm_rl.envs.cartpole', 'torch', 'gymnasium')\n"
        "print([name for name in names if name in sys.modules], file=sys.stderr)"
    )
    first, second = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)
    )
    assert first.stdout == second.stdout
    assert "alphaswarm_rl.agents.sb3.algorithms" in first.stderr
    assert second.stderr.strip() == "[]"


def test_the_mirror_is_renewed_when_the_code_is_another(rl, monkeypatch, settings):
    from alphaswarm_rl.ledger import Ledger
    from alphaswarm_rl.operations import components

    rl("components", "list")
    with Ledger.open(settings) as ledger:
        before = ledger.components_fingerprint()
    assert before == components.components_fingerprint()
    monkeypatch.setattr(components, "components_fingerprint", lambda: "another")
    rl("components", "list")
    with Ledger.open(settings) as ledger:
        assert ledger.components_fingerprint() == "another"


def test_show(rl):
    shown = rl("components", "show", "env", "cartpole", "--json").json
    assert shown["class_name"] == "CartPole"
    assert shown["schema"]["properties"]["max_episode_steps"]["default"] == 500
    assert "max_episode_steps" in rl("components", "show", "env", "CartPole").out
    missing = rl("components", "show", "env", "cartpol")
    assert missing.code == 2
    assert "cartpole" in missing.err


def test_a_database_that_cannot_be_opened_is_an_error(rl):
    assert rl("components", "list", "--db-url", "mysql://x").code == 2
