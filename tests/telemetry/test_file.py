"""The files of the default exporter: what is in them, and what switches change."""

import json
import logging
import math

import pytest

import alphaswarm_rl
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.telemetry import exporting_logs
from tests.runtime.conftest import tiny
from tests.runtime.test_resume import halted_run
from tests.telemetry.conftest import RANDOM, names, on

LONG = {**RANDOM, "training": {**RANDOM["training"], "total_timesteps": 40_000}}


def points(lines):
    """Every exported value, as (metric, attributes, value)."""
    for line in lines:
        for part in line["resourceMetrics"]:
            for scope in part["scopeMetrics"]:
                for metric in scope["metrics"]:
                    for point in metric.get("gauge", metric.get("sum"))["dataPoints"]:
                        found = {pair["key"]: pair["value"]["stringValue"] for pair in point["attributes"]}
                        yield metric["name"], found, float(point.get("asDouble", point.get("asInt")))


def test_every_line_is_one_document(run, lines, tmp_path):
    run(metrics={}, traces={}, logs={})
    run(metrics={}, traces={}, logs={})
    folder = tmp_path / "home" / "telemetry"
    assert sorted(path.name for path in folder.iterdir()) == ["logs.jsonl", "metrics.jsonl", "traces.jsonl"]
    assert [set(line) for line in lines("metrics")] == [{"resourceMetrics"}] * 2
    assert {frozenset(line) for line in lines("traces")} == {frozenset({"resourceSpans"})}
    assert {frozenset(line) for line in lines("logs")} == {frozenset({"resourceLogs"})}


def test_the_trace_is_in_the_ledger_the_event_file_and_the_logs(run, ledger, spans, records, tmp_path):
    result = run(traces={}, logs={"level": "debug"})
    trace = ledger.run(result.run_id).trace_id
    assert trace == result.run_id.replace("-", "")
    assert {span["traceId"] for span in spans()} == {trace}
    assert {record["traceId"] for record in records()} == {trace}
    events = (tmp_path / "home" / "logs" / f"{result.run_id}.jsonl").read_text().splitlines()
    assert {json.loads(event)["trace_id"] for event in events} == {trace}
    assert len(records()) == len(events)


def test_without_traces_there_is_no_trace(run, ledger, records, tmp_path):
    result = run(logs={})
    assert ledger.run(result.run_id).trace_id is None
    assert not any("traceId" in record for record in records())
    _, *events = (tmp_path / "home" / "logs" / f"{result.run_id}.jsonl").read_text().splitlines()
    assert not any("trace_id" in event for event in events)  # before them stands the run's row


def test_each_kind_of_span_has_its_switch(run, spans, tmp_path):
    def kinds(**traces):
        run(traces=traces)
        found = names(spans())
        (tmp_path / "home" / "telemetry" / "traces.jsonl").unlink()
        return set(found)

    assert kinds() == {"run", "episode", "evaluate", "checkpoint"}
    assert kinds(trace_episodes=False) == {"run", "evaluate", "checkpoint"}
    assert kinds(trace_evals=False) == {"run", "episode", "checkpoint"}
    assert kinds(trace_steps=True) == {"run", "episode", "step", "evaluate", "checkpoint"}
    assert kinds(trace_steps=True, trace_episodes=False) == {"run", "step", "evaluate", "checkpoint"}


def test_a_step_is_a_span_in_the_episode_of_its_environment(run, spans):
    run(traces={"trace_steps": True})
    by_id = {span["spanId"]: span for span in spans()}
    steps = [span for span in spans() if span["name"] == "step"]
    assert len(steps) == 512  # one for each environment
    for step in steps:
        episode = by_id[step["parentSpanId"]]
        assert episode["name"] == "episode"
        assert by_id[episode["parentSpanId"]]["name"] == "run"
        assert int(episode["startTimeUnixNano"]) <= int(step["startTimeUnixNano"])
        assert int(step["endTimeUnixNano"]) <= int(episode["endTimeUnixNano"])
    for episode in (span for span in spans() if span["name"] == "episode"):
        own = [step for step in steps if step["parentSpanId"] == episode["spanId"]]
        assert len(own) == int(episode["attributes"]["length"])
        assert [int(step["attributes"]["step"]) for step in own] == list(range(1, len(own) + 1))
        assert math.isclose(sum(step["attributes"]["reward"] for step in own), episode["attributes"]["reward"])


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 1.0])
def test_the_sample_rate_keeps_whole_episodes(run, spans, ledger, rate):
    result = run(traces={"sample_rate": rate})
    all_of_them = sum(row.count for row in ledger.episodes(result.run_id))
    found = names(spans())
    assert found["episode"] == int(all_of_them * rate)
    assert (found["run"], found["evaluate"], found["checkpoint"]) == (1, 1, 1)


