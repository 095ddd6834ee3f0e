import subprocess
import sys

import pytest
from pydantic import Field

from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.component import ComponentConfig, RLComponent
from alphaswarm_rl.core.errors import ComponentError, DuplicateComponent, UnknownComponent
from alphaswarm_rl.core.kinds import Agent, Policy, RewardTerm, TimeSeriesEncoder
from alphaswarm_rl.core.refs import FORMER_MODULES, ComponentRef, build_from_config, ref_to, reference, walk_refs

SEED_KINDS = {
    "env",
    "reward",
    "observation",
    "action",
    "termination",
    "policy",
    "agent",
    "data_pipeline",
    "ensembler",
    "experiment",
    "trajectory_store",
    "advantage_estimator",
    "policy_backbone",
    "replay_buffer",
    "portfolio_stage",
}


@pytest.fixture
def scratch(monkeypatch):
    """A copy of the catalogue that a test may fill."""
    catalogue.discover()
    for name in ("_kinds", "_components", "_names"):
        monkeypatch.setattr(catalogue, name, dict(getattr(catalogue, name)))


@pytest.fixture
def bonus(scratch):
    class Bonus(RewardTerm):
        """A constant bonus."""

        rl_alias = "bonus"

        class Config(ComponentConfig):
            weight: float = Field(1.0, ge=0, description="Size of the bonus.")

        def step(self, view, state, out):
            out[...] = self.config.weight

    return Bonus


def test_every_kind_of_the_seeds_is_there_and_every_base_is_abstract():
    assert set(catalogue.kinds()) >= SEED_KINDS
    for kind, base in catalogue.kinds().items():
        assert base.__abstractmethods__, kind
        assert base.__doc__


def test_a_class_with_an_alias_registers_itself(bonus):
    assert catalogue.get("reward", "bonus") is bonus
    assert catalogue.get("reward", "Bonus") is bonus
    assert catalogue.get("rl_reward", "bonus") is bonus


def test_a_new_kind_needs_one_abstract_base_and_nothing_else(scratch):
    import abc

    class Gate(RLComponent):
        """A check."""

        rl_kind = "gate"

        @abc.abstractmethod
        def check(self): ...

    class AlwaysOpen(Gate):
        """A check that passes."""

        rl_alias = "open"

        def check(self):
            return True

    assert catalogue.get("gate", "open") is AlwaysOpen
    assert build_from_config({"class": "open"}, kind="gate").check()


def test_a_taken_alias_is_an_error_and_the_first_stays(bonus):
    with pytest.raises(DuplicateComponent, match=r"reward 'bonus'.*both claim it"):

        class Other(RewardTerm):
            """Another bonus."""

            rl_alias = "bonus"

            def step(self, view, state, out): ...

    assert catalogue.get("reward", "bonus") is bonus


def test_an_agent_and_a_policy_cannot_share_a_name(scratch):
    with pytest.raises(DuplicateComponent, match=r"EqualWeightPolicy and .*Impostor both claim it"):

        class Impostor(Agent):
            """An agent of a policy's name."""

            rl_alias = "equal_weight"

            def build(self, request): ...

    with pytest.raises(DuplicateComponent, match=r"PPO and .*Rule both claim it"):

        class Rule(Policy):
            """A policy of an agent's name."""

            rl_alias = "ppo"

            def build(self, request): ...


def test_a_plugged_in_policy_is_an_agent_too(scratch):
    class Stubborn(Policy):
        """It never acts otherwise."""

        rl_alias = "stubborn"

        def build(self, request): ...

    assert catalogue.expand("agent", "stubborn", {}) == (
        catalogue.get("agent", "policy"),
        {"policy": {"class": "stubborn", "kwargs": {}}},
    )
    assert catalogue.get("agent", "Stubborn") is catalogue.get("agent", "policy")
    assert catalogue.named("agent", "Stubborn") is Stubborn


def test_a_kind_is_set_once(scratch):
    with pytest.raises(ComponentError, match="already is of kind 'reward'"):

        class Wrong(RewardTerm):
            """Wrong."""

            rl_kind = "penalty"


