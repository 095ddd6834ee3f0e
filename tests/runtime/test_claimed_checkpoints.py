"""What becomes of checkpoints when processes die, or stand still, around them: those that count stay, others go."""

from pathlib import Path

import pytest

from alphaswarm_rl.core.claims import StaleClaim
from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.core.run_listener import Evaluation
from alphaswarm_rl.inference.checkpoints import CheckpointStore
from alphaswarm_rl.inference.selection import saved_checkpoints
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.runtime.evaluate import result_metrics
from alphaswarm_rl.runtime.session import TrainingSession
from alphaswarm_rl.settings import Settings, StoreSettings
from tests.runtime.conftest import tiny
from tests.runtime.test_resume import halted_run

EXACT = {"agent": {"class": "random"}, "training": {"total_timesteps": 7000, "log_interval": 1, "n_envs": 8}}
VALIDATED = {**EXACT, "training": {**EXACT["training"], "eval_during_training": True, "eval_freq": 700}}


class Died(BaseException):
    """Stands for a process that is killed."""


@pytest.fixture
def settings(tmp_path):
    return Settings(home=tmp_path / "home", store=StoreSettings(checkpoint_freq=400, keep_last=1))


@pytest.fixture
def stopped(settings, ledger):
    """The row of a run that was halted after some checkpoints."""
    return ledger.run(halted_run(tiny(**EXACT), settings, count=2).run_id)


def leave(settings, row, step, claim=1):
    """A copy of the run's checkpoint at another step, that no ledger row names."""
    folder = settings.models_path / row.id
    path = (folder if claim == 1 else folder / f"claim-{claim:06d}") / f"{step:012d}"
    path.mkdir(parents=True)
    for file in Path(row.checkpoint).iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    return path


def kept(settings, run_id):
    return list(CheckpointStore(settings.models_path).steps(run_id).values())


def first_save(monkeypatch, *, act, nth=1):
    """Has something happen after the n-th checkpoint is on disk, before the ledger names it."""
    real, count = CheckpointStore.save, []

    def save(self, *args, **more):
        saved = real(self, *args, **more)
        count.append(saved)
        if len(count) == nth:
            act(saved)
        return saved

    monkeypatch.setattr(CheckpointStore, "save", save)


def test_a_leftover_of_an_earlier_claim_takes_no_place_and_is_swept(settings, ledger, stopped, monkeypatch):
    """It appears after the resumer has looked, with a later step than the resumer's own checkpoint."""
    seen = []

    def look(self):
        real(self)
        seen.append((ledger.run(stopped.id).checkpoint, kept(settings, stopped.id)))

    real = TrainingSession.prune
    monkeypatch.setattr(TrainingSession, "prune", look)
    first_save(monkeypatch, act=lambda saved: leave(settings, stopped, 6999))
    assert RLRuntime.from_run(stopped.id, settings).resume().status == "completed"
    assert len(seen) > 3
    for named, paths in seen:
        assert paths == [Path(named)]


def test_a_leftover_between_the_steps_of_the_line_is_swept_when_the_run_goes_on(settings, ledger, stopped):
    step = stopped.timesteps - 1
    leftover = leave(settings, stopped, step)
    RLRuntime.from_run(stopped.id, settings).resume()
    assert not leftover.exists()


def test_a_process_that_lost_its_run_deletes_nothing_and_archives_nothing(settings, ledger, monkeypatch):
    several = settings.model_copy(update={"store": StoreSettings(checkpoint_freq=400, keep_last=2)})
    lost = {}

    def lose(self):
        """Another process resumes the run while this one looks at who needs which checkpoint."""
        held = real(self)
        if len(self.line) == 3:
            ledger.finish_run(self.run.id, "interrupted")
            lost["row"] = ledger.claim_for_resume(self.run.id)
            lost["own"] = leave(settings, lost["row"], 6999, claim=2)
            lost["paths"] = kept(settings, self.run.id)
        return held

    real = TrainingSession.held_checkpoints
    monkeypatch.setattr(TrainingSession, "held_checkpoints", lose)
    with pytest.raises(StaleClaim):
        RLRuntime(tiny(**EXACT), several).train()
    assert len(lost["paths"]) == 4
    assert kept(settings, lost["row"].id) == lost["paths"]
    with ModelRegistry.open(settings) as registry:
        assert [row.archived for row in registry.list(archived=True)] == [False] * 3


def test_one_that_loses_its_run_while_it_deletes_stops(settings, ledger, monkeypatch):
    real, rows = CheckpointStore.discard, []

    def lose(self, path):
        real(self, path)
        if not rows:
            ledger.finish_run(path.parent.name, "interrupted")
            rows.append(ledger.claim_for_resume(path.parent.name))

    def early(self, *args, **more):
        return None if len(self.line) < 3 else prune(self, *args, **more)

    prune = TrainingSession.prune
    monkeypatch.setattr(CheckpointStore, "discard", lose)
    monkeypatch.setattr(TrainingSession, "prune", early)
    with pytest.raises(StaleClaim):
        RLRuntime(tiny(**EXACT), settings).train()
    assert [int(path.name) for path in kept(settings, rows[0].id)] == [2048, 3072]


def test_models_are_archived_before_their_files_go(settings, monkeypatch):
    found = []

    def look(self, path):
        with ModelRegistry.open(settings) as registry:
            found.append(registry.at(path))
        real(self, path)

    real = CheckpointStore.discard
    monkeypatch.setattr(CheckpointStore, "discard", look)
    RLRuntime(tiny(**EXACT), settings).train()
    assert found
    assert not any(found)


