"""Handlers without a lock work with every `logging` from Python 3.11 on."""

import logging
import threading

import pytest

from alphaswarm_rl.telemetry import trouble
from alphaswarm_rl.telemetry.otel_logs import LogHandler
from alphaswarm_rl.telemetry.trouble import LocklessHandler


def older(self, record):
    """As `logging.Handler.handle` is in Python 3.11."""
    self.acquire()
    try:
        self.emit(record)
    finally:
        self.release()


def newer(self, record):
    """As it is in later ones."""
    with self.lock:
        self.emit(record)


class Handler(LocklessHandler):
    def __init__(self, other=None):
        super().__init__()
        self.other, self.heard = other, []

    def emit(self, record):
        self.heard.append(record.getMessage())
        if self.other is not None:
            self.other.handle(record)


@pytest.mark.parametrize("handle", [older, newer])
def test_a_record_is_heard_whichever_way_logging_handles_it(monkeypatch, handle):
    monkeypatch.setattr(logging.Handler, "handle", handle)
    handler = Handler()
    logger = logging.getLogger("tests.lockless")
    logger.addHandler(handler)
    try:
        logger.warning("heard")
    finally:
        logger.removeHandler(handler)
        handler.close()
    assert handler.heard == ["heard"]


def test_nobody_waits_for_it():
    handler = Handler()
    handler.acquire()
    thread = threading.Thread(target=handler.handle, args=(logging.makeLogRecord({"msg": "heard"}),), daemon=True)
    thread.start()
    thread.join(5)
    assert handler.heard == ["heard"]


def test_both_handlers_of_telemetry_are_such():
    assert issubclass(LogHandler, LocklessHandler)
    assert issubclass(trouble._Listener, LocklessHandler)
