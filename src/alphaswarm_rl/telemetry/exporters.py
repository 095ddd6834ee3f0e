"""How metrics, traces and logs leave: to a file, over OTLP, or on a page that Prometheus scrapes.

Headers, certificates, compression and timeouts the exporters read from OTEL_* themselves.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import random
import sys
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from alphaswarm_rl.core.errors import require
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.telemetry.routes import Route

if TYPE_CHECKING:
    from requests import Session

#: A value as OpenTelemetry takes it.
Attribute = str | bool | int | float

#: Modules that draw how long to wait before they try again.
_DRAWERS = ("opentelemetry.exporter.otlp.common.http", "opentelemetry.exporter.otlp.proto.grpc.exporter")

#: Module of a signal's exporter, and its class after the word OTLP or File; the API of logs is not stable.
_EXPORTERS = {
    "metrics": ("metric_exporter", "MetricExporter"),
    "traces": ("trace_exporter", "SpanExporter"),
    "logs": ("_log_exporter", "LogExporter"),
}


def exporter_of(route: Route) -> Any:
    """What takes a signal to a file, or over the wire, by OTLP from the extra."""
    module, name = _EXPORTERS[route.signal]
    if route.exporter == "file":
        of_files = import_module(f"opentelemetry.exporter.otlp.json.file.{module}")
        return getattr(of_files, f"File{name}")(stream=appended_lines(route.path))
    found = require(f"opentelemetry.exporter.otlp.proto.{route.protocol}.{module}", extra="otel")
    for drawer in _DRAWERS:
        if drawer in sys.modules:
            # They would draw from the generator that runs are seeded with, whenever a request happens to be sent.
            sys.modules[drawer].random = random.Random()  # type: ignore[attr-defined]  # noqa: S311
    certified = any(key.startswith("OTEL_EXPORTER_OTLP_") and key.endswith("CERTIFICATE") for key in os.environ)
    more = {"session": _session()} if route.protocol == "http" and certified else {}
    return getattr(found, f"OTLP{name}")(endpoint=route.endpoint, **more)


def _session() -> Session:
    """A session in which the exporter's certificate counts: requests would take REQUESTS_CA_BUNDLE before it."""
    from requests import Session

    class CertifiedSession(Session):
        def merge_environment_settings(self, url, proxies, stream, verify, cert):  # type: ignore[no-untyped-def]
            """As always, but the session's own certificate is first."""
            return super().merge_environment_settings(url, proxies, stream, verify or self.verify, cert)

    return CertifiedSession()


class Page:
    """A page with the newest value of every metric.

    Args:
        route: Where it is served.

    Raises:
        OSError: The port is taken.
    """

    def __init__(self, route: Route) -> None:
        client = require("prometheus_client", extra="otel")
        prometheus = require("opentelemetry.exporter.prometheus", extra="otel")
        registry = client.CollectorRegistry()
        self._server, self._thread = client.start_http_server(route.port, route.host, registry)
        #: What collects for the page.
        self.reader = prometheus.PrometheusMetricReader(registry=registry, scope_info_enabled=False)
        self.address = f"http://{route.host}:{self._server.server_port}/metrics"

    def close(self) -> None:
        """Stops serving the page."""
        self._server.shutdown()
        self._server.server_close()


def appended_lines(path: Path) -> IO[str]:
    """The file at that path as a stream."""
    return cast(IO[str], AppendedLines(path))


class AppendedLines(io.TextIOBase):
    """Appends each text in one piece, so that lines of runs side by side do not mix.

    The file is opened for each: it may be moved away or removed meanwhile.

    Args:
        path: The file; its folder is made.

    Raises:
        OSError: It cannot be written to.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self.write("")

    def writable(self) -> bool:
        """Always true."""
        return True

    def write(self, text: str) -> int:
        """Appends a text, whole or with an error."""
        data = text.encode()
        with self._path.open("ab", buffering=0) as file:
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        return len(text)


def plain(attributes: JsonMapping) -> dict[str, Attribute]:
    """Texts, truth values and numbers as they are, a list or mapping as JSON; what is None is left out.

    A number that is not finite is a text: JSON has none.
    """
    return {name: _plain(value) for name, value in attributes.items() if value is not None}


def _plain(value: object) -> Attribute:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return _plain(value.item())  # a number of NumPy or torch
    return json.dumps(value, default=str) if isinstance(value, list | tuple | dict) else str(value)
