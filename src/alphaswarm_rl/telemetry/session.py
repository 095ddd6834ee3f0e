"""The telemetry of one run: opened from settings and variables, flushed and closed at its end."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from typing import Any

from opentelemetry.context import Context, get_current
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource

from alphaswarm_rl.core import tracing
from alphaswarm_rl.core.errors import AlphaSwarmError
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.telemetry.exporters import Page, exporter_of
from alphaswarm_rl.telemetry.metrics import Board
from alphaswarm_rl.telemetry.otel_logs import LogHandler, Logs
from alphaswarm_rl.telemetry.routes import Route, Signal, routes
from alphaswarm_rl.telemetry.spans import Traces
from alphaswarm_rl.telemetry.trouble import Trouble

#: Seconds that the end of a run waits for what is on its way: to an endpoint, which may be down, and to a file.
LONGEST_FLUSH = 2.0
_LONGEST_WRITE = 30.0

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}

_package = logging.getLogger("alphaswarm_rl")


class Telemetry:
    """What is exported of one run. Its providers are its own: OpenTelemetry's global ones can be set once only.

    Args:
        settings: What is wanted, and where it goes.
        trace_id: The trace, as a number.
        attributes: Who it is: `run_id`, `algorithm`, `env`.
        quiet: Names of loggers whose records are not sent, because they come as events.

    Raises:
        MissingExtra: An exporter needs a library that is not installed.
        TelemetryError: An address is none.
    """

    def __init__(
        self, settings: Settings, *, trace_id: int, attributes: Mapping[str, str], quiet: Collection[str] = ()
    ) -> None:
        found = routes(settings, os.environ)
        self.notices = found.notices
        self.attributes = dict(attributes)
        self.trouble = Trouble()
        self.board: Board | None = None
        self.traces: Traces | None = None
        self.logs: Logs | None = None
        self.page: Page | None = None
        self._ends: list[tuple[Callable[[], None], float]] = []
        self._exporters: list[Any] = []
        self._handler: LogHandler | None = None
        resource = self._resource()
        # Traces are first: logs carry where they are in them.
        openers: dict[Signal, Callable[[Route], None]] = {
            "traces": lambda route: self._open_traces(route, resource, settings, trace_id),
            "metrics": lambda route: self._open_metrics(route, resource, settings),
            "logs": lambda route: self._open_logs(route, resource, settings, quiet),
        }
        self._before = tracing.install(self.span)
        try:
            for signal, opened in openers.items():
                if signal in found.by_signal:
                    self._attempt(found.by_signal[signal], opened)
        except BaseException:
            self.close()
            raise

    def _resource(self) -> Resource:
        own = {"service.name": "alphaswarm-rl", "service.version": version("alphaswarm-rl")}
        try:
            named = OTELResourceDetector().detect().attributes.get("service.name")
            return Resource.create({**own, "service.name": named or own["service.name"]})
        except Exception as error:  # noqa: BLE001  (variables and detectors that other programs set up)
            self.trouble.warn(str(error))
            return Resource(own)

    def _attempt(self, route: Route, opened: Callable[[Route], None]) -> None:
        try:
            opened(route)
        except AlphaSwarmError:
            raise
        except Exception as error:  # noqa: BLE001  (a file that cannot be opened, a variable that an exporter refuses)
            self.trouble.warn(f"{route.signal} to {route}: {error}")

    def _open_traces(self, route: Route, resource: Resource, settings: Settings, trace_id: int) -> None:
        self.traces = Traces(route, resource, settings.traces, trace_id, self.attributes)
        self._exporters.append(self.traces.exporter)
        self._ends.append((self.traces.shutdown, _patience(route)))

    def _open_metrics(self, route: Route, resource: Resource, settings: Settings) -> None:
        reader: MetricReader
        if route.exporter == "prometheus":
            self.page = Page(route)
            reader = self.page.reader
            self._ends.append((self.page.close, LONGEST_FLUSH))
        else:
            exporter = exporter_of(route)
            # The standard's variable is in milliseconds.
            given = "export_interval" in settings.metrics.model_fields_set
            standard = not given and os.environ.get("OTEL_METRIC_EXPORT_INTERVAL")
            reader = PeriodicExportingMetricReader(
                exporter, None if standard else settings.metrics.export_interval * 1000
            )
            self._exporters.append(exporter)
        # Exemplars would be drawn with the generator that runs are seeded with.
        provider = MeterProvider([reader], resource, exemplar_filter=AlwaysOffExemplarFilter(), shutdown_on_exit=False)
        self._ends.append((lambda: provider.shutdown(_patience(route) * 1000), _patience(route)))
        meter: Meter = provider.get_meter("alphaswarm_rl")
        self.board = Board(meter, settings.metrics, self.attributes)

    def _open_logs(self, route: Route, resource: Resource, settings: Settings, quiet: Collection[str]) -> None:
        self.logs = Logs(route, resource, LEVELS[settings.logs.level], self.context)
        self._exporters.append(self.logs.exporter)
        self._ends.append((self.logs.shutdown, _patience(route)))
        self._handler = LogHandler(self.logs, self.attributes, quiet)
        _package.addHandler(self._handler)

    def context(self) -> Context:
        """Where the calling thread is in the trace."""
        return get_current() if self.traces is None else self.traces.context()

    def span(self, name: str, attributes: JsonMapping) -> AbstractContextManager[tracing.Adder]:
        """A span of whoever asks `core.tracing` for one."""
        return nullcontext() if self.traces is None else self.traces.span(name, attributes)

    def close(self) -> None:
        """Sends what is left, and waits for it a short while at most."""
        tracing.install(self._before)
        if self._handler is not None:
            _package.removeHandler(self._handler)
        began = time.monotonic()
        threads = [threading.Thread(target=self._end, args=(end,), daemon=True) for end, _ in self._ends]
        for thread in threads:
            thread.start()
        for thread, (_, patience) in zip(threads, self._ends, strict=True):
            thread.join(max(0.0, began + patience - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            self.trouble.warn(f"what was left was not taken within {time.monotonic() - began:.0f} s")
            for exporter in self._exporters:
                self._end(exporter.shutdown)  # it stops trying again
        self.trouble.close()

    def _end(self, end: Callable[[], None]) -> None:
        try:
            end()
        except Exception as error:  # noqa: BLE001  (the run is over, and its results are safe)
            self.trouble.warn(str(error))


def _patience(route: Route) -> float:
    return _LONGEST_WRITE if route.exporter == "file" else LONGEST_FLUSH
