"""Runs that are killed and resumed: trackers hold what they hold of a run that nobody disturbed, every point once."""

import json

import pytest

from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.tracking.journal import Journal
from tests.lake.killing import Moment, rl
from tests.tracking.telling import mlflow_runs, seen_in_files, seen_in_mlflow

#: Logged every 256 transitions and saved every 384: checkpoints lie inside of log intervals.
SPEC = """\
name: killed and told
env: {class: cartpole}
agent: {class: ppo_inhouse, kwargs: {n_steps: 32, batch_size: 64, n_epochs: 1, net_arch: [8]}}
training:
  {total_timesteps: 1600, n_envs: 4, seed: 3, log_interval: 2, eval_during_training: true, eval_freq: 512}
evaluation: {episodes: 4}
mlflow: {register_model_as: MODEL}
"""
FLAGS = ("--checkpoint-freq", 384)
RATE = "steps_per_second"

_APPEND = "alphaswarm_rl.tracking.journal:Journal.append"
_FINISH = "alphaswarm_rl.ledger.ledger:Ledger.finish_run"
_DELIVER = "alphaswarm_rl.tracking.delivery:Delivery._once"
_EVALUATED = "alphaswarm_rl.ledger.ledger:Ledger.add_evaluation"

#: In the training, from its first checkpoint on.
MIDDLE = (
    *(Moment(_APPEND, nth) for nth in (1, 2, 3, 5, 8, 11, 13, 17)),
    Moment(_APPEND, 4, after=True),
    Moment("alphaswarm_rl.inference.checkpoints:CheckpointStore.save", after=True),
    Moment("alphaswarm_rl.runtime.session:TrainingSession.report_checkpoint"),
    Moment(_EVALUATED),
    Moment(_EVALUATED, after=True),
    Moment("alphaswarm_rl.runtime.session:TrainingSession.evaluate"),
    Moment("alphaswarm_rl.runtime.session:TrainingSession.evaluate", after=True),
    Moment(_DELIVER, 2),
    Moment(_DELIVER, 2, after=True),
    Moment(_FINISH),
)
#: Once the row says that it is completed.
END = (
    Moment(_FINISH, after=True),
    Moment("alphaswarm_rl.tracking.listener:TrackingListener.on_end"),
    *(Moment(_APPEND, nth, since=_FINISH) for nth in range(1, 8)),
    Moment(_DELIVER, 1, since=_FINISH),
    Moment("alphaswarm_rl.tracking.listener:TrackingListener.on_end", after=True),
)
#: Those of the fast suite, and of the fast suite with a real server.
QUICK = (
    *(Moment(_APPEND, nth) for nth in (1, 5, 13)),
    Moment(_EVALUATED, after=True),
    Moment("alphaswarm_rl.runtime.session:TrainingSession.evaluate", after=True),
    Moment(_DELIVER, 2),
    Moment(_FINISH, after=True),
    Moment(_APPEND, 2, since=_FINISH),
    Moment(_DELIVER, 1, since=_FINISH),
)
QUICK_AT_A_SERVER = (Moment(_APPEND, 8), Moment(_FINISH, after=True))


def marked(moments, quick):
    """The moments as parameters; the full count is slow."""
    return [pytest.param(each, marks=() if each in quick else pytest.mark.slow, id=str(each)) for each in moments]


def trained(folder, moment=None, *flags, model="killed-model"):
    """The home of a run that is killed at that moment, and its id."""
    path, home = folder / "spec.yaml", folder / "home"
    path.write_text(SPEC.replace("MODEL", model))
    answer = rl("train", path, *FLAGS, *flags, home=home, moment=moment)
    assert answer.code == (0 if moment is None else -9), answer.err
    return home, run_of(home).id


def run_of(home):
    with Ledger.open(Settings(home=home)) as ledger:
        (run,) = ledger.runs(limit=None)
    return run


def to_the_end(home):
    """Resumes the run where it is not completed, and delivers."""
    run = run_of(home)
    if run.status != "completed":
        resumed = rl("resume", run.id, *FLAGS, home=home)
        assert resumed.code == 0, resumed.err
    synced(home)
    assert run_of(home).status == "completed"


def synced(home):
    answer = rl("store", "sync", "--json", home=home)
    assert answer.code == 0, answer.out + answer.err


def assert_same(seen, whole, run):
    """The same history but for rates, each step of every metric once; the same end."""
    for name, points in seen.metrics.items():
        steps = [step for step, _ in points]
        assert steps == sorted(set(steps)), (name, points)
    assert {name: [step for step, _ in points] for name, points in seen.metrics.items()} == {
        name: [step for step, _ in points] for name, points in whole.metrics.items()
    }
    for name in set(whole.metrics) - {RATE}:
        assert seen.metrics[name] == whole.metrics[name], name
    assert any(name.startswith("final/") for name in seen.metrics)
    assert seen.status == seen.tags["status"] == "completed"
    assert seen.tags["checkpoint_sha256"] == run.checkpoint_sha256
    assert set(seen.artefacts) == set(whole.artefacts)
    assert [artefact for _, artefact in seen.models] == [artefact for _, artefact in whole.models]


