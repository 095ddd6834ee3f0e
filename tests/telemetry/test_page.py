"""The page that Prometheus scrapes."""

import socket
import urllib.request
from contextlib import contextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.telemetry import listener
from alphaswarm_rl.telemetry.metrics import METRICS
from tests.runtime.conftest import tiny
from tests.telemetry.conftest import on, warnings


def read(address):
    with urllib.request.urlopen(address, timeout=5) as answer:
        return answer.read().decode()


class Scraper:
    """A sink that reads the page once the run is over but for its end."""

    def __init__(self, monkeypatch):
        self.text = None
        self.address = None
        opened = listener.Telemetry
        scraper = self

        class Seen(opened):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                scraper.address = None if self.page is None else self.page.address

        monkeypatch.setattr(listener, "Telemetry", Seen)

    def __call__(self, event):
        if event.stage == "done" and self.address is not None:
            self.text = read(self.address)

    @property
    def families(self):
        return {family.name: family for family in text_string_to_metric_families(self.text)}


@pytest.fixture
def scraped(tmp_path, monkeypatch):
    """Trains with a page, and gives what was on it at the end."""

    def run(spec=None, **metrics):
        scraper = Scraper(monkeypatch)
        settings = on(tmp_path / "home", metrics={"exporter": "prometheus", "prometheus_port": 0, **metrics})
        scraper.result = RLRuntime(spec or tiny(), settings, sinks=[scraper]).train()
        return scraper

    return run


def test_every_metric_is_on_the_page_with_its_labels(scraped):
    page = scraped(granularity="step")
    assert {name for name in page.families if name.startswith("rl_")} == {
        metric.name.replace(".", "_") for metric in METRICS
    }
    for metric in METRICS:
        family = page.families[metric.name.replace(".", "_")]
        assert (family.type, family.documentation) == (metric.kind, metric.description)
        for sample in family.samples:
            assert sample.name == family.name + ("_total" if metric.kind == "counter" else "")
            assert set(sample.labels) - {"loss", "kind"} == {"run_id", "algorithm", "env", "phase"}
            assert sample.labels["run_id"] == page.result.run_id
    (reward,) = page.families["rl_evaluation_reward"].samples
    assert (reward.value, reward.labels["phase"]) == (page.result.metrics["mean_reward"], "evaluate")
    assert page.families["target_info"].samples[0].labels["service_name"] == "alphaswarm-rl"


def test_the_page_is_gone_when_the_run_is_over_and_the_next_run_has_its_own(scraped):
    first, second = scraped(tiny(agent={"class": "random"})), scraped(tiny(agent={"class": "random"}))
    for page, other in ((first, second), (second, first)):
        assert page.result.run_id in page.text
        assert other.result.run_id not in page.text
        with pytest.raises(OSError, match="refused"):
            read(page.address)


@contextmanager
def taken():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_taken_is_one_warning(tmp_path, caplog):
    with taken() as port:
        settings = on(
            tmp_path / "home",
            metrics={"exporter": "prometheus", "prometheus_host": "127.0.0.1", "prometheus_port": port},
        )
        result = RLRuntime(tiny(agent={"class": "random"}), settings).train()
    assert result.status == "completed"
    (warning,) = warnings(caplog)
    assert f"http://127.0.0.1:{port}/metrics" in warning
