"""The context of studies: every run is an ordinary one, with changes, window, seed and parent."""

from dataclasses import dataclass

import pytest

from alphaswarm_rl.core.claims import StaleClaim
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import RunError, SpecError
from alphaswarm_rl.core.kinds import Experiment
from alphaswarm_rl.core.study_context import StudyContext, StudyRun
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.tables import runs
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.studies.context import RuntimeContext
from tests.studies.documents import TRADING, base

SHORT = base(training={"total_timesteps": 128})


@pytest.fixture
def ledger(settings):
    with Ledger.open(settings) as opened:
        yield opened


def context_of(data, settings, **more) -> StudyContext:
    return RuntimeContext(RLExperimentSpec.from_data(data), settings, **more)


def test_a_training_has_the_changes_the_seed_and_the_name(settings, ledger):
    context = context_of(SHORT, settings, overrides={"training.n_envs": {"value": 4, "source": "test"}})
    run = context.train({"agent.kwargs.gamma": 0.5}, seed=9, name="first of two")
    row = ledger.run(run.run_id)
    assert (run.status, run.seed, row.seed, row.name) == ("completed", 9, 9, "first of two")
    assert row.overrides == {
        "training.n_envs": {"value": 4, "source": "test"},
        "agent.kwargs.gamma": {"value": 0.5, "source": "study first of two"},
    }
    assert ledger.version(row.version_id).payload["agent"]["kwargs"]["gamma"] == 0.5
    assert row.family == "tuned"
    assert run.checkpoint == row.checkpoint
    assert run.evaluation["mean_reward"] == row.mean_reward
    assert run.validation["mean_reward"] is not None
    assert context.run(run.run_id) == run


def test_windows_and_parents(settings, ledger):
    context = context_of(
        {**TRADING, "observation": {"class": "portfolio_state"}, "training": {"total_timesteps": 64}}, settings
    )
    trained = context.train(window=Window("2020-01-10", "2020-06-01"))
    row = ledger.run(trained.run_id)
    assert (row.window_start, row.window_end) == ("2020-01-10", "2020-06-01")
    later = Window("2020-06-01", "2020-09-01")
    judged = context.evaluate(parent=trained.run_id, window=later, episodes=1, name="judged")
    replayed = context.replay(trained.run_id, window=later, seed=5, episodes=1)
    for run, target in ((judged, "evaluate"), (replayed, "replay")):
        row = ledger.run(run.run_id)
        assert (row.parent_run_id, row.target, row.window_start) == (trained.run_id, target, "2020-06-01")
        assert run.evaluation["total_return"] == row.total_return
        assert run.validation == {}
    assert ledger.run(judged.run_id).name == "judged"
    assert replayed.seed == 5


def test_a_policy_that_needs_no_training_is_judged_under_a_changed_spec(settings, ledger):
    context = context_of(base(agent={"class": "random"}), settings)
    run = context.evaluate({"agent": {"class": "constant"}}, episodes=2)
    version = ledger.version(ledger.run(run.run_id).version_id)
    assert version.payload["agent"]["kwargs"]["policy"]["class"] == "constant"
    assert run.evaluation["episodes"] == 2


def test_a_run_that_fails_is_returned_and_a_refusal_is_raised(settings, ledger):
    context = context_of(base(agent={"class": "constant"}), settings)
    failed = context.train({"agent.kwargs.policy.kwargs.action": 7})
    assert (failed.status, ledger.run(failed.run_id).status) == ("failed", "failed")
    assert "7" in failed.error
    with pytest.raises(SpecError, match="has no 'no'"):
        context.train({"agent.kwargs.no": 1})
    with pytest.raises(RunError, match="under its own spec"):
        context.evaluate({"training.n_envs": 2}, parent=failed.run_id)
    ledger.engage("*", "enough", "test")
    with pytest.raises(RunError, match="kill switch"):
        context.train()


def test_a_study_can_halt_its_runs(settings):
    training = {"total_timesteps": 4096, "n_envs": 8, "eval_freq": 1024}
    context = context_of(base(agent={"class": "random"}, training=training), settings)
    run = context.train(stop_when=lambda event: "seen enough" if event.stage == "eval.step" else None)
    assert (run.status, run.halt_reason) == ("halted", "seen enough")


class Seeds(Experiment):
    """Trains the spec once per seed."""

    class Config(ComponentConfig):
        count: int = 2

    def run(self, context: StudyContext) -> list[float]:
        runs = [context.train(seed=seed, name=f"seed {seed}") for seed in range(self.config.count)]
        return [run.evaluation["mean_reward"] for run in runs]


@dataclass
class Replies:
    """A context that trains nothing: what a study needs in its own tests."""

    def train(self, changes=None, *, window=None, seed=None, name=None, stop_when=None):
        return StudyRun(f"run {seed}", "completed", seed, evaluation={"mean_reward": float(seed)})


def test_an_experiment_runs_on_any_context(settings, ledger):
    assert Seeds(Seeds.Config()).run(Replies()) == [0.0, 1.0]
    found = Seeds(Seeds.Config()).run(context_of(SHORT, settings))
    assert [row.name for row in ledger.runs()] == ["seed 1", "seed 0"]
    assert found == [ledger.runs()[1].mean_reward, ledger.runs()[0].mean_reward]


def taken_over(settings):
    """A rule that never stops a run, and after its start says that another process goes on with it."""

    def take_over(event):
        if event.stage == "start":
            with Ledger.open(settings) as ledger, ledger.engine.begin() as connection:
                connection.execute(runs.update().values(resumed=runs.c.resumed + 1))

    return take_over


def test_a_run_that_another_process_took_over_is_no_result(settings, ledger):
    with pytest.raises(StaleClaim, match="another process resumed it"):
        context_of(SHORT, settings).train(stop_when=taken_over(settings))