def test_an_alias_on_an_abstract_class_is_an_error_that_names_the_missing_method(scratch):
    with pytest.raises(ComponentError, match="leaves abstract: build"):

        class Unfinished(TimeSeriesEncoder):
            """Unfinished."""

            rl_alias = "unfinished"


def test_a_component_without_a_docstring_is_refused(scratch):
    with pytest.raises(ComponentError, match="no docstring"):

        class Silent(RewardTerm):
            rl_alias = "silent"

            def step(self, view, state, out): ...


def test_an_unknown_alias_suggests_the_nearest(bonus):
    with pytest.raises(UnknownComponent, match="Did you mean 'bonus'"):
        catalogue.get("reward", "bonsu")


def test_an_unknown_kind_suggests_the_nearest():
    with pytest.raises(UnknownComponent, match="Did you mean 'reward'"):
        catalogue.get("rewrad", "x")


def test_a_kind_without_components_says_that_its_part_is_not_there():
    with pytest.raises(UnknownComponent, match="not there yet"):
        catalogue.get("ensembler", "anything")


def test_an_unknown_parameter_suggests_the_nearest(bonus):
    with pytest.raises(ComponentError, match=r"unknown key 'wieght'. Did you mean 'weight'"):
        build_from_config({"class": "bonus", "kwargs": {"wieght": 2}}, kind="reward")


def test_every_spelling_of_a_reference_means_the_same(bonus):
    plain = reference({"class": "bonus", "kwargs": {"weight": 1}}, "reward")
    for spelling in (
        {"class": "Bonus"},
        {"class": "bonus", "module_path": bonus.__module__, "kwargs": {"weight": "1.0"}},
        {"spec": {"class": "bonus", "kwargs": {}}},
    ):
        assert reference(spelling, "reward") == plain
    assert plain.kwargs == {"weight": 1.0}


@pytest.mark.parametrize("module_path", ["os", "subprocess", "alphaswarm_rl.rewards.bonus"])
def test_another_module_path_is_refused_and_never_imported(bonus, module_path):
    with pytest.raises(ComponentError, match="a spec never imports a module"):
        reference({"class": "bonus", "module_path": module_path}, "reward")


def test_module_paths_of_former_packages_are_rewritten(bonus, monkeypatch):
    monkeypatch.setattr(bonus, "__module__", "alphaswarm_rl.rewards.bonus")
    for former in ("alphaswarm.rl.rewards.bonus", "aqp.rl.rewards.bonus", "alphaswarm_rl.rewards.bonus"):
        assert reference({"class": "bonus", "module_path": former}, "reward").name == "bonus"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("bonus", "a mapping"),
        ({}, "names no class"),
        ({"clas": "bonus"}, "Did you mean 'class'"),
        ({"class": "bonus", "kwargs": [1]}, "not a mapping"),
        ({"spec": {"class": "bonus"}, "x": 1}, "unknown key 'x'"),
    ],
)
def test_a_malformed_reference_is_explained(bonus, value, message):
    with pytest.raises(ComponentError, match=message):
        reference(value, "reward")


def test_references_inside_parameters_are_normalised_and_walked(bonus):
    class Sum(RewardTerm):
        """A sum of terms."""

        rl_alias = "sum"

        class Config(ComponentConfig):
            terms: list[ref_to("reward")] = Field(default_factory=list, description="The terms.")

        def step(self, view, state, out): ...

    ref = reference({"class": "sum", "kwargs": {"terms": [{"class": "Bonus"}]}}, "reward")
    assert ref.kwargs == {"terms": [{"class": "bonus", "kwargs": {"weight": 1.0}}]}

    class Holder(ComponentConfig):
        ref: ComponentRef

    assert [found.name for found in walk_refs(Holder(ref=ref))] == ["sum", "bonus"]


def test_describing_a_component_gives_its_json_schema(bonus):
    description = catalogue.describe(bonus)
    assert description.description == "A constant bonus."
    assert description.schema["properties"]["weight"]["default"] == 1.0


def test_a_plugin_that_cannot_be_imported_is_an_error():
    with pytest.raises(ComponentError, match="no_such_plugin"):
        catalogue.load_plugin("no_such_plugin")


