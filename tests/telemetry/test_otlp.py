"""What arrives at OTLP receivers, over HTTP and over gRPC."""

from collections import Counter

import certifi
import pytest

from tests.runtime.conftest import tiny
from tests.telemetry.conftest import warnings
from tests.telemetry.receivers import HttpReceiver, attributes, self_signed

PPO_LOSSES = {"loss", "policy_gradient_loss", "value_loss"}


def given(receiver, protocol):
    """All three signals to one receiver."""
    endpoint = {"endpoint": receiver.endpoint}
    return {"metrics": {**endpoint, "protocol": protocol}, "traces": endpoint, "logs": endpoint}


def checked(received, result):
    """Names, attributes, resource and parents of what arrived of a PPO run."""
    run_id, trace = result.run_id, bytes.fromhex(result.run_id.replace("-", ""))
    assert {resource["service.name"] for resource in received.resources} == {"alphaswarm-rl"}
    assert all(resource["service.version"] for resource in received.resources)

    who = {"run_id": run_id, "algorithm": "ppo", "env": "cartpole"}
    points = {}
    for (name, labels), value in received.points.items():
        labels = dict(labels)
        assert {key: labels.pop(key) for key in who} == who
        points[name, *sorted(labels.values())] = value
    rows = {key: points.pop(key) for key in list(points) if key[0] == "rl.rows.committed"}
    assert rows.pop(("rl.rows.committed", "train", "trajectories")) > 512
    assert {key[-1] if key[-1] != "train" else key[1] for key in rows} == {
        "action_logs",
        "equity_curves",
        "reward_decomposition",
        "positions",
        "fills",
    }
    losses = {key: points.pop(key) for key in list(points) if key[0] == "rl.loss"}
    assert {next(part for part in key[1:] if part != "train") for key in losses} == PPO_LOSSES
    assert set(points) == {
        ("rl.episode.reward", "train"),
        ("rl.episode.length", "train"),
        ("rl.entropy", "train"),
        ("rl.explained_variance", "train"),
        ("rl.fps", "train"),
        ("rl.evaluation.reward", "evaluate"),
        ("rl.halted", "train"),
    }
    assert points["rl.evaluation.reward", "evaluate"] == result.metrics["mean_reward"]
    assert 0 < points["rl.entropy", "train"] <= 0.6932  # at most ln 2: there are two actions
    assert points["rl.explained_variance", "train"] <= 1
    assert points["rl.episode.reward", "train"] == points["rl.episode.length", "train"]  # CartPole pays 1 a step
    assert points["rl.halted", "train"] == 0

    (run,) = [span for span in received.spans if span.name == "run"]
    assert run.parent_span_id == b""
    assert attributes(run.attributes) == {**who, "status": "completed", "timesteps": 512}
    others = [span for span in received.spans if span.name != "run"]
    assert {span.trace_id for span in received.spans} == {trace}
    assert {span.parent_span_id for span in others} == {run.span_id}
    assert len({span.span_id for span in received.spans}) == len(received.spans)
    counts = Counter(span.name for span in others)
    assert counts["evaluate"] == 1
    assert counts["checkpoint"] == 1
    episodes = [span for span in others if span.name == "episode"]
    assert sorted(attributes(span.attributes)["episode"] for span in episodes) == list(range(len(episodes)))
    for span in received.spans:
        assert run.start_time_unix_nano <= span.end_time_unix_nano <= run.end_time_unix_nano
        assert span.start_time_unix_nano <= span.end_time_unix_nano

    stages = [record.event_name for record in received.logs]
    assert stages == ["start", "eval.step", "train.checkpoint", "done"]
    for record in received.logs:
        assert (record.trace_id, record.span_id) == (trace, run.span_id)
        assert attributes(record.attributes)["run_id"] == run_id
        assert record.severity_text == "INFO"


def test_everything_arrives_over_http(run, http_receiver):
    checked(http_receiver, run(agent="ppo", **given(http_receiver, "http")))
    assert http_receiver.others == []


def test_everything_arrives_over_grpc(run, grpc_receiver):
    checked(grpc_receiver, run(agent="ppo", **given(grpc_receiver, "grpc")))


def test_the_standards_variables_are_honoured_over_http(run, http_receiver, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", http_receiver.endpoint)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc,tenant=lab")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "tenant=other")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "night-shift")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=lab")
    run(metrics={}, traces={}, logs={})
    for path, tenant in (("/v1/metrics", "lab"), ("/v1/traces", "other"), ("/v1/logs", "lab")):
        headers = http_receiver.headers[path][-1]
        assert (headers["tenant"], headers["content-encoding"]) == (tenant, "gzip")
    assert http_receiver.headers["/v1/metrics"][0]["authorization"] == "Bearer abc"
    for resource in http_receiver.resources:
        assert (resource["service.name"], resource["deployment.environment"]) == ("night-shift", "lab")


def test_the_standards_variables_are_honoured_over_grpc(run, grpc_receiver, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", grpc_receiver.endpoint)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "tenant=lab")
    run(traces={}, logs={})
    for path in ("/v1/traces", "/v1/logs"):
        assert grpc_receiver.headers[path][-1]["tenant"] == "lab"


def test_the_standards_certificate_is_honoured(run, tmp_path, monkeypatch, caplog):
    certificate, key = self_signed(tmp_path)
    # requests would take these before the exporter's own.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", certifi.where())
    receiver = HttpReceiver(certificate, key)
    try:
        run(traces={"endpoint": receiver.endpoint})
        assert receiver.spans == []
        assert "CERTIFICATE_VERIFY_FAILED" in warnings(caplog)[0]
        caplog.clear()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(certificate))
        run(traces={"endpoint": receiver.endpoint})
        assert receiver.spans
        assert warnings(caplog) == []
    finally:
        receiver.stop()


@pytest.mark.parametrize(
    ("given", "environ"), [({"export_interval": 1}, {}), ({}, {"OTEL_METRIC_EXPORT_INTERVAL": "500"})]
)
def test_metrics_are_exported_at_their_interval(run, http_receiver, monkeypatch, given, environ):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    spec = tiny(agent={"class": "random"}, training={"total_timesteps": 60_000, "n_envs": 4, "log_interval": 1})
    run(spec, metrics={"endpoint": http_receiver.endpoint, **given})
    assert len(http_receiver.requests["/v1/metrics"]) >= 2  # once or more while it ran, and at its end


@pytest.mark.parametrize("signal", ["metrics", "traces", "logs"])
def test_each_signal_can_go_alone(run, http_receiver, signal):
    run(**{signal: {"endpoint": http_receiver.endpoint}})
    assert [path for path, requests in http_receiver.requests.items() if requests] == [f"/v1/{signal}"]
