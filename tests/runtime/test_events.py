"""The event log of a run: its lines, and which of them count."""

import json
import logging
from datetime import UTC, datetime

import pytest

from alphaswarm_rl.core.run_listener import Event
from alphaswarm_rl.runtime.events import EventLog, file_sink, log_sink


def event(seq, stage="train.step"):
    return Event("run", seq, stage, datetime(2026, 1, 1, tzinfo=UTC), {"timesteps": seq})


def written(path, claim, *seqs):
    sink = file_sink(path, {"row": 1}, claim=claim)
    for seq in seqs:
        sink(event(seq))


def kept(path):
    return [(line["seq"], line.get("claim", 1)) for line in EventLog.read(path).lines]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "logs" / "run.jsonl"


def test_lines_have_their_claim_from_the_second_on(path):
    file_sink(path, {"row": 1}, claim=1)(event(1, "start"))
    file_sink(path, {"row": 2}, claim=2)(event(2, "start"))
    first, second = map(json.loads, path.read_text().splitlines())
    assert "claim" not in first
    assert (first["pinned"], second["pinned"], second["claim"]) == ({"row": 1}, {"row": 2}, 2)
    log = EventLog.read(path)
    assert (log.lines, log.damaged, log.newest_claim) == ([first, second], 0, 2)
    assert log.pinned == {"row": 2}


def test_half_a_line_costs_no_other(path):
    written(path, 1, 1, 2)
    path.write_bytes(path.read_bytes()[:-30])
    written(path, 2, 3, 4)
    assert kept(path) == [(1, 1), (3, 2), (4, 2)]
    assert EventLog.read(path).damaged == 1
    assert b"\n\n" not in path.read_bytes()


def test_a_line_of_an_earlier_claim_that_comes_late_counts_up_to_where_the_later_one_begins(path):
    written(path, 1, 1, 2)
    written(path, 2, 4, 5)
    written(path, 1, 3, 4, 6)
    assert kept(path) == [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2)]


def test_numbers_that_were_given_twice_are_those_of_the_newest_claim(path):
    written(path, 1, 1, 2)
    written(path, 2, 3, 4, 5, 6)
    written(path, 10, 3, 4)
    assert kept(path) == [(1, 1), (2, 1), (3, 10), (4, 10)]
    assert EventLog.read(path).newest_claim == 10


def test_there_may_be_no_log(path):
    assert EventLog.read(path) == EventLog([], 0, 1)


RUN_ID = "a2844550-75cb-4bec-b3e3-5230dbb36607"
METRICS = ("mean_length", "total_reward", "annual_return", "sortino", "volatility", "turnover", "cost", "sharpe")
EVALUATION = {"phase": "evaluate", "timesteps": 512, "window_start": "2017-01-03"}
EVALUATION |= dict.fromkeys(METRICS, 0.123456789) | {"mean_reward": -12.3456789, "in_sample": False}
CHECKPOINT = {"timesteps": 512, "path": "/a/rather/long/home/" + RUN_ID, "sha256": "f" * 64, "final": True}


def logged(caplog, stage, payload, level=logging.INFO):
    with caplog.at_level(level, logger="alphaswarm_rl"):
        log_sink(Event(RUN_ID, 1, stage, datetime(2026, 1, 1, tzinfo=UTC), payload))
    (record,) = caplog.records
    return f"{record.levelname} {record.getMessage()}"


@pytest.mark.parametrize(("stage", "payload"), [("eval.step", EVALUATION), ("train.checkpoint", CHECKPOINT)])
def test_a_log_line_fits_a_screen(caplog, stage, payload):
    line = logged(caplog, stage, payload)
    assert len(line) <= 100
    assert line.startswith(f"INFO run a2844550: {stage} (")
    assert "timesteps 512" in line


def test_what_is_read_most_is_what_a_line_has_room_for(caplog):
    line = logged(caplog, "eval.step", EVALUATION)
    assert line == (
        "INFO run a2844550: eval.step (phase evaluate, timesteps 512, mean_reward -12.3457, sharpe 0.123457)"
    )


def test_the_line_of_a_checkpoint_leaves_out_what_is_long(caplog):
    assert logged(caplog, "train.checkpoint", CHECKPOINT) == (
        "INFO run a2844550: train.checkpoint (timesteps 512, final True)"
    )


def test_a_line_says_how_many_gates_failed_and_who_debugs_which(caplog):
    judged = {"model_id": 1, "passed": False, "profile": "default", "failed": ["g" * 60, "h" * 60], "mean_reward": 0.01}
    assert logged(caplog, "model.validated", judged) == (
        "INFO run a2844550: model.validated (mean_reward 0.01, model_id 1, passed False, failed 2)"
    )
    caplog.clear()
    assert "h" * 60 in logged(caplog, "model.validated", judged, level=logging.DEBUG)


def test_an_error_is_logged_whole(caplog):
    assert logged(caplog, "error", {"error": "x" * 300}).endswith(f"(error {'x' * 300})")


def test_whoever_debugs_sees_all(caplog):
    line = logged(caplog, "train.checkpoint", CHECKPOINT, level=logging.DEBUG)
    assert "f" * 64 in line
    assert RUN_ID in line