def test_the_sample_rate_keeps_all_steps_of_an_episode_or_none(run, spans):
    run(traces={"sample_rate": 0.25, "trace_steps": True})
    found = names(spans())
    assert 0 < found["step"] < 512
    kept = [span for span in spans() if span["name"] == "episode"]
    assert sum(int(span["attributes"]["length"]) for span in kept) == found["step"]


def test_spans_of_components_are_in_the_run(tmp_path, spans):
    class Sink:
        def __call__(self, event):
            if event.stage == "agent.built":
                with alphaswarm_rl.span("outer", size=3) as outer, alphaswarm_rl.span("inner"):
                    outer.set(found=[1, 2])

    settings = on(tmp_path / "home", traces={})
    RLRuntime(tiny(**RANDOM), settings, sinks=[Sink()]).train()
    by_name = {span["name"]: span for span in spans()}
    assert by_name["inner"]["parentSpanId"] == by_name["outer"]["spanId"]
    assert by_name["outer"]["parentSpanId"] == by_name["run"]["spanId"]
    assert by_name["outer"]["attributes"] == {"size": "3", "found": "[1, 2]"}


def test_a_component_that_is_not_sampled_takes_what_is_in_it_along(tmp_path, spans):
    class Sink:
        def __call__(self, event):
            if event.stage == "agent.built":
                for _ in range(10):
                    with alphaswarm_rl.span("outer"), alphaswarm_rl.span("inner"):
                        pass

    RLRuntime(tiny(**RANDOM), on(tmp_path / "home", traces={"sample_rate": 0.2}), sinks=[Sink()]).train()
    assert (names(spans())["outer"], names(spans())["inner"]) == (2, 2)


def test_a_run_in_somebody_elses_span_is_part_of_that_trace(tmp_path, spans, ledger):
    from opentelemetry.sdk.trace import TracerProvider

    with TracerProvider().get_tracer("theirs").start_as_current_span("their job") as theirs:
        result = RLRuntime(tiny(**RANDOM), on(tmp_path / "home", traces={})).train()
        outside = theirs.get_span_context()
    (run,) = [span for span in spans() if span["name"] == "run"]
    assert int(run["parentSpanId"], 16) == outside.span_id
    assert {int(span["traceId"], 16) for span in spans()} == {outside.trace_id}
    assert {span["parentSpanId"] for span in spans() if span["name"] != "run"} == {run["spanId"]}
    assert int(ledger.run(result.run_id).trace_id, 16) == outside.trace_id


def test_each_metric_has_its_switch(run, lines, tmp_path):
    def found(**metrics):
        run(agent="ppo", metrics=metrics)
        values = {name for name, *_ in points(lines("metrics"))}
        (tmp_path / "home" / "telemetry" / "metrics.jsonl").unlink()
        return values

    everything = found()
    assert everything == {
        *("rl.episode.reward", "rl.episode.length", "rl.loss", "rl.entropy", "rl.explained_variance", "rl.fps"),
        *("rl.evaluation.reward", "rl.rows.committed", "rl.halted"),
    }
    assert found(granularity="step") == everything | {"rl.step.reward"}
    assert found(granularity="step", track_reward=False) == everything - {"rl.episode.reward"}
    assert found(track_loss=False) == everything - {"rl.loss"}
    assert found(track_entropy=False) == everything - {"rl.entropy"}
    assert found(track_fps=False) == everything - {"rl.fps"}


def test_attributes_are_few(run, lines):
    run(metrics={"granularity": "step"})
    for name, found, _ in points(lines("metrics")):
        assert set(found) - {"loss", "kind"} == {"run_id", "algorithm", "env", "phase"}, name


def test_rows_committed_are_those_in_the_tables(run, lines, ledger):
    result = run(metrics={})
    counted = {found["kind"]: value for name, found, value in points(lines("metrics")) if name == "rl.rows.committed"}
    rows = ledger.run(result.run_id).recording["rows"]
    assert counted == {**dict.fromkeys(KINDS, 0), **rows}


def test_a_halted_run_says_so_in_every_signal(tmp_path, lines, spans, records):
    settings = on(tmp_path / "home", metrics={}, traces={}, logs={})
    halted_run(tiny(**LONG), settings)
    assert [value for name, _, value in points(lines("metrics")) if name == "rl.halted"] == [1]
    (run,) = [span for span in spans() if span["name"] == "run"]
    assert run["attributes"]["status"] == "halted"
    (record,) = [record for record in records() if record.get("eventName") == "halted"]
    assert record["severityText"] == "WARN"


def test_a_resumed_run_goes_on_in_its_trace(tmp_path, spans, ledger):
    settings = on(tmp_path / "home", traces={})
    run_id = halted_run(tiny(**LONG), settings).run_id
    RLRuntime.from_run(run_id, settings).resume()
    assert {span["traceId"] for span in spans()} == {ledger.run(run_id).trace_id}
    assert names(spans())["run"] == 2


