"""The page that Prometheus scrapes while a run lasts."""

from __future__ import annotations

from alphaswarm_rl.core.errors import require
from alphaswarm_rl.telemetry.routes import Route


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
        """Serves no longer."""
        self._server.shutdown()
        self._server.server_close()
