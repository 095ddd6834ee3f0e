"""The exporters of metrics and traces; headers, certificates, compression, timeouts they read from OTEL_* themselves.

Those of logs are in `otel_logs`, beside everything else that knows that unstable part of OpenTelemetry.
"""

from __future__ import annotations

import os
import random
import sys
from typing import Any

from alphaswarm_rl.core.errors import require
from alphaswarm_rl.telemetry.lines import appended_lines
from alphaswarm_rl.telemetry.routes import Route

#: Modules that draw how long to wait before they try again.
_DRAWERS = ("opentelemetry.exporter.otlp.common.http", "opentelemetry.exporter.otlp.proto.grpc.exporter")

#: Module and class by (signal, protocol).
_OTLP = {
    ("metrics", "http"): ("opentelemetry.exporter.otlp.proto.http.metric_exporter", "OTLPMetricExporter"),
    ("metrics", "grpc"): ("opentelemetry.exporter.otlp.proto.grpc.metric_exporter", "OTLPMetricExporter"),
    ("traces", "http"): ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "OTLPSpanExporter"),
    ("traces", "grpc"): ("opentelemetry.exporter.otlp.proto.grpc.trace_exporter", "OTLPSpanExporter"),
}


def metric_exporter(route: Route) -> Any:
    """What takes metrics to a file or over OTLP."""
    if route.exporter == "otlp":
        return otlp_exporter(route, *_OTLP["metrics", route.protocol])
    from opentelemetry.exporter.otlp.json.file.metric_exporter import FileMetricExporter

    return FileMetricExporter(stream=appended_lines(route.path))


def span_exporter(route: Route) -> Any:
    """What takes spans to a file or over OTLP."""
    if route.exporter == "otlp":
        return otlp_exporter(route, *_OTLP["traces", route.protocol])
    from opentelemetry.exporter.otlp.json.file.trace_exporter import FileSpanExporter

    return FileSpanExporter(stream=appended_lines(route.path))


def otlp_exporter(route: Route, module: str, name: str) -> Any:
    """An exporter over the wire, from the extra."""
    found = require(module, extra="otel")
    for drawer in _DRAWERS:
        if drawer in sys.modules:
            # They would draw from the generator that runs are seeded with, whenever a request happens to be sent.
            sys.modules[drawer].random = random.Random()  # type: ignore[attr-defined]  # noqa: S311
    more = {"session": _session()} if route.protocol == "http" and _has_certificate() else {}
    return getattr(found, name)(endpoint=route.endpoint, **more)


def _has_certificate() -> bool:
    return any(name.startswith("OTEL_EXPORTER_OTLP_") and name.endswith("CERTIFICATE") for name in os.environ)


def _session() -> Any:
    """A session in which the exporter's certificate counts: requests would take REQUESTS_CA_BUNDLE before it."""
    from requests import Session

    class CertifiedSession(Session):
        def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
            """As always, but the session's own certificate is first."""
            return super().merge_environment_settings(url, proxies, stream, verify or self.verify, cert)

    return CertifiedSession()
