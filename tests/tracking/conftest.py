import itertools
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest

from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.settings import LakeSettings, Settings
from tests.lake.servers import CREDENTIALS, s3_server
from tests.tracking.servers import MlflowServer

__all__ = ["s3_server"]

_BUCKETS = itertools.count()


@pytest.fixture(scope="session")
def _mlflow_process(tmp_path_factory):
    server = MlflowServer(tmp_path_factory.mktemp("mlflow"))
    yield server
    server.stop()


@pytest.fixture
def mlflow_server(_mlflow_process):
    """One MLflow server for all tests; whoever stopped it leaves it to the next to start it again."""
    if _mlflow_process._process is None:
        _mlflow_process.start()
    return _mlflow_process


@pytest.fixture
def client(mlflow_server):
    """MLflow's own client."""
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=mlflow_server.uri, registry_uri=mlflow_server.uri)


@pytest.fixture
def bucket(s3_server, monkeypatch):
    """An empty bucket: its name, and a client."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=s3_server, region_name="us-east-1")
    name = f"tracking-{next(_BUCKETS)}"
    client.create_bucket(Bucket=name)
    return name, client


@pytest.fixture
def tracked(tmp_path):
    """Makes settings with a tracker."""

    def make(backend, uri=None, *, lake=None, **more):
        address = {} if uri is None else {"tracking_uri": uri}
        store = {"backend": backend, "delivery_seconds": 60, **address, **more}
        return Settings(home=tmp_path / "home", store=store, lake=lake or LakeSettings())

    return make


@pytest.fixture
def ledger(settings):
    with Ledger.open(settings) as opened:
        yield opened


@pytest.fixture
def other_server():
    """The address of a server that knows nothing of trackers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(404)

        do_POST = do_GET  # noqa: N815  (the name that http.server looks for)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
