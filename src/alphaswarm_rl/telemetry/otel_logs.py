"""The one module that makes OpenTelemetry's logs: their API is not stable, and its names begin with an underscore."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from opentelemetry._logs import SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter
from opentelemetry.sdk.resources import Resource

from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.telemetry.exporters import exporter_of, plain
from alphaswarm_rl.telemetry.routes import Route
from alphaswarm_rl.telemetry.trouble import LocklessHandler

_SEVERITIES = {
    logging.DEBUG: ("DEBUG", SeverityNumber.DEBUG),
    logging.INFO: ("INFO", SeverityNumber.INFO),
    logging.WARNING: ("WARN", SeverityNumber.WARN),
    logging.ERROR: ("ERROR", SeverityNumber.ERROR),
}


class Logs:
    """Log records of one run, on their way.

    Args:
        route: Where they go.
        resource: Who they are of.
        level: Least severity, as `logging` numbers it.
        context: The context whose trace and span a record carries.
    """

    def __init__(self, route: Route, resource: Resource, level: int, context: Callable[[], Context]) -> None:
        self.level = level
        self.exporter: LogRecordExporter = exporter_of(route)
        self._context = context
        self._provider = LoggerProvider(resource, shutdown_on_exit=False)
        self._provider.add_log_record_processor(BatchLogRecordProcessor(self.exporter))
        self._logger = self._provider.get_logger("alphaswarm_rl")

    def emit(
        self, body: str, level: int, attributes: JsonMapping, *, name: str | None = None, ns: int | None = None
    ) -> None:
        """Sends one record, unless it is below the level.

        Args:
            body: What happened, for people.
            level: How bad it is, as `logging` numbers it.
            attributes: The same for programs.
            name: What kind of event it is.
            ns: When it was, in nanoseconds; None: now.
        """
        if level < self.level:
            return
        text, number = _SEVERITIES[max(step for step in _SEVERITIES if step <= level)]
        self._logger.emit(
            timestamp=ns,
            context=self._context(),
            severity_text=text,
            severity_number=number,
            body=body,
            attributes=plain(attributes),
            event_name=name,
        )

    def shutdown(self) -> None:
        """Sends what is left."""
        self._provider.shutdown()


class LogHandler(LocklessHandler):
    """Sends what the package logs.

    A record with `extra={"event": NAME, "facts": {...}}` is an event of that name, with those facts as attributes.

    Args:
        logs: Where to.
        attributes: What every record carries.
        without: Names of loggers whose records come another way.
    """

    def __init__(self, logs: Logs, attributes: JsonMapping, without: Collection[str]) -> None:
        super().__init__(logs.level)
        self._logs = logs
        self._attributes = attributes
        self._without = frozenset(without)

    def emit(self, record: logging.LogRecord) -> None:
        """Sends one record."""
        if _is_unheard(record) and logging.lastResort is not None and record.levelno >= logging.lastResort.level:
            # Where nobody has set logging up, warnings go to standard error; that we listen must not end it.
            logging.lastResort.handle(record)
        if record.name in self._without:
            return
        attributes = {**self._attributes, "logger": record.name, **getattr(record, "facts", {})}
        if record.exc_info and record.exc_info[1] is not None:
            attributes["exception"] = repr(record.exc_info[1])
        name, ns = getattr(record, "event", None), int(record.created * 1e9)
        self._logs.emit(record.getMessage(), record.levelno, attributes, name=name, ns=ns)


def _is_unheard(record: logging.LogRecord) -> bool:
    """Whether no handler but ours hears it."""
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None:
        if any(not isinstance(handler, LogHandler) for handler in logger.handlers):
            return False
        logger = logger.parent if logger.propagate else None
    return True