def test_a_failed_run_is_an_error_in_trace_and_logs(tmp_path, spans, records, monkeypatch):
    def fail(*_, **__):
        raise ValueError("the disk sings")

    monkeypatch.setattr("alphaswarm_rl.runtime.session.TrainingSession.save", fail)
    with pytest.raises(alphaswarm_rl.AlphaSwarmError):
        RLRuntime(tiny(**RANDOM), on(tmp_path / "home", traces={}, logs={})).train()
    (run,) = [span for span in spans() if span["name"] == "run"]
    assert run["status"] == {"code": 2, "message": "ValueError: the disk sings"}
    (record,) = [record for record in records() if record["eventName"] == "error"]
    assert record["severityText"] == "ERROR"
    assert "the disk sings" in record["attributes"]["traceback"]


def test_the_level_of_logs(run, records, tmp_path):
    def stages(level):
        run(agent="ppo", logs={"level": level})
        found = [record["eventName"] for record in records()]
        (tmp_path / "home" / "telemetry" / "logs.jsonl").unlink()
        return found

    assert stages("info") == ["start", "eval.step", "train.checkpoint", "done"]
    assert {"data.loaded", "env.built", "agent.built", "train.step"} < set(stages("debug"))


def test_what_the_package_logs_is_a_record_too(tmp_path, records):
    class Sink:
        def __call__(self, event):
            if event.stage == "agent.built":
                with alphaswarm_rl.span("outer"):
                    logging.getLogger("alphaswarm_rl.somewhere").warning("a %s of ours", "warning")
                logging.getLogger("elsewhere").error("of others")
                facts = {"model_id": 3, "to": "production"}
                log = logging.getLogger("alphaswarm_rl.models")
                log.warning("model %d is promoted", 3, extra={"event": "model.promote", "facts": facts})

    RLRuntime(tiny(**RANDOM), on(tmp_path / "home", traces={}, logs={}), sinks=[Sink()]).train()
    start, warning, promoted, *_ = records()
    assert (warning["body"]["stringValue"], warning["severityText"]) == ("a warning of ours", "WARN")
    assert warning["attributes"]["logger"] == "alphaswarm_rl.somewhere"
    assert warning["spanId"] != start["spanId"]  # it is in the span that was open
    assert warning["traceId"] == start["traceId"]
    assert (promoted["eventName"], promoted["body"]["stringValue"]) == ("model.promote", "model 3 is promoted")
    assert (promoted["attributes"]["model_id"], promoted["attributes"]["to"]) == ("3", "production")
    assert not any("of others" in json.dumps(record) for record in records())


def test_what_is_logged_outside_of_runs_is_a_record_where_somebody_tells_it(tmp_path, records, caplog):
    log = logging.getLogger("alphaswarm_rl.models.registry")
    with caplog.at_level(logging.INFO, "alphaswarm_rl"):
        with exporting_logs(Settings(home=tmp_path / "home")):
            log.info("model 3: promote")
        assert not (tmp_path / "home").exists()
        with exporting_logs(on(tmp_path / "home", logs={}, traces={})):
            log.info("model 4: promote")
        log.info("model 5: promote")
    assert [record["body"]["stringValue"] for record in records()] == ["model 4: promote"]
    assert not (tmp_path / "home" / "telemetry" / "traces.jsonl").exists()


def test_verbs_that_judge_are_told_too(run, tmp_path, spans, lines):
    result = run()
    settings = on(tmp_path / "home", metrics={}, traces={})
    again = RLRuntime.from_run(result.run_id, settings).replay()
    assert names(spans()) == {"run": 1, "evaluate": 1}
    found = {(name, at["phase"]): value for name, at, value in points(lines("metrics")) if name != "rl.rows.committed"}
    assert found == {("rl.halted", "replay"): 0, ("rl.evaluation.reward", "replay"): again.metrics["mean_reward"]}


def test_what_cannot_be_used_of_the_variables_is_a_notice_of_the_run(run, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    result = run(traces={})
    assert [notice for notice in result.notices if "OTEL_TRACES_EXPORTER=console" in notice]


def test_nothing_is_left_behind_when_a_run_is_over(run):
    import threading

    from alphaswarm_rl.core import tracing

    run(metrics={}, traces={}, logs={})
    before = {thread.name for thread in threading.enumerate()}
    for _ in range(3):
        run(metrics={}, traces={}, logs={})
    assert {thread.name for thread in threading.enumerate()} <= before
    assert not [name for name in before if "Otel" in name]
    assert tracing._factory is None
    assert logging.getLogger("alphaswarm_rl").handlers == []