@pytest.mark.parametrize("name", ["../x", "", ".", "a/b", "/tmp/x", "a..b", "x.py\n", "a b", "\0", ".relative", "a-b"])
def test_a_plugin_by_another_word_than_a_modules_name_is_refused_and_nothing_is_imported(name, monkeypatch):
    monkeypatch.setattr(catalogue, "import_module", lambda module: pytest.fail(f"{module!r} was imported"))
    with pytest.raises(ComponentError, match="not the name of a module"):
        catalogue.load_plugin(name)


@pytest.mark.parametrize("code", ["1 / 0", "def", "raise RuntimeError('why')"])
def test_a_plugin_that_fails_when_it_is_imported_is_an_error_with_its_reason(code, tmp_path, monkeypatch):
    (tmp_path / "failing_plugin_of_a_test.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ComponentError, match=r"failing_plugin_of_a_test.*(ZeroDivision|Syntax|Runtime)Error"):
        catalogue.load_plugin("failing_plugin_of_a_test")


def test_what_the_catalogue_says_of_a_plugin_stays_what_it_says(tmp_path, monkeypatch):
    (tmp_path / "taken_alias_of_a_test.py").write_text(
        "from alphaswarm_rl.core.kinds import Policy\n\n\n"
        "class Taken(Policy):\n    'It takes a name.'\n\n    rl_alias = 'random'\n\n"
        "    def build(self, request):\n        raise NotImplementedError\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DuplicateComponent):
        catalogue.load_plugin("taken_alias_of_a_test")


def test_the_catalogue_needs_no_heavy_library():
    code = (
        "import sys; from alphaswarm_rl.core import catalogue; print(len(catalogue.listing()));"
        "heavy = {'torch', 'pandas', 'numba', 'stable_baselines3', 'sqlalchemy', 'mlflow'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 16


def imported_by(code):
    """Our modules of components that a fresh process imported for that code."""
    rooms = "('alphaswarm_rl.rewards.', 'alphaswarm_rl.agents.', 'alphaswarm_rl.envs.', 'alphaswarm_rl.actions.')"
    show = f"import sys; print(*sorted(name for name in sys.modules if name.startswith({rooms})))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{show}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("name", ["pnl", "Pnl", "PNL"])
def test_one_lookup_imports_one_module(name):
    found = imported_by(f"from alphaswarm_rl.core import catalogue; catalogue.get('reward', {name!r})")
    assert found == ["alphaswarm_rl.rewards.pnl"]


def test_asking_for_kinds_imports_none_of_our_components():
    assert imported_by("from alphaswarm_rl.core import catalogue; catalogue.kinds()") == []


def test_the_index_names_every_class_by_alias_and_short_name():
    named = {(kind, name) for kind, name in catalogue._index()}
    for cls in catalogue.listing():
        if cls.__module__.startswith("alphaswarm_rl."):
            for name in (cls.rl_alias, cls.__name__, *cls.rl_short_names):
                assert (cls.rl_kind, name.lower()) in named


def test_a_name_of_the_index_is_taken_before_its_module_is_imported(scratch, monkeypatch):
    for name in ("pnl", "Pnl"):
        monkeypatch.delitem(catalogue._names, ("reward", name.lower()), raising=False)
    monkeypatch.delitem(catalogue._components, ("reward", "pnl"))
    with pytest.raises(DuplicateComponent, match=r"alphaswarm_rl\.rewards\.pnl\.\w+ and .* both claim it"):

        class Usurper(RewardTerm):
            """Claims what the index has."""

            rl_alias = "pnl"

            def step(self, view, state, out):
                out[...] = 0.0


def test_former_modules_are_accepted_through_one_table():
    for former, current in FORMER_MODULES.items():
        found = [cls for cls in catalogue.listing() if cls.__module__ == current]
        assert found, f"{former} -> {current}: nothing is there"
        for cls in found:
            required = [name for name, field in cls.Config.model_fields.items() if field.is_required()]
            if not required:
                ref = {"class": cls.rl_alias, "module_path": former}
                assert reference(ref, cls.rl_kind) == reference({"class": cls.rl_alias}, cls.rl_kind)
