"""Trouble of telemetry is never the run's: one warning, and no waiting to speak of."""

import logging
import resource
import subprocess
import sys
import time

import pytest

from alphaswarm_rl.core.errors import MissingExtra, TelemetryError
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.telemetry import session
from tests.telemetry.conftest import warnings
from tests.telemetry.receivers import GrpcReceiver

REFUSING = "http://127.0.0.1:9"
ALL = ("metrics", "traces", "logs")


@pytest.fixture
def timed(run):
    """Seconds that a run takes more with telemetry than the one before it without."""
    run()  # whatever is slow the first time

    def measure(**signals):
        began = time.monotonic()
        run()
        without = time.monotonic() - began
        began = time.monotonic()
        result = run(**signals)
        return result, time.monotonic() - began - without

    return measure


def to(endpoint, protocol="http"):
    signals = {signal: {"endpoint": endpoint} for signal in ALL}
    signals["metrics"]["protocol"] = protocol
    return signals


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_an_endpoint_that_refuses_costs_one_warning_and_a_short_while(timed, caplog, capfd, protocol):
    result, seconds = timed(**to(REFUSING, protocol))
    assert result.status == "completed"
    assert seconds < session.LONGEST_FLUSH + 2
    (warning,) = warnings(caplog)
    assert "telemetry has trouble, and the run goes on" in warning
    assert "opentelemetry" not in capfd.readouterr().err.lower()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_an_endpoint_that_hangs_costs_one_warning_and_a_short_while(timed, caplog, hanging, protocol):
    result, seconds = timed(**to(hanging.endpoint, protocol))
    assert result.status == "completed"
    assert seconds < session.LONGEST_FLUSH + 2
    assert len(warnings(caplog)) == 1


def test_where_nobody_has_set_logging_up_the_warning_is_on_standard_error(tmp_path):
    program = f"""
from alphaswarm_rl import RLRuntime
from tests.telemetry.conftest import RANDOM, on
from tests.runtime.conftest import tiny
signals = dict.fromkeys(("metrics", "traces", "logs"), {{"endpoint": "{REFUSING}"}})
RLRuntime(tiny(**RANDOM), on({str(tmp_path / "home")!r}, **signals)).train()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("telemetry has trouble, and the run goes on")


def test_the_run_after_one_in_trouble_is_told_as_if_nothing_had_been(run, caplog, http_receiver):
    run(**to(REFUSING))
    caplog.clear()
    run(**to(http_receiver.endpoint))
    assert warnings(caplog) == []
    assert http_receiver.spans
    assert http_receiver.logs
    assert http_receiver.points


def test_an_endpoint_that_answers_with_an_error_is_one_warning(run, caplog, http_receiver):
    run(traces={"endpoint": f"{http_receiver.endpoint}/v1/logs/nowhere"})
    assert warnings(caplog) == []  # this receiver takes anything
    grpc = GrpcReceiver()
    try:  # HTTP spoken to a gRPC server
        result = run(traces={"endpoint": grpc.endpoint})
    finally:
        grpc.stop()
    assert result.status == "completed"
    assert len(warnings(caplog)) == 1


def test_a_file_that_cannot_be_opened_is_one_warning(run, caplog, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "telemetry").write_text("a file where the folder should be")
    result = run(metrics={}, traces={}, logs={})
    assert result.status == "completed"
    (warning,) = warnings(caplog)
    assert "traces.jsonl" in warning


def test_a_disk_that_is_full_is_one_warning(run, caplog, tmp_path):
    folder = tmp_path / "home" / "telemetry"
    folder.mkdir(parents=True)
    # A limit that every other file of the run stays below.
    with (folder / "traces.jsonl").open("wb") as file:
        file.truncate(1 << 30)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, limits[1]))
    try:
        result = run(traces={})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert result.status == "completed"
    (warning,) = warnings(caplog)
    assert "File too large" in warning


def test_a_variable_that_the_exporter_refuses_is_one_warning(run, caplog, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "brotli")
    result = run(traces={"endpoint": REFUSING}, metrics={"protocol": "grpc"})
    assert result.status == "completed"
    (warning,) = warnings(caplog)
    assert "brotli" in warning


def test_an_error_in_telemetry_itself_is_one_warning(run, caplog, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("of ours")

    for name in ("Traces.episode", "Traces.end_run"):
        monkeypatch.setattr(f"alphaswarm_rl.telemetry.spans.{name}", fail)
    monkeypatch.setattr("alphaswarm_rl.telemetry.metrics.Board.learnt", fail)
    result = run(agent="ppo", metrics={}, traces={}, logs={})
    assert result.status == "completed"
    (warning,) = warnings(caplog)
    assert "ZeroDivisionError: of ours" in warning


def test_an_address_that_is_none_is_refused_before_there_is_a_run(run, tmp_path):
    with pytest.raises(TelemetryError, match=r"traces\.endpoint"):
        run(traces={"endpoint": "nonsense"})
    with Ledger.open(Settings(home=tmp_path / "home")) as ledger:
        assert ledger.runs() == []


@pytest.mark.parametrize(
    ("module", "signals"),
    [
        ("opentelemetry.exporter.otlp.proto.http", {"traces": {"endpoint": REFUSING}}),
        ("opentelemetry.exporter.otlp.proto.grpc", {"logs": {"endpoint": REFUSING}, "metrics": {"protocol": "grpc"}}),
        ("opentelemetry.exporter.prometheus", {"metrics": {"exporter": "prometheus", "prometheus_port": 0}}),
        ("prometheus_client", {"metrics": {"exporter": "prometheus", "prometheus_port": 0}}),
    ],
)
def test_a_missing_library_names_its_extra(run, monkeypatch, module, signals):
    for name in [name for name in sys.modules if name == module or name.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"alphaswarm-rl\[otel\]"):
        run(**signals)
    assert logging.getLogger("alphaswarm_rl").handlers == []
