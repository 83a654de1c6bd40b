"""A real Prometheus (Debian's package) scrapes the numbers and evaluates rules and pictures.

It is a child of the test with a port and a folder of its own; the system's service is never used.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairqueue import FairQueue, Scope
from fairqueue.metrics import collector, process_collector, serve
from fairqueue.metrics._families import OF_PROCESS, OF_STORE
from tests.nodes import free_port
from tests.system.ledger import wait_for

PROGRAM = shutil.which("prometheus")
FILES = Path(__file__).parents[2] / "examples" / "monitoring"
SILENT = {"records_set_aside", "redis_memory_max_bytes"} | {
    f.name
    for f in OF_PROCESS
    if f.name.startswith(("buffer", "inline", "steps", "suspended", "background"))
}
"""There is no damage here, no maxmemory, no outage or other failure, and no task with steps."""

HOSTILE = 'a"b\\c\nd}e\x1b[31m#'

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(PROGRAM is None and "CI" not in os.environ, reason="needs prometheus"),
]


class Prometheus:
    """One server."""

    def __init__(self, folder: Path, targets: list[str]) -> None:
        shutil.copy(FILES / "alerts.yml", folder)
        config = yaml.safe_load((FILES / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        for job, target in zip(config["scrape_configs"], targets, strict=True):
            job["static_configs"] = [{"targets": [target]}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self._url = f"http://127.0.0.1:{(port := free_port())}/api/v1/"
        self.log = folder / "log"
        with self.log.open("w") as output:
            self._process = subprocess.Popen(
                [
                    str(PROGRAM),
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def ask(self, what: str, **query: str) -> Any:
        """What its API answers; None: it does not yet."""
        assert self._process.poll() is None, self.log.read_text()
        url = f"{self._url}{what}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except ConnectionError:
            return None
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:  # it starts
                return None
            raise AssertionError(f"{query}: {error.read().decode()}") from None
        except urllib.error.URLError:
            return None

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an expression now."""
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found

    def has_scraped(self) -> bool:
        """Whether each target has answered."""
        found = (self.ask("targets") or {}).get("activeTargets", [])
        return bool(found) and all(target["health"] == "up" for target in found)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)


@pytest.fixture(scope="module")
def prometheus(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It scrapes a queue on which something of everything has happened, and its worker."""
    with FairQueue(redis_url, namespace=f"m-{os.urandom(6).hex()}") as queue:
        servers = [serve([make(queue)], "127.0.0.1:0") for make in (collector, process_collector)]
        _do_something(queue)
        targets = [server.url.split("/")[2] for server in servers]
        found = Prometheus(tmp_path_factory.mktemp("prometheus"), targets)
        try:
            wait_for(found.has_scraped)
            wait_for(lambda: found.query("fairqueue_jobs_queued"))
            yield found
        finally:
            found.close()
            for server in servers:
                server.stop()


def _do_something(queue: FairQueue) -> None:
    queue.limits.set(Scope.workspace("full"), capacity=0)
    queue.limits.set(Scope.workspace("a"), concurrency=40)
    queue.limits.set(Scope.queue("q"), concurrency=50)
    for workspace in ("a", "b", HOSTILE):
        for _ in range(5):
            queue.publish(b"", queue="q", workspace=workspace)
    queue.publish_many([])
    try:
        queue.publish(b"", queue="q", workspace="full")
    except Exception as error:  # noqa: BLE001 - it is expected
        assert type(error).__name__ == "CapacityExceeded"  # noqa: PT017 - the same
    acked, dead, *_ = queue.claim(["q"], 6).leases
    queue.tally.ran(acked.job, "succeeded", 1.0)
    queue.ack(acked)
    queue.reject(dead, reason="bad")


def test_every_metric_arrives(prometheus: Prometheus) -> None:
    """But those that have nothing to say."""
    shown = set(prometheus.ask("label/__name__/values"))
    for family in (*OF_STORE, *OF_PROCESS):
        name = family.shown + ("_bucket" if family.kind == "histogram" else "")
        assert name in shown or family.name in SILENT, name


def test_names_arrive_escaped(prometheus: Prometheus) -> None:
    """A hostile name is one label, and the scrape is whole."""
    found = prometheus.query('fairqueue_workspace_jobs_running{workspace!~"[ab]|other|full"}')
    assert [row["metric"]["workspace"] for row in found] == ['a"b\\\\c\\nd}e\\x1b[31m#']


def test_each_picture_of_the_dashboard_has_its_numbers(prometheus: Prometheus) -> None:
    """Every expression is understood, with Grafana's variables filled in."""
    dashboard = json.loads((FILES / "grafana.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "1m")
            expression = expression.replace("$queue", ".*").replace("$workspace", ".*")
            prometheus.query(expression)
    slots = prometheus.query('sum(fairqueue_slots_wanted{queue="q"})')
    assert [float(row["value"][1]) for row in slots] == [4 + 9]


def test_promtool_finds_no_fault_with_the_metrics(prometheus: Prometheus) -> None:
    """Names, types and help texts follow the conventions."""
    for target in prometheus.ask("targets")["activeTargets"]:
        with urllib.request.urlopen(target["scrapeUrl"], timeout=10) as answer:
            text = answer.read()
        done = subprocess.run(
            ["promtool", "check", "metrics"], input=text, capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, b"")
