"""OTLP receivers over HTTP and gRPC, both real, that keep what arrives."""

import gzip
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

_REQUESTS = {
    "/v1/metrics": metrics_service_pb2.ExportMetricsServiceRequest,
    "/v1/traces": trace_service_pb2.ExportTraceServiceRequest,
    "/v1/logs": logs_service_pb2.ExportLogsServiceRequest,
}


class Received:
    """What arrived, as requests by path, and the headers of each."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.requests = {path: [] for path in _REQUESTS}
        self.headers = {path: [] for path in _REQUESTS}
        self.others = []

    def take(self, path, request, headers):
        self.requests[path].append(request)
        self.headers[path].append({name.lower(): value for name, value in headers})

    @property
    def resources(self):
        """The attributes of every resource that was named."""
        kinds = {"/v1/metrics": "resource_metrics", "/v1/traces": "resource_spans", "/v1/logs": "resource_logs"}
        return [
            attributes(part.resource.attributes)
            for path, requests in self.requests.items()
            for request in requests
            for part in getattr(request, kinds[path])
        ]

    @property
    def spans(self):
        return [
            span
            for request in self.requests["/v1/traces"]
            for part in request.resource_spans
            for scope in part.scope_spans
            for span in scope.spans
        ]

    @property
    def logs(self):
        return [
            record
            for request in self.requests["/v1/logs"]
            for part in request.resource_logs
            for scope in part.scope_logs
            for record in scope.log_records
        ]

    @property
    def points(self):
        """The newest value by metric and attributes."""
        found = {}
        for request in self.requests["/v1/metrics"]:
            for part in request.resource_metrics:
                for scope in part.scope_metrics:
                    for metric in scope.metrics:
                        data = metric.gauge if metric.HasField("gauge") else metric.sum
                        for point in data.data_points:
                            key = (metric.name, frozenset(attributes(point.attributes).items()))
                            found[key] = point.as_double or point.as_int
        return found


def attributes(pairs):
    """The attributes of something as a mapping."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


class HttpReceiver(Received):
    """A collector that speaks OTLP over HTTP, with a certificate over HTTPS."""

    def __init__(self, certificate=None, key=None):
        super().__init__()
        received = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if self.path in _REQUESTS:
                    received.take(self.path, _REQUESTS[self.path].FromString(body), self.headers.items())
                else:
                    received.others.append(self.path)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.endpoint = self.endpoint.replace("http", "https")
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()


class GrpcReceiver(Received):
    """A collector that speaks OTLP over gRPC."""

    def __init__(self):
        super().__init__()
        self._server = grpc.server(ThreadPoolExecutor(4))
        for path, base, add, answer in (
            (
                "/v1/metrics",
                metrics_service_pb2_grpc.MetricsServiceServicer,
                metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server,
                metrics_service_pb2.ExportMetricsServiceResponse,
            ),
            (
                "/v1/traces",
                trace_service_pb2_grpc.TraceServiceServicer,
                trace_service_pb2_grpc.add_TraceServiceServicer_to_server,
                trace_service_pb2.ExportTraceServiceResponse,
            ),
            (
                "/v1/logs",
                logs_service_pb2_grpc.LogsServiceServicer,
                logs_service_pb2_grpc.add_LogsServiceServicer_to_server,
                logs_service_pb2.ExportLogsServiceResponse,
            ),
        ):
            add(self._servicer(path, base, answer), self._server)
        self.endpoint = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _servicer(self, path, base, answer):
        received = self

        class Servicer(base):
            def Export(self, request, context):
                received.take(path, request, context.invocation_metadata())
                return answer()

        return Servicer()

    def stop(self):
        self._server.stop(0)


class Hanging:
    """A server that takes connections and requests, and never answers."""

    def __init__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._kept = []
        self.endpoint = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                self._kept.append(self._socket.accept()[0])
            except OSError:
                return

    def stop(self):
        self._socket.close()
        for connection in self._kept:
            connection.close()


def self_signed(folder):
    """Files of a certificate for 127.0.0.1 that nobody else vouches for, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


def wait_for(true, seconds=5.0):
    """Waits until something is true."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)
