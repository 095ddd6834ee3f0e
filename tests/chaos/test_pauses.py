"""A process stands still, its run is resumed elsewhere, and it wakes: it writes nothing more, and the run is whole."""

import signal
import time
from dataclasses import replace

import pytest

from tests.chaos.scenes import IMPATIENT, SILENCE_S, assert_same, assert_well, registry_of, state_of, the_run, written
from tests.lake.killing import Forked, Moment, rl
from tests.lake.servers import CREDENTIALS

_LAKE = "alphaswarm_rl.lake"
_STORE = "alphaswarm_rl.trajectory_stores.open_stores"
_SESSION = "alphaswarm_rl.runtime.session:TrainingSession"
_LEDGER = "alphaswarm_rl.ledger.ledger:Ledger"
_MODELS = "alphaswarm_rl.models"
_REGISTRY = f"{_MODELS}.registry:ModelRegistry"
_COMMIT = "pyiceberg.catalog.sql:SqlCatalog.commit_table"
_SAVE = "alphaswarm_rl.inference.checkpoints:CheckpointStore.save"
_PRUNE = "alphaswarm_rl.inference.checkpoints:CheckpointStore.prune"
_CLOSE = f"{_LAKE}.segments:SegmentWriter.close"
_FINISH = "alphaswarm_rl.trajectory_stores.segmented:SegmentedStore.finish"

