"""The end of a run in its journal, said by the run or for it."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from alphaswarm_rl.core.run_listener import EvaluationMetrics, RunFacts
from alphaswarm_rl.tracking.journal import Journal, operations
from alphaswarm_rl.tracking.points import EpisodeSums
from alphaswarm_rl.tracking.run_end import EndedRun, append_end, complete
from alphaswarm_rl.tracking.tracker import manifest_sha256
from alphaswarm_rl.tracking.waiting import journals
from tests.tracking.telling import checkpoint

RUN = "run-1"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "tracking" / "journal"


@pytest.fixture
def facts(tmp_path):
    """A training run that completed."""
    folders = [checkpoint(tmp_path / "models" / name) for name in ("000000000128", "000000000064")]
    return RunFacts(
        id=RUN,
        target="train",
        status="completed",
        seed=3,
        device="cpu",
        spec_hash="ab12",
        exec_hash="cd34",
        parent_run_id=None,
        code_fingerprint={},
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        resumed=0,
        timesteps=128,
        checkpoint=str(folders[0]),
        checkpoint_sha256=manifest_sha256(folders[0]),
        best_checkpoint=str(folders[1]),
        in_sample=None,
        result_summary={"mean_reward": 21.5, "window_start": None},
        error=None,
        halt_reason=None,
        mlflow_run_id=None,
        notices=None,
    )


def begun(folder, *entries):
    """The path of a journal that begins and goes on with these."""
    journal = Journal(folder, RUN)
    journal.append("begin", name="x", destination={})
    for kind, data in entries:
        journal.append(kind, **data)
    journal.close()
    return journal.path


def end_itself(folder, facts, episodes=EpisodeSums()):  # noqa: B008  (frozen)
    """Has a run say its end."""
    journal = Journal(folder, RUN)
    append_end(journal, facts, episodes, register_as="champion")
    journal.close()


def content_of(path):
    """The kinds of a journal's operations, and all points in it."""
    found = [operation for operation, _ in operations(path)]
    assert [operation.number for operation in found] == list(range(1, len(found) + 1))
    points = [(each.data["step"], each.data["metrics"]) for each in found if each.kind == "metrics"]
    return [operation.kind for operation in found], points


def ended(facts, *evaluations, register_as="champion"):
    return lambda: EndedRun(facts, evaluations, register_as)


WHOLE_END = ["tags", "artefact", "artefact", "model", "end"]


def test_the_end_of_a_completed_training(folder, facts):
    path = begun(folder)
    end_itself(folder, facts, EpisodeSums(2, 9.0, 6))
    kinds, points = content_of(path)
    assert kinds == ["begin", "metrics", "metrics", *WHOLE_END]
    assert points == [(128, {"episode/reward": 4.5, "episode/length": 3.0}), (128, {"final/mean_reward": 21.5})]
    entries = {operation.kind: operation.data for operation, _ in operations(path)}
    assert entries["tags"]["tags"] == {"status": "completed", "checkpoint_sha256": facts.checkpoint_sha256}
    assert (entries["model"]["name"], entries["model"]["artefact"]) == ("champion", "checkpoints/best")
    assert entries["end"] == {"status": "completed"}


def test_a_run_that_can_go_on_keeps_its_last_episodes_and_says_no_summary(folder, facts):
    path = begun(folder)
    halted = replace(facts, status="halted", halt_reason="enough", result_summary={"best_reward": 1.0}, resumed=1)
    end_itself(folder, halted, EpisodeSums(2, 9.0, 6))
    kinds, points = content_of(path)
    assert (kinds, points) == (["begin", "tags", "artefact", "artefact", "end"], [])
    tags = next(operation.data["tags"] for operation, _ in operations(path) if operation.kind == "tags")
    assert (tags["halt_reason"], tags["error"]) == ("enough", "")


def test_a_judging_run_has_no_checkpoints_of_its_own(folder, facts):
    path = begun(folder)
    end_itself(folder, replace(facts, target="evaluate"))
    assert content_of(path)[0] == ["begin", "metrics", "tags", "end"]


def test_the_whole_end_is_said_once_for_a_run_that_could_not(folder, facts):
    path = begun(folder, ("episodes", {"step": 100, "count": 1, "reward": 5.0, "length": 2}))
    judged = EvaluationMetrics("evaluate", 128, {"mean_reward": 21.5, "returns": [21.5]})
    for _ in range(2):
        complete(folder, RUN, ended(facts, judged))
    kinds, points = content_of(path)
    assert kinds == ["begin", "episodes", "metrics", "metrics", "metrics", *WHOLE_END]
    assert points == [
        (128, {"evaluate/mean_reward": 21.5}),
        (128, {"episode/reward": 5.0, "episode/length": 2.0}),
        (128, {"final/mean_reward": 21.5}),
    ]


@pytest.mark.parametrize("left", range(7))
def test_a_run_killed_anywhere_in_its_end_has_every_point_once(folder, facts, left):
    path = begun(folder)
    end_itself(folder, facts)
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 7
    path.write_bytes(b"".join(lines[: len(lines) - left]))
    complete(folder, RUN, ended(facts))
    kinds, points = content_of(path)
    assert kinds[-len(WHOLE_END) :] == WHOLE_END
    assert points == [(128, {"final/mean_reward": 21.5})]


def test_a_summary_that_an_end_was_said_without_is_said_later(folder, facts):
    path = begun(folder, ("end", {"status": "completed"}))
    for _ in range(2):
        complete(folder, RUN, ended(facts))
    kinds, points = content_of(path)
    assert kinds == ["begin", "end", "metrics", *WHOLE_END]
    assert points == [(128, {"final/mean_reward": 21.5})]


def test_an_end_without_a_summary_is_said_once(folder, facts):
    path = begun(folder)
    interrupted = replace(facts, status="interrupted", checkpoint=None, best_checkpoint=None)
    for summary in (None, {}, {"mean_reward": 2.0}):
        complete(folder, RUN, ended(replace(interrupted, result_summary=summary)))
    assert content_of(path) == (["begin", "tags", "end"], [])
    complete(folder, "never tracked", ended(facts))
    assert journals(folder) == [RUN]


def test_the_end_is_not_said_for_a_run_that_goes_on_again(folder, facts):
    path = begun(folder)
    interrupted = replace(facts, status="interrupted", checkpoint=None, best_checkpoint=None)
    complete(folder, RUN, lambda: None)  # it runs again, and has not appended yet
    resumed = Journal(folder, RUN)

    def resumes():
        resumed.append("begin", name="x", destination={})
        return EndedRun(interrupted, (), None)  # what the ledger said a moment before

    complete(folder, RUN, resumes)
    resumed.append("metrics", step=1, metrics={"loss": 1.0})
    complete(folder, RUN, ended(interrupted))  # it appends by now, whatever was read before
    assert content_of(path)[0] == ["begin", "tags", "end", "begin", "metrics"]
