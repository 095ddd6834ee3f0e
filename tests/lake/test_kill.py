"""Runs that are killed and resumed: their six tables are those of a run that nobody disturbed."""

import os
import random
import signal

import pytest

from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.settings import Settings
from tests.lake.killing import SMALL, TRADING, Forked, Moment, rl, rows_of

#: So that all of it is in the spool when the run ends.
LATE = (*SMALL, "--lake-commit-rows", 10**6, "--lake-commit-seconds", 600)
SPECS = {
    "cartpole": """\
name: killed cartpole
env: {class: cartpole}
agent: {class: random}
training: {total_timesteps: 2200, n_envs: 4, seed: 3, eval_during_training: true, eval_freq: 700}
evaluation: {episodes: 6}
""",
    "trading": TRADING,
    "ppo": """\
name: killed ppo
env: {class: cartpole}
agent: {class: ppo, kwargs: {n_steps: 32, batch_size: 64, n_epochs: 1, net_arch: [8]}}
training: {total_timesteps: 2200, n_envs: 4, seed: 3}
evaluation: {episodes: 6}
""",
}
#: The native learners, in place of the agent that learns nothing.
NATIVE = {
    "ppo_inhouse": "{n_steps: 32, batch_size: 64, n_epochs: 2, net_arch: [8]}",
    "a2c_inhouse": "{n_steps: 12, net_arch: [8]}",
    "ddqn_inhouse": "{learning_starts: 200, batch_size: 32, net_arch: [8]}",
}
for _name, _kwargs in NATIVE.items():
    SPECS[_name] = SPECS["cartpole"].replace("{class: random}", f"{{class: {_name}, kwargs: {_kwargs}}}")
SPECS["ppo_inhouse trading"] = SPECS["trading"].replace(
    "{class: random}", f"{{class: ppo_inhouse, kwargs: {NATIVE['ppo_inhouse']}}}"
)
SPECS["parquet"] = f"{SPECS['cartpole']}trajectory_store: {{class: parquet}}\n"

_LAKE = "alphaswarm_rl.lake"
_STORE = "alphaswarm_rl.trajectory_stores.open_stores"
_CLOSE = f"{_LAKE}.segments:SegmentWriter.close"
_COMMIT = "pyiceberg.catalog.sql:SqlCatalog.commit_table"
_MERGE = f"{_LAKE}.compaction:merge"
_ADD_REFS = "alphaswarm_rl.ledger.ledger:Ledger.add_refs"
_EVALUATE = "alphaswarm_rl.runtime.session:TrainingSession.evaluate"
_FINISH = "alphaswarm_rl.trajectory_stores.segmented:SegmentedStore.finish"
_MERGE_SPOOLED = "alphaswarm_rl.trajectory_stores.segmented:merge_spooled"
_EXCHANGE = f"{_LAKE}.producers:exchange"
_COMPACT = f"{_STORE}:compact"