#: Where the first process stands still, once it has saved something.
STOPS = {
    "between steps": Moment("alphaswarm_rl.recording.run_recorder:RecordedEnv.step", 9),
    "before a segment closes": Moment(_CLOSE, 2),
    "after a segment closed": Moment(_CLOSE, 2, after=True),
    "before a commit": Moment(_COMMIT, 2),
    "after a commit": Moment(_COMMIT, 2, after=True),
    "before a file is in its place": Moment(f"{_LAKE}.delivery:place", 2),
    "before refs are stored": Moment(f"{_LEDGER}.add_refs", 2),
    "before a checkpoint": Moment(_SAVE, 2),
    "after a checkpoint": Moment(_SAVE, 2, after=True),
    "before the row names a checkpoint": Moment(f"{_LEDGER}.update_run", 1, within=f"{_SESSION}.save"),
    "before it prunes": Moment(_PRUNE, 1),
    "before the best model is stored": Moment(f"{_LEDGER}.update_run", 3, within=f"{_SESSION}.validate"),
    "before the best model is reported": Moment(f"{_SESSION}.report_checkpoint", 1, within=f"{_SESSION}.validate"),
    "before an event": Moment(f"{_LEDGER}.append_event", 3),
    "before a model is registered": Moment(f"{_REGISTRY}.register", 2),
    "before a model is validated": Moment(f"{_REGISTRY}.validate"),
    "before a line of the journal": Moment("alphaswarm_rl.tracking.journal:Journal.append", 3),
    "before a checkpoint is reported": Moment(f"{_MODELS}.listener:ModelListener.on_checkpoint"),
    "before an evaluation": Moment(f"{_SESSION}._evaluate"),
    "before an evaluation is stored": Moment(f"{_LEDGER}.add_evaluation"),
    "before the end of recording": Moment(_FINISH),
    "before compaction": Moment(f"{_STORE}:compact"),
    "before the row is completed": Moment(f"{_LEDGER}.finish_run"),
}
#: Where the second one is when the first one wakes.
STAGES = {
    "after its claim": Moment(f"{_LEDGER}.claim_for_resume", after=True, since=None),
    "before it tells the tables": Moment(f"{_STORE}:announce", since=None),
    "after it told the tables": Moment(f"{_STORE}:announce", after=True, since=None),
    "after it dropped rows": Moment(f"{_STORE}:drop", after=True, since=None),
    "while it trains": Moment("alphaswarm_rl.recording.run_recorder:RecordedEnv.step", 30, since=None),
    "before its checkpoint": Moment(_SAVE, 1, since=None),
    "after its checkpoint": Moment(_SAVE, 1, after=True, since=None),
    "before its final evaluation": Moment(f"{_SESSION}.evaluate", since=None),
    "in its final evaluation": Moment(
        "alphaswarm_rl.recording.run_recorder:RecordedEnv.step", 5, within=f"{_SESSION}.evaluate", since=None
    ),
    "before it compacts": Moment(f"{_STORE}:compact", since=None),
    "when it is done": Moment(f"{_LEDGER}.finish_run", after=True, since=None),
}
#: Stages at which the registry does not know yet that the run has another process.
UNANNOUNCED = ("after its claim",)
TELLING = [
    ("cartpole", "before a commit", "after it told the tables"),
    ("cartpole", "before a commit", "before it tells the tables"),
    ("cartpole", "after a checkpoint", "in its final evaluation"),
    ("trading", "between steps", "in its final evaluation"),
    ("cartpole", "before compaction", "when it is done"),
    ("parquet", "after a segment closed", "while it trains"),
    ("cartpole", "before a model is registered", "when it is done"),
    ("cartpole", "before a model is validated", "when it is done"),
    ("cartpole", "before a checkpoint is reported", "before its checkpoint"),
    ("cartpole", "before it prunes", "when it is done"),
    ("cartpole", "before the best model is stored", "while it trains"),
    ("cartpole", "before the best model is reported", "after its checkpoint"),
]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The rows and the weights of a run that nobody disturbed, by spec."""
    known = {}

    def state(name):
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            answer = rl("train", written(folder, name), *IMPATIENT, home=folder / "home")
            assert answer.code == 0, answer.err
            known[name] = state_of(folder / "home")
        return known[name]

    return state


def _stopped(*arguments, moment, **more):
    process = Forked(*arguments, *IMPATIENT, moment=replace(moment, signal=signal.SIGSTOP), **more)
    process.wait_until_stopped()
    return process


def _check(tmp_path, name, stop, stage, expected, environ=None):
    home = tmp_path / "home"
    spec = written(tmp_path, name)
    stale = _stopped("train", spec, home=home, moment=STOPS[stop], host="elsewhere", environ=environ)
    time.sleep(SILENCE_S)
    run = the_run(home, environ)
    resumer = _stopped("resume", run.id, home=home, moment=STAGES[stage], environ=environ)
    models = registry_of(home, environ)
    stale.wake()
    lost = stale.answer()
    assert lost.code == 4, (lost.code, lost.err[-800:])
    assert "another process resumed it" in lost.err
    if stage not in UNANNOUNCED:
        assert registry_of(home, environ) == models
    resumer.wake()
    done = resumer.answer()
    assert done.code == 0, done.err[-800:]
    assert_same(state_of(home, environ), expected)
    assert_well(home, environ)


@pytest.mark.parametrize(("name", "stop", "stage"), TELLING)
def test_a_process_that_wakes_after_its_run_was_resumed_writes_nothing(tmp_path, undisturbed, name, stop, stage):
    _check(tmp_path, name, stop, stage, undisturbed(name))


#: With the ledger and the catalogue on a server and the files in a bucket: what several hosts share.
AT_SERVERS = [("before a commit", "after it told the tables")]


@pytest.fixture
def servers(remote_lake, new_postgres):
    """Environment variables of an empty ledger and an empty lake on servers."""
    lake = remote_lake()
    return {
        **CREDENTIALS,
        "ALPHASWARM_RL_DB_URL": new_postgres(),
        "RL_LAKE_CATALOG_URL": lake.catalog_url,
        "RL_LAKE_WAREHOUSE": lake.warehouse,
        "RL_LAKE_S3_ENDPOINT": lake.s3_endpoint,
        "RL_LAKE_S3_REGION": lake.s3_region,
    }


@pytest.mark.parametrize(
    ("stop", "stage"),
    [
        pytest.param(stop, stage, marks=() if (stop, stage) in AT_SERVERS else pytest.mark.slow)
        for stop in ("before a commit", "before a file is in its place", "before the row names a checkpoint")
        for stage in STAGES
    ],
)
def test_hosts_that_share_servers_keep_it_too(tmp_path, undisturbed, servers, stop, stage):
    _check(tmp_path, "cartpole", stop, stage, undisturbed("cartpole"), environ=servers)


#: Where the last checkpoint is saved already: whoever resumes there saves none.
_SAVED = ("before the end of recording", "before compaction", "before the row is completed")
EVERY_PAIR = [
    (stop, stage) for stop in STOPS for stage in STAGES if stop not in _SAVED or "its checkpoint" not in stage
]


@pytest.mark.slow
@pytest.mark.parametrize(("stop", "stage"), EVERY_PAIR)
def test_wherever_it_stood_and_whenever_it_wakes(tmp_path, undisturbed, stop, stage):
    _check(tmp_path, "cartpole", stop, stage, undisturbed("cartpole"))
