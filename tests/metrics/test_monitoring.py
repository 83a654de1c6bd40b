"""The files of examples/monitoring: they use metrics that exist, and scale as the page says."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from fairqueue import FairQueue, Lease, Scope
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.store import Store
from fairqueue.adapters import Finish
from fairqueue.metrics import collector
from fairqueue.metrics._families import OF_PROCESS, OF_STORE
from fairqueue.testing import ManualClock
from tests.metrics.scraping import scrape
from tests.pages import check_command

FOLDER = Path(__file__).parents[2] / "examples" / "monitoring"
FILES = sorted(path for path in FOLDER.iterdir() if path.suffix in {".yml", ".yaml", ".json"})
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count")}
NAMES = {
    family.shown + suffix
    for family in (*OF_STORE, *OF_PROCESS)
    for suffix in SUFFIXES.get(family.kind, ("",))
}
USED = re.compile(r"\bfairqueue_\w+")
USES = re.compile(r"(fairqueue_\w+)\{([^{}]*)\}")
COMMAND = re.compile(r"`fairqueue ([a-z][^`]*)`")
BY = re.compile(r"by \(([\w, ]+)\)")
OF_PROMETHEUS = {"le", "instance"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_metric_that_is_used_exists(path: Path) -> None:
    """With the labels by which it is chosen."""
    text = path.read_text()
    assert set(USED.findall(text)) <= NAMES
    labels = {family.shown: set(family.labels) for family in (*OF_STORE, *OF_PROCESS)}
    for name, chosen in USES.findall(text.replace('\\"', '"')):
        of = labels.get(re.sub("_(bucket|sum|count)$", "", name), labels.get(name, set()))
        assert set(re.findall(r"(\w+)(?:=~|!=|=)", chosen)) <= of | OF_PROMETHEUS, (name, chosen)


def _expressions() -> list[str]:
    dashboard = json.loads((FOLDER / "grafana.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_a_panel_groups_by_labels_that_exist() -> None:
    """And each panel has its place, and a metric."""
    for expression in _expressions():
        assert USED.search(expression)
        for group in BY.findall(expression):
            known = {label for family in (*OF_STORE, *OF_PROCESS) for label in family.labels}
            assert {label.strip() for label in group.split(",")} <= known | OF_PROMETHEUS
    dashboard = json.loads((FOLDER / "grafana.json").read_text())
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)


def test_every_rule_says_what_to_do() -> None:
    """With a severity, and the number to look at or a command that parses."""
    rules = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0]["rules"]
    for rule in rules:
        assert set(rule["annotations"]) == {"summary", "action"}, rule["alert"]
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        for command in COMMAND.findall(rule["annotations"]["action"]):
            with suppress(click.MissingParameter):  # it is named, not written out
                check_command(command.split())


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs prometheus' promtool")
@pytest.mark.parametrize(
    "check",
    [
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts_test.yml"],
        ["check", "config", "prometheus.yml"],
    ],
    ids=" ".join,
)
def test_promtool_accepts_the_rules(check: list[str]) -> None:
    """Their form, and what raises each of them and what does not."""
    done = subprocess.run(
        ["promtool", *check], cwd=FOLDER, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_autoscaler_takes_no_numbers_for_no_work() -> None:
    """While the store is away the metric is not there, and the workers stay."""
    (trigger,) = yaml.safe_load((FOLDER / "keda.yaml").read_text())["spec"]["triggers"]
    assert trigger["metadata"]["ignoreNullValues"] == "false"


def test_the_other_autoscaler_asks_for_the_same() -> None:
    """Its metric is the one that the adapter's rule offers, by the same number of slots."""
    (rule,) = yaml.safe_load((FOLDER / "prometheus-adapter.yaml").read_text())["rules"]["external"]
    scaler = yaml.safe_load((FOLDER / "hpa.yaml").read_text())
    (metric,) = scaler["spec"]["metrics"]
    asked = metric["external"]
    assert asked["metric"]["name"] == rule["name"]["as"] == rule["seriesQuery"]
    assert float(asked["target"]["averageValue"]) == Scaler(FOLDER / "keda.yaml").slots


