"""The files in deploy/observability fit each other, and what a run really exports."""

import json
import re
import shutil
import socket
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import pytest
import yaml

from tests.telemetry.receivers import wait_for
from tests.telemetry.test_page import scraped

__all__ = ["scraped"]

FOLDER = Path(__file__).parents[2] / "deploy" / "observability"
YAML = sorted([*FOLDER.rglob("*.yml"), *FOLDER.rglob("*.yaml")])
_METRIC = re.compile(r"\brl_[a-z_]+")


def loaded(name):
    return yaml.safe_load((FOLDER / name).read_text())


def published(service):
    """Ports of a service on the machine, by its own."""
    ports = (entry.rsplit(":", 2) for entry in loaded("docker-compose.yml")["services"][service].get("ports", []))
    return {int(inside): int(outside) for _, outside, inside in ports}


def dashboard():
    return json.loads((FOLDER / "grafana" / "dashboards" / "runs.json").read_text())


def queries():
    """Every expression that names metrics, by where it is."""
    found = dashboard()
    for panel in found["panels"]:
        for target in panel["targets"]:
            yield f"panel {panel['title']!r}", target["expr"]
    for variable in found["templating"]["list"]:
        yield f"variable {variable['name']!r}", variable["query"]
    for group in loaded("rules.yml")["groups"]:
        for rule in group["rules"]:
            yield f"rule {rule['alert']!r}", rule["expr"]


@pytest.mark.parametrize("path", YAML, ids=lambda path: str(path.relative_to(FOLDER)))
def test_every_file_is_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_every_metric_that_is_asked_for_is_one_that_a_run_exports(scraped):
    exported = {sample.name for family in scraped(granularity="step").families.values() for sample in family.samples}
    ours = {name for name in exported if name.startswith("rl_")}
    asked = {where: set(_METRIC.findall(text)) for where, text in queries()}
    unknown = {where: names - ours for where, names in asked.items() if names - ours}
    assert unknown == {}
    assert set().union(*asked.values()) == ours  # and every one is shown


def test_labels_that_are_asked_for_are_those_of_the_metrics():
    known = {"run_id", "algorithm", "env", "phase", "loss", "kind"}
    for where, text in queries():
        for inside in re.findall(r"rl_[a-z_]+\{([^}]*)\}", text):
            assert set(re.findall(r"(\w+)\s*=~?", inside)) <= known, where
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            assert set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))) <= known


def test_the_collector_listens_where_runs_send_to():
    protocols = loaded("otel-collector.yaml")["receivers"]["otlp"]["protocols"]
    ports = {name: int(options["endpoint"].rsplit(":", 1)[1]) for name, options in protocols.items()}
    assert ports == {"grpc": 4317, "http": 4318}
    assert published("otel-collector") == {4317: 4317, 4318: 4318}


def test_every_address_is_a_service_at_a_port_that_it_listens_at():
    services = set(loaded("docker-compose.yml")["services"])
    collector = loaded("otel-collector.yaml")
    scraped_at = int(collector["exporters"]["prometheus"]["endpoint"].rsplit(":", 1)[1])
    listens = {
        "otel-collector": {4317, 4318, scraped_at},
        "prometheus": {9090},
        "jaeger": {4317, 16686},
        "loki": {loaded("loki.yaml")["server"]["http_listen_port"]},
        "host.docker.internal": {9464},
    }
    addresses = [collector["exporters"]["otlp/jaeger"]["endpoint"], collector["exporters"]["otlphttp/loki"]["endpoint"]]
    addresses += [
        target
        for job in loaded("prometheus.yml")["scrape_configs"]
        for static in job["static_configs"]
        for target in static["targets"]
    ]
    addresses += [
        source["url"] for source in loaded("grafana/provisioning/datasources/datasources.yaml")["datasources"]
    ]
    for address in addresses:
        parts = urlsplit(address if "://" in address else f"//{address}")
        assert parts.port in listens[parts.hostname], address
    assert services == {"otel-collector", "prometheus", "jaeger", "loki", "grafana"}
    for service in ("prometheus", "jaeger"):
        assert set(published(service)) <= listens[service]


def test_a_run_that_serves_its_own_page_does_so_where_prometheus_looks():
    from alphaswarm_rl.settings import MetricsSettings

    (job,) = [job for job in loaded("prometheus.yml")["scrape_configs"] if job["job_name"] == "runs"]
    assert job["static_configs"][0]["targets"] == [f"host.docker.internal:{MetricsSettings().prometheus_port}"]


def test_every_file_that_is_mounted_is_there():
    for service in loaded("docker-compose.yml")["services"].values():
        for volume in service.get("volumes", []):
            assert (FOLDER / volume.split(":")[0]).exists(), volume
    assert (FOLDER / loaded("prometheus.yml")["rule_files"][0]).exists()


def test_every_pipeline_of_the_collector_is_made_of_parts_that_are_there():
    collector = loaded("otel-collector.yaml")
    assert set(collector["service"]["pipelines"]) == {"metrics", "traces", "logs"}
    for pipeline in collector["service"]["pipelines"].values():
        for kind, names in pipeline.items():
            assert set(names) <= set(collector[kind])


def test_the_dashboard_asks_the_sources_that_are_provisioned():
    known = {
        (source["type"], source["uid"])
        for source in loaded("grafana/provisioning/datasources/datasources.yaml")["datasources"]
    }
    found = dashboard()
    used = {(panel["datasource"]["type"], panel["datasource"]["uid"]) for panel in found["panels"]}
    used |= {(item["datasource"]["type"], item["datasource"]["uid"]) for item in found["templating"]["list"]}
    assert used <= known
    assert len({panel["id"] for panel in found["panels"]}) == len(found["panels"])
    (provider,) = loaded("grafana/provisioning/dashboards/dashboards.yaml")["providers"]
    grafana = loaded("docker-compose.yml")["services"]["grafana"]
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in grafana["volumes"]


def test_every_port_is_on_this_machine_alone():
    for service in loaded("docker-compose.yml")["services"].values():
        assert all(entry.startswith("127.0.0.1:") for entry in service.get("ports", []))


def test_every_query_closes_what_it_opens():
    for where, text in queries():
        assert text.count("{") == text.count("}"), where
        assert text.count("(") == text.count(")"), where


@pytest.fixture
def needs():
    """Skips, and says what was not looked at, where a program of Prometheus is not installed."""

    def check(program, what):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: {what}")

    return check


def test_prometheus_takes_its_files(needs):
    needs("promtool", "prometheus.yml and rules.yml were read as YAML and compared with the others, not checked by it")
    done = run_tool("promtool", "check", "config", str(FOLDER / "prometheus.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_answers_every_query(needs, scraped, tmp_path):
    needs("prometheus", "no query of the dashboard was asked; only the names of metrics and labels were compared")
    page = scraped(granularity="step").text
    with serving(page) as target, prometheus(target, tmp_path) as address:
        wait_for(lambda: answer(address, "rl_halted"), seconds=30)
        for where, text in queries():
            if where.startswith(("panel 'Events'", "variable", "rule")):
                continue  # of Loki; of Grafana; of what is not the case
            assert answer(address, text.replace("$run", ".*")), where


def run_tool(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@contextmanager
def serving(page):
    """Serves a page of metrics that was read from a run."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@contextmanager
def prometheus(target, folder):
    """A real Prometheus that scrapes the target."""
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "run", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def answer(address, query):
    """What Prometheus finds; nothing while it is not up yet."""
    try:
        with urlopen(f"{address}/api/v1/query?{urlencode({'query': query})}", timeout=5) as found:
            return json.load(found)["data"]["result"]
    except URLError:
        return []