def died(spec, settings, monkeypatch, at, nth):
    """The row of a training whose process died before the n-th call of a session's method from `validate`."""
    real, count = getattr(TrainingSession, at), []

    def call(self, *args, **more):
        count.append(1)
        if len(count) == nth:
            raise Died
        return real(self, *args, **more)

    with monkeypatch.context() as patched:
        patched.setattr(TrainingSession, at, call)
        with pytest.raises(Died):
            RLRuntime(spec, settings).train()
    with Ledger.open(settings) as ledger:
        (row,) = ledger.runs(limit=1)
        ledger.finish_run(row.id, "interrupted")
        return ledger.run(row.id)


def outcome(settings, ledger, run_id):
    row = ledger.run(run_id)
    with ModelRegistry.open(settings) as registry:
        models = [
            (model.total_timesteps, model.sha256, model.archived, model.mean_reward)
            for model in registry.list(archived=True)
            if model.run_id == run_id
        ]
    return (
        (int(Path(row.best_checkpoint).name), row.best_reward, row.checkpoint_sha256),
        [(each.phase, each.timesteps, each.mean_reward) for each in ledger.evaluations(run_id)],
        [int(path.name) for path in kept(settings, run_id)],
        sorted(models),
    )


@pytest.mark.parametrize("at", ["prune", "report_checkpoint", "held_checkpoints"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_death_between_a_validation_and_its_best_model_loses_neither(settings, ledger, monkeypatch, at, nth):
    whole = RLRuntime(tiny(**VALIDATED), settings).train()
    row = died(tiny(**VALIDATED), settings, monkeypatch, at, nth)
    assert RLRuntime.from_run(row.id, settings).resume().status == "completed"
    assert outcome(settings, ledger, row.id) == outcome(settings, ledger, whole.run_id)


def test_the_best_model_is_that_of_the_best_validation_that_counts(settings, ledger):
    """Whatever the row says: its process may have died before it wrote it. Of equal ones the first is the best."""
    all_kept = settings.model_copy(update={"store": StoreSettings(checkpoint_freq=400, keep_last=9)})
    row = ledger.run(halted_run(tiny(**EXACT), all_kept, count=3).run_id)
    saved = saved_checkpoints(ledger, row)[::-1]
    assert len(saved) >= 3
    rewards = {"validation": [1.0, 5.0, 5.0], "evaluate": [9.0, 9.0, 9.0]}
    for phase, values in rewards.items():
        for checkpoint, reward in zip(saved, values, strict=False):
            ledger.add_evaluation(
                row.id, phase=phase, timesteps=checkpoint.timesteps, seed=1, episodes=1, deterministic=True,
                started_at=row.created_at, mean_reward=reward, metrics={},
            )  # fmt: skip
    ledger.update_run(row.id, best_checkpoint=str(saved[0].path), best_reward=1.0)
    RLRuntime.from_run(row.id, all_kept).resume()
    after = ledger.run(row.id)
    assert (after.best_checkpoint, after.best_reward) == (str(saved[1].path), 5.0)


def test_a_checkpoint_that_nobody_reported_is_reported_by_who_goes_on(settings, ledger, monkeypatch):
    row = died(tiny(**EXACT), settings, monkeypatch, "report_checkpoint", 2)

    def reported():
        events = [event.payload for event in ledger.events(row.id) if event.stage == "train.checkpoint"]
        return [payload["path"] for payload in events].count(row.checkpoint)

    assert reported() == 0
    RLRuntime.from_run(row.id, settings).resume()
    assert reported() == 1


def test_a_choice_that_another_process_outdated_is_refused(settings, ledger, stopped, monkeypatch):
    from alphaswarm_rl.runtime import train

    def meanwhile(*_):
        ledger.claim_for_resume(stopped.id)
        ledger.finish_run(stopped.id, "interrupted")

    monkeypatch.setattr(train, "refuse_split", meanwhile)
    with pytest.raises(RunError, match="another process went on with it meanwhile"):
        RLRuntime.from_run(stopped.id, settings).resume()
    after = ledger.run(stopped.id)
    assert (after.status, after.resumed, after.checkpoint) == ("interrupted", 1, stopped.checkpoint)


class Filming:
    """As much of a run as its pictures need."""

    def __init__(self, settings, ledger, row):
        self.settings, self.ledger, self.id = settings, ledger.holding(row.claim), row.id


def test_pictures_appear_whole_and_only_from_who_holds_the_run(settings, ledger, stopped, monkeypatch):
    import numpy as np

    frames = tuple(np.full((4, 4, 3), shade, np.uint8) for shade in (0, 250))
    evaluation = Evaluation((1.0,), (1,), None, {}, {}, frames=frames)
    run = Filming(settings, ledger, stopped)
    path = settings.home / "media" / f"{stopped.id}.gif"
    assert result_metrics(run, evaluation)["recording"] == str(path)
    before = path.read_bytes()
    assert before.startswith(b"GIF89a")
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    ledger.claim_for_resume(stopped.id)
    other = Evaluation((1.0,), (1,), None, {}, {}, frames=frames[::-1])
    with pytest.raises(StaleClaim):
        result_metrics(run, other)
    assert path.read_bytes() == before