MOMENTS = (
    Moment(f"{_LAKE}.segments:SegmentWriter.write", 3),
    Moment("os:fsync", 1, within=_CLOSE),
    Moment("os:fsync", 3, after=True, within=_CLOSE),
    Moment("pathlib:Path.rename", 2, after=True, within=_CLOSE),
    Moment(_CLOSE, 4),
    Moment(f"{_STORE}:deliver"),
    Moment(f"{_LAKE}.delivery:place", 3, after=True),
    Moment(_EXCHANGE, 2),
    Moment(_COMMIT),
    Moment(_COMMIT, after=True),
    Moment(_ADD_REFS, 2),
    Moment(_ADD_REFS, 2, after=True),
    Moment("pathlib:Path.unlink", 1, after=True, within=f"{_LAKE}.delivery:remove"),
    Moment("alphaswarm_rl.inference.checkpoints:CheckpointStore.save"),
    Moment("alphaswarm_rl.inference.checkpoints:CheckpointStore.save", after=True),
    Moment("alphaswarm_rl.runtime.session:TrainingSession._evaluate"),
    Moment("alphaswarm_rl.runtime.session:TrainingSession._evaluate", after=True),
    Moment(_EVALUATE),
    Moment("alphaswarm_rl.recording.run_recorder:RecordedEnv.step", 9, within=_EVALUATE),
    Moment(_EVALUATE, after=True),
    Moment(_FINISH),
    Moment(_MERGE, 1, within=_MERGE_SPOOLED),
    Moment(_MERGE, 1, after=True, within=_MERGE_SPOOLED),
    Moment("pathlib:Path.unlink", 1, after=True, within=_MERGE_SPOOLED),
    Moment(_MERGE_SPOOLED, after=True),
    Moment(_EXCHANGE, 1, within=_FINISH),
    Moment(_EXCHANGE, 2, after=True, within=_FINISH),
    Moment(_MERGE, 2, after=True, within=_COMPACT),
    Moment(_EXCHANGE, 1, within=_COMPACT),
    Moment(_EXCHANGE, 1, after=True, within=_COMPACT),
    Moment(_COMPACT, after=True),
    Moment(f"{_STORE}:expire", after=True),
    Moment("alphaswarm_rl.recording.run_recorder:RunRecorder.finish", after=True),
    Moment("alphaswarm_rl.ledger.ledger:Ledger.finish_run"),
    Moment("alphaswarm_rl.ledger.ledger:Ledger.finish_run", after=True),
)

