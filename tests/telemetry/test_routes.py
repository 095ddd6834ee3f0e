"""Where each signal goes, by settings and by OpenTelemetry's variables."""

from pathlib import Path

import pytest

from alphaswarm_rl.core.errors import OptionError, TelemetryError
from alphaswarm_rl.options.settings import load_settings
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.telemetry.routes import SIGNALS, is_exporting, routes

ALL = {"metrics.enable": True, "traces.enable": True, "logs.enable": True}


def planned(flags=(), environ=()):
    """The routes as the command line would have them."""
    environ = dict(environ)
    return routes(load_settings({**ALL, **dict(flags)}, environ), environ)


def shown(flags=(), environ=()):
    return {signal: str(route) for signal, route in planned(flags, environ).by_signal.items()}


def test_nothing_goes_anywhere_unless_it_is_enabled():
    assert not is_exporting(Settings(), {})
    assert routes(Settings(), {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1"}).by_signal == {}
    assert list(routes(Settings(logs={"enable": True}), {}).by_signal) == ["logs"]


def test_without_an_endpoint_it_is_a_file_in_the_home():
    home = Path(".alphaswarm").absolute()
    assert shown() == {signal: str(home / "telemetry" / f"{signal}.jsonl") for signal in SIGNALS}


def test_an_endpoint_of_the_standard_is_for_all_and_gets_paths():
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/base/"}
    assert shown(environ=environ) == {signal: f"http://collector:4318/base/v1/{signal}" for signal in SIGNALS}


def test_an_endpoint_at_its_default_is_given_when_somebody_gives_it():
    assert shown(environ={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"})["metrics"].endswith("/v1/metrics")
    assert shown({"traces.endpoint": "http://localhost:4318"})["traces"] == "http://localhost:4318/v1/traces"


def test_each_signal_has_its_own_endpoint():
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://all:4318",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://one:4318/my/metrics",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://two:4318",
    }
    assert shown({"logs.endpoint": "https://three"}, environ) == {
        "metrics": "http://one:4318/my/metrics",  # as it is: the standard says so
        "traces": "http://two:4318/v1/traces",
        "logs": "https://three/v1/logs",
    }
    # The flag of one signal says nothing of the others.
    assert shown({"metrics.endpoint": "http://flag:1"})["traces"].endswith("traces.jsonl")
    assert shown({"metrics.endpoint": "http://flag:1"}, environ)["metrics"] == "http://flag:1/v1/metrics"


@pytest.mark.parametrize(
    ("flags", "environ", "expected"),
    [
        ({}, {}, ["http", "http", "http"]),
        ({"metrics.protocol": "grpc"}, {}, ["grpc", "grpc", "grpc"]),
        ({}, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ["grpc", "grpc", "grpc"]),
        ({}, {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, ["http", "http", "http"]),
        ({}, {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, ["http", "grpc", "http"]),
        (
            {"metrics.protocol": "grpc"},
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf"},
            ["grpc", "grpc", "grpc"],
        ),
        (
            {},
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf"},
            ["http", "grpc", "grpc"],
        ),
    ],
)
def test_the_protocol(flags, environ, expected):
    flags = {f"{signal}.exporter": "otlp" for signal in SIGNALS} | flags
    found = planned(flags, environ).by_signal
    assert [found[signal].protocol for signal in SIGNALS] == expected


def test_the_default_port_goes_with_the_protocol():
    assert shown({"traces.exporter": "otlp"})["traces"] == "http://localhost:4318/v1/traces"
    assert shown({"traces.exporter": "otlp", "metrics.protocol": "grpc"})["traces"] == "http://localhost:4317"


def test_grpc_takes_a_bare_host_and_port():
    assert shown({"traces.endpoint": "collector:4317", "metrics.protocol": "grpc"})["traces"] == "collector:4317"


@pytest.mark.parametrize("signal", SIGNALS)
def test_the_exporter_by_the_standards_variable(signal):
    assert planned(environ={f"OTEL_{signal.upper()}_EXPORTER": "otlp"}).by_signal[signal].exporter == "otlp"
    assert signal not in planned(environ={f"OTEL_{signal.upper()}_EXPORTER": "none"}).by_signal


def test_metrics_can_be_a_page():
    route = planned(environ={"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "9999"})
    assert str(route.by_signal["metrics"]) == "http://localhost:9999/metrics"
    with pytest.raises(OptionError, match=r"traces\.exporter"):
        load_settings({"traces.exporter": "prometheus"}, {})


@pytest.mark.parametrize(
    ("name", "value", "signal"),
    [
        ("OTEL_TRACES_EXPORTER", "console", "traces"),
        ("OTEL_TRACES_EXPORTER", "otlp,console", "traces"),
        ("OTEL_LOGS_EXPORTER", "prometheus", "logs"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "metrics"),
        ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "carrier-pigeon", "logs"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "not an address", "metrics"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://host:port", "traces"),
    ],
)
def test_a_variable_for_other_programs_is_no_error_but_a_notice(name, value, signal):
    plan = planned(environ={name: value})
    assert plan.by_signal[signal].exporter == "file"
    assert any(name in notice and "passed over" in notice for notice in plan.notices)


def test_a_port_for_other_programs_is_no_error_but_a_notice():
    environ = {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "700000"}
    plan = planned(environ=environ)
    assert plan.by_signal["metrics"].port == 9464
    assert "OTEL_EXPORTER_PROMETHEUS_PORT" in plan.notices[0]


@pytest.mark.parametrize("address", ["collector:4318", "ftp://collector", "http://", "http://host:port", "nonsense"])
def test_an_address_of_ours_that_is_none_is_an_error(address):
    with pytest.raises(TelemetryError, match=r"traces\.endpoint .*Give one such as http://localhost:4318"):
        planned({"traces.endpoint": address})


def test_a_port_of_ours_that_is_none_is_an_error():
    with pytest.raises(TelemetryError, match="prometheusPort 700000"):
        planned({"metrics.exporter": "prometheus", "metrics.prometheusPort": 700000})


def test_a_password_in_an_address_is_not_shown():
    shown_as = shown({"traces.endpoint": "https://ann:hunter2@collector/v1/traces"})["traces"]
    assert "hunter2" not in shown_as
    with pytest.raises(TelemetryError) as caught:
        planned({"traces.endpoint": "ftp://ann:hunter2@collector"})
    assert "hunter2" not in str(caught.value)


def test_the_standards_off_switch_turns_all_off():
    settings = load_settings(ALL, {})
    assert is_exporting(settings, {})
    assert not is_exporting(settings, {"OTEL_SDK_DISABLED": "true"})
    assert routes(settings, {"OTEL_SDK_DISABLED": "true"}).by_signal == {}


def test_both_names_of_the_interval_work():
    for name in ("RL_METRICS_INTERVAL", "RL_METRICS_EXPORT_INTERVAL"):
        assert load_settings({}, {name: "7"}).metrics.export_interval == 7
