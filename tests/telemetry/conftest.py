import json
import logging
from collections import Counter

import pytest

from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import Settings
from tests.runtime.conftest import tiny
from tests.telemetry.receivers import GrpcReceiver, Hanging, HttpReceiver

RANDOM = {"agent": {"class": "random"}, "training": {"total_timesteps": 512, "n_envs": 4, "log_interval": 1, "seed": 3}}


def on(home, *, metrics=None, traces=None, logs=None, **more):
    """Settings with the named signals on; no model registry, which is not what is tested here."""
    signals = {"metrics": metrics, "traces": traces, "logs": logs}
    sections = {name: {"enable": True, **given} for name, given in signals.items() if given is not None}
    return Settings(home=home, registry={"enable": False}, **sections, **more)


@pytest.fixture
def run(tmp_path):
    """Trains a tiny spec with the named signals on, and gives the result."""

    def train(spec=None, *, agent="random", **signals):
        if spec is None:
            spec = tiny() if agent == "ppo" else tiny(**RANDOM)
        return RLRuntime(spec, on(tmp_path / "home", **signals)).train()

    return train


@pytest.fixture
def lines(tmp_path):
    """What the file exporter wrote of a signal, line by line."""

    def read(signal):
        path = tmp_path / "home" / "telemetry" / f"{signal}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    return read


@pytest.fixture
def spans(lines):
    """The spans in the file, as plain mappings."""

    def read():
        found = []
        for line in lines("traces"):
            for part in line["resourceSpans"]:
                for scope in part["scopeSpans"]:
                    found += [{**span, "attributes": plain(span.get("attributes", []))} for span in scope["spans"]]
        return found

    return read


@pytest.fixture
def records(lines):
    """The log records in the file, as plain mappings."""

    def read():
        found = []
        for line in lines("logs"):
            for part in line["resourceLogs"]:
                for scope in part["scopeLogs"]:
                    found += [{**it, "attributes": plain(it.get("attributes", []))} for it in scope["logRecords"]]
        return found

    return read


def plain(pairs):
    return {pair["key"]: next(iter(pair["value"].values())) for pair in pairs}


def warnings(caplog):
    """The warnings that a user reads."""
    ours = (record for record in caplog.records if record.name.startswith("alphaswarm_rl"))
    return [record.getMessage() for record in ours if record.levelno >= logging.WARNING]


def names(spans):
    return Counter(span["name"] for span in spans)


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(Settings(home=tmp_path / "home")) as opened:
        yield opened


def _serving(kind):
    server = kind()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def _http_server():
    yield from _serving(HttpReceiver)


@pytest.fixture(scope="session")
def _grpc_server():
    yield from _serving(GrpcReceiver)


@pytest.fixture
def http_receiver(_http_server):
    """An OTLP receiver over HTTP that has received nothing yet."""
    _http_server.clear()
    return _http_server


@pytest.fixture
def grpc_receiver(_grpc_server):
    """An OTLP receiver over gRPC that has received nothing yet."""
    _grpc_server.clear()
    return _grpc_server


@pytest.fixture
def hanging():
    """A server that never answers."""
    yield from _serving(Hanging)