#: Those of the fast suite.
TELLING = {
    "cartpole": (
        Moment("os:fsync", 1, within=_CLOSE),
        Moment(_COMMIT, after=True),
        Moment("pathlib:Path.unlink", 1, after=True, within=_MERGE_SPOOLED),
    ),
    "trading": (Moment(_EXCHANGE, 1, after=True, within=_COMPACT),),
    "ppo": (Moment(_COMMIT, 3),),
    "ppo_inhouse": (Moment(f"{_STORE}:deliver", 2),),
    "ppo_inhouse trading": (Moment(_CLOSE, 4),),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The tables and the last checkpoint of a run that nobody disturbed, by spec."""
    known = {}

    def rows(name):
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            answer = rl("train", _written(folder, name), *SMALL, "--json", home=folder / "home")
            assert answer.code == 0, answer.err
            _assert_well(folder / "home")
            (run,) = _runs(folder / "home")
            known[name] = _rows(folder / "home", run.id), run.checkpoint_sha256
        return known[name]

    return rows


def _written(folder, name):
    path = folder / f"{name}.yaml"
    path.write_text(SPECS[name])
    return path


def _runs(home):
    with Ledger.open(Settings(home=home)) as ledger:
        return ledger.runs(limit=None)


def _rows(home, run_id):
    with Lake(Settings(home=home)) as lake:
        return rows_of(lake, run_id)


def _assert_well(home):
    verified = rl("lake", "verify", "--json", home=home)
    assert verified.json == {"ok": True, "findings": []}, verified.out + verified.err
    assert list((home / "lake" / "spool").rglob("*.parquet")) == []
    for run in _runs(home):
        # Of a run that was killed before its first checkpoint, and cannot go on, a segment stays half written.
        assert run.checkpoint is None or not (home / "lake" / "spool" / run.id).exists()


def _to_the_end(home):
    """Resumes until the run is completed, and gives it."""
    for _ in range(3):
        (run,) = _runs(home)
        if run.status == "completed":
            break
        resumed = rl("resume", run.id, *SMALL, home=home)
        assert resumed.code == 0, resumed.err
    assert rl("lake", "commit", home=home).code == 0
    _assert_well(home)
    return run


def _assert_same(found, expected):
    assert bool(expected["positions"].num_rows) == bool(expected["fills"].num_rows) == ("ts" in _filled(expected))
    for kind, rows in expected.items():
        assert found[kind].num_rows == rows.num_rows, kind
        assert found[kind].equals(rows), kind


def _filled(tables):
    """Columns of the steps that are not null everywhere: trading has bars, and so times."""
    steps = tables["trajectories"]
    return [name for name in steps.column_names if steps[name].null_count < steps.num_rows]


def _assert_sound(home, run):
    """What must hold of an agent that resumes approximately: nothing is missing, doubled or of an abandoned line."""
    steps = _rows(home, run.id)["trajectories"].to_pandas()
    trained = steps[steps.phase == "train"]
    assert len(trained) == run.timesteps
    assert not steps.duplicated(["phase", "env_idx", "episode", "step"]).any()
    finished = trained[trained.terminated | trained.truncated].groupby(["env_idx", "episode"]).size()
    with Ledger.open(Settings(home=home)) as ledger:
        episodes = ledger.episodes(run.id, phase="train")
        last = ledger.evaluations(run.id)[-1]
    assert sum(row.count for row in episodes) == len(finished)
    whole = trained.groupby(["env_idx", "episode"]).filter(lambda rows: (rows.terminated | rows.truncated).any())
    assert whole.reward.sum() == pytest.approx(sum(row.mean_reward * row.count for row in episodes))
    judged = steps[steps.phase == "evaluate"]
    assert judged.groupby("episode").reward.sum().tolist() == pytest.approx(last.metrics["returns"])


def _check(tmp_path, whole, name, moment):
    home = tmp_path / "home"
    small = LATE if _MERGE_SPOOLED in (moment.function, moment.within) else SMALL
    killed = rl("train", _written(tmp_path, name), *small, home=home, moment=moment)
    assert killed.code == -signal.SIGKILL, f"it ended by itself: {killed.err[-500:]}"
    (run,) = _runs(home)
    assert run.checkpoint is not None, "it was killed before there was anything to resume from"
    run = _to_the_end(home)
    if name == "ppo":
        _assert_sound(home, run)
    else:
        (run,) = _runs(home)
        rows, weights = whole(name)
        _assert_same(_rows(home, run.id), rows)
        # What it learnt, its optimiser, its buffers and its environment too, to the last bit.
        assert run.checkpoint_sha256 == weights


@pytest.mark.parametrize(
    ("name", "moment"), [(name, moment) for name, moments in TELLING.items() for moment in moments], ids=str
)
def test_a_killed_run_ends_with_the_rows_of_one_that_was_not(tmp_path, whole, name, moment):
    _check(tmp_path, whole, name, moment)


@pytest.mark.parametrize("name", NATIVE)
def test_two_processes_learn_and_record_the_same(tmp_path, whole, name):
    home = tmp_path / "home"
    assert rl("train", _written(tmp_path, name), *SMALL, home=home).code == 0
    (run,) = _runs(home)
    rows, weights = whole(name)
    _assert_same(_rows(home, run.id), rows)
    assert run.checkpoint_sha256 == weights


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS, ids=str)
@pytest.mark.parametrize("name", ["cartpole", "trading", "ppo", *NATIVE, "ppo_inhouse trading"])
def test_whenever_a_run_is_killed_it_ends_with_the_rows_of_one_that_was_not(tmp_path, whole, name, moment):
    _check(tmp_path, whole, name, moment)


_PARQUET = "alphaswarm_rl.trajectory_stores.open_stores"


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    [
        Moment(f"{_PARQUET}:put", 3),
        Moment(f"{_PARQUET}:put", 3, after=True),
        Moment(_ADD_REFS),
        Moment(_ADD_REFS, after=True),
        Moment("pathlib:Path.unlink", after=True, within=f"{_PARQUET}:remove"),
        Moment("pathlib:Path.unlink", 1, after=True, within=_MERGE_SPOOLED),
        Moment(f"{_PARQUET}:put", 2, after=True, within=_FINISH),
        Moment(_FINISH, after=True),
    ],
    ids=str,
)
def test_the_store_without_tables_stands_it_too(tmp_path, whole, moment):
    home = tmp_path / "home"
    small = LATE if _MERGE_SPOOLED in (moment.function, moment.within) else SMALL
    assert rl("train", _written(tmp_path, "parquet"), *small, home=home, moment=moment).code == -signal.SIGKILL
    run = _to_the_end(home)
    assert not (home / "lake" / "catalog.db").exists()
    expected = {kind: rows.drop_columns("spec_hash") for kind, rows in whole("cartpole")[0].items()}
    found = {kind: rows.drop_columns("spec_hash") for kind, rows in _rows(home, run.id).items()}
    _assert_same(found, expected)


def test_a_run_with_a_damaged_segment_goes_on_when_it_is_put_back(tmp_path, whole):
    home = tmp_path / "home"
    killed = rl("train", _written(tmp_path, "cartpole"), *LATE, home=home, moment=Moment(_EVALUATE))
    assert killed.code == -signal.SIGKILL
    (run,) = _runs(home)
    bad = next((home / "lake" / "spool" / run.id / "trajectories" / "train").glob("*.parquet"))
    good = bad.read_bytes()
    bad.write_bytes(good[:-40])
    refused = rl("resume", run.id, *SMALL, home=home)
    assert refused.code != 0
    # The process that resumes has taken it over.
    moved = home / "lake" / "spool" / run.id / "claim-000002" / "trajectories" / "train" / bad.name
    assert str(moved) in refused.err
    assert "Put the file back from a copy" in refused.err
    moved.write_bytes(good)
    _assert_same(_rows(home, _to_the_end(home).id), whole("cartpole")[0])


#: While what came after the checkpoint is taken out.
DROPPING = (
    Moment(f"{_STORE}:announce", since=None),
    Moment(_COMMIT, 2, after=True, within=f"{_STORE}:announce", since=None),
    Moment(f"{_LAKE}.segments:put", 2, after=True, since=None),
    Moment("alphaswarm_rl.trajectory_stores.segmented:take_over", after=True, since=None),
    Moment(_EXCHANGE, after=True, within=f"{_STORE}:drop", since=None),
    Moment(f"{_STORE}:drop", after=True, since=None),
    Moment("alphaswarm_rl.ledger.ledger:Ledger.drop_beyond", after=True, since=None),
)


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(moment, id=str(moment), marks=[pytest.mark.slow] if moment != DROPPING[2] else [])
        for moment in DROPPING
    ],
)
def test_a_run_may_be_killed_again_while_it_is_being_resumed(tmp_path, whole, moment):
    home = tmp_path / "home"
    # Then steps are in their tables and the checkpoint that they belong to is not there.
    first = Moment("alphaswarm_rl.inference.checkpoints:CheckpointStore.save")
    assert rl("train", _written(tmp_path, "cartpole"), *SMALL, home=home, moment=first).code == -signal.SIGKILL
    (run,) = _runs(home)
    assert rl("resume", run.id, *SMALL, home=home, moment=moment).code == -signal.SIGKILL
    _assert_same(_rows(home, _to_the_end(home).id), whole("cartpole")[0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_five_kills_at_random_moments_leave_no_trace(tmp_path, whole, seed):
    name = ("cartpole", "trading", "ppo")[seed % 3]
    home, spec, rng = tmp_path / "home", _written(tmp_path, name), random.Random(seed)
    run, kills = None, 0
    while kills < 5 and (run is None or run.status != "completed"):
        arguments = ("train", spec) if run is None or run.checkpoint is None else ("resume", run.id)
        at_work = Forked(*arguments, *SMALL, home=home)
        at_work.process.join(rng.uniform(0.3, 4.0))
        if at_work.process.exitcode is None:
            os.kill(at_work.process.pid, signal.SIGKILL)
            kills += 1
        answer = at_work.answer()
        assert answer.code in (0, -signal.SIGKILL), answer.err
        run = next(iter(_runs(home)), None)
    while run is None or run.status != "completed":
        arguments = ("train", spec) if run is None or run.checkpoint is None else ("resume", run.id)
        answer = rl(*arguments, *SMALL, home=home)
        assert answer.code == 0, answer.err
        run = _runs(home)[0]
    assert rl("lake", "commit", home=home).code == 0
    _assert_well(home)
    if name == "ppo":
        _assert_sound(home, run)
    else:
        _assert_same(_rows(home, run.id), whole(name)[0])