def in_files(home, run_id):
    return seen_in_files(home / "tracking" / "rl-experiment" / run_id)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What the files say of a run that nobody disturbed."""
    home, run = trained(tmp_path_factory.mktemp("whole"))
    seen = in_files(home, run)
    assert {"train/value_loss", "episode/reward", "validation/mean_reward", "evaluate/mean_reward"} <= set(seen.metrics)
    assert [step for step, _ in seen.metrics["train/value_loss"]] == [256, 512, 768, 1024, 1280, 1536, 1600]
    assert len(seen.metrics["episode/reward"]) == 7  # six log intervals, and the end
    return seen


@pytest.mark.parametrize("moment", marked((*MIDDLE, *END), QUICK))
def test_files_of_a_killed_run_are_those_of_an_undisturbed_one(whole, tmp_path, moment):
    home, run = trained(tmp_path, moment)
    to_the_end(home)
    assert_same(in_files(home, run), whole, run_of(home))
    assert whole.tags["checkpoint_sha256"] == run_of(home).checkpoint_sha256


def test_a_run_killed_three_times_and_told_about_in_between_is_told_once(whole, tmp_path):
    home, run = trained(tmp_path, Moment(_APPEND, 3))
    for nth in (8, 25):
        synced(home)
        assert json.loads((home / "tracking" / "rl-experiment" / run / "run.json").read_text())["status"] != "running"
        assert rl("resume", run, *FLAGS, home=home, moment=Moment(_APPEND, nth, since=None)).code == -9
    to_the_end(home)
    assert_same(in_files(home, run), whole, run_of(home))


def test_a_process_that_still_holds_the_journal_of_a_resumed_run_keeps_nothing_from_it(whole, tmp_path):
    home, run = trained(tmp_path, Moment(_APPEND, 8))
    stale = Journal(home / "tracking" / "journal", run)
    stale.open()
    to_the_end(home)
    stale.append("metrics", step=1, metrics={"train/value_loss": 9.0})
    stale.close()
    synced(home)
    assert_same(in_files(home, run), whole, run_of(home))


def test_an_agent_that_resumes_approximately_says_every_point_once_too(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "SPEC", SPEC.replace("ppo_inhouse", "ppo"))
    home, run = trained(tmp_path, Moment(_APPEND, 13))
    to_the_end(home)
    seen, resumed = in_files(home, run), run_of(home)
    assert resumed.resume == "approximate"
    for name, points in seen.metrics.items():
        steps = [step for step, _ in points]
        assert steps == sorted(set(steps)), (name, points)
    assert [step for step, _ in seen.metrics[RATE]] == [*range(256, 1601, 256), resumed.timesteps]
    assert seen.metrics["final/mean_reward"] == [(resumed.timesteps, resumed.mean_reward)]


def mlflow_flags(server, experiment):
    return ("--backend", "mlflow", "--tracking-uri", server.uri, "--experiment-name", experiment)


#: To a server a process of its own delivers.
AT_A_SERVER = [each for each in (*MIDDLE, *END) if each.function != _DELIVER]


@pytest.mark.parametrize("moment", marked(AT_A_SERVER, QUICK_AT_A_SERVER))
def test_mlflow_has_of_a_killed_run_what_it_has_of_an_undisturbed_one(whole, mlflow_server, client, tmp_path, moment):
    experiment = f"killed {moment}"
    home, run = trained(tmp_path, moment, *mlflow_flags(mlflow_server, experiment), model=f"killed-{moment}")
    to_the_end(home)
    assert_same(seen_in_mlflow(client, experiment, run, tmp_path / "down"), whole, run_of(home))
    (found,) = mlflow_runs(client, experiment, run)
    assert run_of(home).mlflow_run_id == found.info.run_id


def test_mlflow_keeps_the_run_that_was_told_of_too_much(whole, mlflow_server, client, tmp_path):
    home, run = trained(tmp_path, Moment(_APPEND, 8), *mlflow_flags(mlflow_server, "too much"), model="too-much")
    synced(home)
    (first,) = mlflow_runs(client, "too much", run)
    assert first.info.status == "KILLED"
    early = [point.step for point in client.get_metric_history(first.info.run_id, "train/value_loss")]
    assert max(early) > int(run_of(home).checkpoint.rsplit("/", 1)[1])
    to_the_end(home)
    (again,) = mlflow_runs(client, "too much", run)
    assert again.info.run_id == first.info.run_id
    assert_same(seen_in_mlflow(client, "too much", run, tmp_path / "down"), whole, run_of(home))