class Scaler:
    """What KEDA and its autoscaler do with a ScaledObject, in time that the test moves."""

    EVERY = 15.0

    def __init__(self, path: Path) -> None:
        spec = yaml.safe_load(path.read_text())["spec"]
        (trigger,) = spec["triggers"]
        found = re.fullmatch(r'sum\((\w+)\{queue="(\w+)"\}\)', trigger["metadata"]["query"])
        assert found
        assert trigger["metricType"] == "AverageValue"
        self.sample = (found[1], found[2])
        self.slots = float(trigger["metadata"]["threshold"])
        self._least, self._most = spec["minReplicaCount"], spec["maxReplicaCount"]
        behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        self._stable = behavior["scaleDown"]["stabilizationWindowSeconds"]
        self._wished: list[tuple[float, int]] = []
        self.workers = self._least

    def look(self, at: float, value: float) -> None:
        """Scale up at once, and down to the most that was wished for in the window."""
        wish = max(self._least, min(self._most, math.ceil(value / self.slots)))
        self._wished = [(then, n) for then, n in self._wished if at - then < self._stable]
        self._wished.append((at, wish))
        self.workers = max(wish, min(self.workers, max(n for _, n in self._wished)))


class Play:
    """A queue in memory, with as many slots as the scaler's workers have."""

    def __init__(self, namespace: str, scaler: Scaler, seconds: float) -> None:
        self.clock = ManualClock()
        store = Store(MemoryEngine(namespace=namespace), clock=self.clock)
        self.queue = FairQueue(store=store)
        self.scaler, self._seconds = scaler, seconds
        self._running: list[tuple[float, Lease]] = []
        self._metrics = collector(self.queue)
        self.log: list[tuple[float, int, int]] = []
        self.began = self.clock()

    def publish(self, n: int, workspace: str, **options: Any) -> None:
        for _ in range(n):
            self.queue.publish(b"", queue="celery", workspace=workspace, **options)

    def go_on(self, seconds: float) -> None:
        """Let time pass: jobs end and start each second, the scaler looks every 15."""
        until = self.clock() + seconds
        while self.clock() < until:
            now = self.clock()
            if round(now - self.began) % Scaler.EVERY == 0:
                self.scaler.look(now, scrape(self._metrics).get(self._key, 0.0))
            self._work(now)
            self.clock.advance(1.0)

    @property
    def _key(self) -> tuple[str, ...]:
        name, queue = self.scaler.sample
        return name, queue

    def _work(self, now: float) -> None:
        over = [lease for end, lease in self._running if end <= now]
        self._running = [(end, lease) for end, lease in self._running if end > now]
        slots = int(self.scaler.workers * self.scaler.slots)
        free = max(0, slots - len(self._running))
        finishes = [Finish(lease.fence, seconds=self._seconds) for lease in over]
        claimed = self.queue.claim(["celery"], free, finishes=finishes)
        if self._running:
            self.queue.renew([(lease.fence, 0.0) for _, lease in self._running])
        self._running += [(now + self._seconds, lease) for lease in claimed.leases]
        assert len(self._running) <= slots or not claimed.leases
        self.log.append((now - self.began, self.scaler.workers, len(self._running)))

    def workers_at(self, second: float) -> int:
        return next(workers for at, workers, _ in self.log if at >= second)


@pytest.fixture
def play(namespace: str) -> Play:
    """Jobs of 20 s, and workers of 8 slots."""
    return Play(namespace, Scaler(FOLDER / "keda.yaml"), 20.0)


def test_workers_come_with_the_work_and_go_after_it(play: Play) -> None:
    """None without work; enough within one look; none again when it is done, five minutes later."""
    play.go_on(60)
    assert play.scaler.workers == 0
    play.publish(400, "a")
    play.publish(40, "b")
    play.go_on(61)
    assert play.workers_at(75) == 20  # as many as there may be
    play.go_on(900)
    assert play.queue.views.totals().acked == 440
    ended = max(at for at, _, running in play.log if running)
    assert play.workers_at(ended + 15) == 20
    assert play.workers_at(ended + 331) == 0


def test_what_a_limit_holds_back_starts_no_worker(play: Play) -> None:
    """A million jobs of a workspace with a limit of 5 want 5 slots: one worker, here 200 jobs."""
    play.queue.limits.set(Scope.workspace("a"), concurrency=5)
    play.publish(200, "a")
    play.go_on(300)
    assert {workers for _, workers, _ in play.log} == {1}
    assert max(running for _, _, running in play.log) == 5
    play.queue.limits.set(Scope.workspace("a"), concurrency=20)
    play.go_on(60)
    assert play.scaler.workers == 3
