"""Whether a server answers, before its library is loaded."""

import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from alphaswarm_rl.tracking.answering import Silent, refuse_silence
from tests.tracking.servers import closed_port


@pytest.fixture
def serving():
    """Starts servers that answer with a status; with a certificate, over TLS."""
    servers = []

    def start(status, certificate=None):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def certificate(tmp_path):
    """One that nobody vouches for, as servers inside of companies have."""
    path = tmp_path / "server.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-subj", "/CN=localhost", "-days", "1", "-keyout", str(path), "-out", str(tmp_path / "certificate.pem")),
        ],
        check=True,
        capture_output=True,
    )
    path.write_text(path.read_text() + (tmp_path / "certificate.pem").read_text())
    return path


def test_any_answer_will_do_but_that_of_a_broken_server(serving):
    for status in (200, 401, 404):
        refuse_silence(serving(status), "/health")
    with pytest.raises(Silent, match="503"):
        refuse_silence(serving(503))


def test_nobody_there_is_silence():
    for scheme in ("http", "https"):
        with pytest.raises(Silent, match="does not answer"):
            refuse_silence(f"{scheme}://127.0.0.1:{closed_port()}")


def test_whether_a_certificate_is_trusted_is_for_the_library_to_say(serving, certificate):
    assert refuse_silence(serving(200, certificate), "/health") is None  # no error: somebody is there
