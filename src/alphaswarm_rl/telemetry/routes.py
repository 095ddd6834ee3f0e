"""Where each signal goes: from the settings, and from the variables that OpenTelemetry's standard names.

A variable that is set for other programs is never an error: what cannot be used of it is named in a notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from alphaswarm_rl.core.errors import TelemetryError
from alphaswarm_rl.db.redaction import redact
from alphaswarm_rl.settings import LogsSettings, MetricsSettings, Settings, TracesSettings

Signal = Literal["metrics", "traces", "logs"]
Exporter = Literal["file", "otlp", "prometheus"]
Protocol = Literal["grpc", "http"]

#: The settings of a signal.
Section = MetricsSettings | TracesSettings | LogsSettings
SIGNALS: tuple[Signal, ...] = ("metrics", "traces", "logs")

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
_PROTOCOLS: dict[str, Protocol] = {"grpc": "grpc", "http": "http", "http/protobuf": "http"}
_DEFAULTS: dict[Protocol, str] = {"grpc": "http://localhost:4317", "http": "http://localhost:4318"}
_LARGEST_PORT = 65535


@dataclass(frozen=True)
class Route:
    """Where one signal goes.

    Attributes:
        signal: Which signal.
        exporter: What takes it there.
        protocol: OTLP's protocol.
        endpoint: OTLP's endpoint, whole.
        path: The file.
        host: Where the page for Prometheus is served.
        port: At which port; 0: at a free one.
    """

    signal: Signal
    exporter: Exporter
    protocol: Protocol = "http"
    endpoint: str = ""
    path: Path = Path()
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.exporter == "file":
            return str(self.path)
        return redact(self.endpoint) if self.exporter == "otlp" else f"http://{self.host}:{self.port}/metrics"


@dataclass(frozen=True)
class Routes:
    """Where the signals go that go anywhere, and what the user should know."""

    by_signal: Mapping[Signal, Route]
    notices: tuple[str, ...] = ()


def is_exporting(settings: Settings, environ: Mapping[str, str]) -> bool:
    """Whether anything is exported at all."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    sections = (settings.metrics, settings.traces, settings.logs)
    return any(section.enable and section.exporter != "none" for section in sections)


def routes(settings: Settings, environ: Mapping[str, str]) -> Routes:
    """Where each signal goes.

    Raises:
        TelemetryError: An address that was given by a setting of ours is none.
    """
    found: dict[Signal, Route] = {}
    notices: list[str] = []
    sections: dict[Signal, Section] = {"metrics": settings.metrics, "traces": settings.traces, "logs": settings.logs}
    for signal, section in sections.items():
        if section.enable and section.exporter != "none" and is_exporting(settings, environ):
            found[signal] = _route(signal, section, settings, environ, notices)
    return Routes(found, tuple(notices))


def _route(
    signal: Signal, section: Section, settings: Settings, environ: Mapping[str, str], notices: list[str]
) -> Route:
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    known = {"file", "otlp", "none", *(["prometheus"] if signal == "metrics" else [])}
    requested = environ.get(variable, "").strip().lower()
    if section.exporter is None and requested and requested not in known:
        notices.append(f"ENV {variable}={requested} is passed over: {signal} go to {', '.join(sorted(known))}")
    protocol = _protocol(signal, settings, environ, notices)
    endpoint = _endpoint(signal, section, protocol, environ, notices)
    exporter = section.exporter or ("file" if endpoint is None else "otlp")
    if exporter == "file":
        return Route(signal, "file", path=settings.telemetry_path / f"{signal}.jsonl")
    if exporter == "prometheus" and isinstance(section, MetricsSettings):
        return Route(signal, "prometheus", host=section.prometheus_host, port=_port(section, environ, notices))
    default = _DEFAULTS[protocol]
    return Route(signal, "otlp", protocol, endpoint or (_with_path(default, signal) if protocol == "http" else default))


def _protocol(signal: Signal, settings: Settings, environ: Mapping[str, str], notices: list[str]) -> Protocol:
    """The signal's own variable before the one for all; a setting of metrics before both."""
    variable = f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL"
    named: Protocol | None = None
    for name in (variable, _PROTOCOL):
        if word := environ.get(name, "").strip().lower():
            if word not in _PROTOCOLS:
                notices.append(f"ENV {name}={word} is passed over: {signal} go by {' or '.join(sorted(_PROTOCOLS))}")
            named = named or _PROTOCOLS.get(word)
    set_by_us = "protocol" in settings.metrics.model_fields_set
    same_as_all = settings.metrics.protocol == _PROTOCOLS.get(environ.get(_PROTOCOL, "").strip().lower())
    if set_by_us and not same_as_all and (signal == "metrics" or not environ.get(variable)):
        return settings.metrics.protocol
    return named or settings.metrics.protocol


def _endpoint(
    signal: Signal, section: Section, protocol: Protocol, environ: Mapping[str, str], notices: list[str]
) -> str | None:
    """The endpoint that was given; None where none was, for a default is not given."""
    variable = f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT"
    one, all_ = environ.get(variable, "").strip(), environ.get(_ENDPOINT, "").strip()
    ours = section.endpoint if "endpoint" in section.model_fields_set else ""
    if ours and ours not in (one, all_):
        if (problem := _problem(ours, protocol)) is not None:
            raise TelemetryError(
                f"{signal}.endpoint {redact(ours)!r}", problem, f"Give one such as {_DEFAULTS[protocol]}."
            )
        return _whole(ours, signal, protocol)
    for name, address in ((variable, one), (_ENDPOINT, all_)):
        if address and (problem := _problem(address, protocol)) is not None:
            notices.append(f"ENV {name}={redact(address)} is passed over: {problem}")
        elif address:
            # By the standard only the variable for all signals is an address that paths are added to.
            return (
                _with_path(address, signal)
                if name == _ENDPOINT and protocol == "http"
                else (_whole(address, signal, protocol))
            )
    return None


def _whole(address: str, signal: Signal, protocol: Protocol) -> str:
    """An endpoint of one signal; where it names no path, it is the usual one: nobody listens at the root."""
    if protocol == "http" and urlsplit(address).path in ("", "/"):
        return _with_path(address, signal)
    return address


def _with_path(address: str, signal: Signal) -> str:
    return f"{address.rstrip('/')}/v1/{signal}"


def _problem(address: str, protocol: Protocol) -> str | None:
    """Why that is no endpoint; gRPC takes a bare host:port too."""
    bare = protocol == "grpc" and "://" not in address
    parts = urlsplit(f"//{address}" if bare else address)
    try:
        if parts.hostname and (bare or parts.scheme in ("http", "https")) and (parts.port is None or parts.port > 0):
            return None
    except ValueError as error:
        return str(error)
    return "it is no address that begins with http:// or https://"


def _port(section: MetricsSettings, environ: Mapping[str, str], notices: list[str]) -> int:
    port: int = section.prometheus_port
    if 0 <= port <= _LARGEST_PORT:
        return port
    name = "OTEL_EXPORTER_PROMETHEUS_PORT"
    why = f"a port is a number from 0 to {_LARGEST_PORT}"
    if environ.get(name) == str(port):
        default: int = type(section)().prometheus_port
        notices.append(f"ENV {name}={port} is passed over: {why}")
        return default
    raise TelemetryError(f"metrics.prometheusPort {port}", why, "Give another one: --prometheus-port 9464.")
