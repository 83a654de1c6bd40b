"""The numbers that Prometheus reads: what they say and cost, their labels, and their page."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from dramatiq import Message
from dramatiq.brokers.stub import StubBroker
from prometheus_client import CollectorRegistry

import fairqueue_celery
import fairqueue_dramatiq
from fairqueue import CapacityExceeded, ConfigurationError, FairQueue, NewJob, Scope
from fairqueue._background import BackgroundLoop
from fairqueue.metrics import collector, process_collector, serve, serve_worker
from fairqueue.metrics._families import OF_PROCESS, OF_STORE
from fairqueue.metrics._store import MOST_QUEUES
from fairqueue.testing import embedded_redis
from tests.celery_state import kept
from tests.metrics.scraping import fetch, scrape
from tests.nodes import free_port

HOSTILE = 'a"b\\c\nd}e\x1b[31m#'


def _publish(queue: FairQueue, n: int = 1, workspace: str = "a", name: str = "q") -> None:
    for _ in range(n):
        queue.publish(b"", queue=name, workspace=workspace)


def test_a_scrape_says_how_queues_stand(queue: FairQueue) -> None:
    """What waits, could run, runs, and how many worker slots could be used."""
    queue.limits.set(Scope.workspace("a"), concurrency=3)
    _publish(queue, 5, "a")
    _publish(queue, 2, "b")
    queue.publish(b"", queue="q", workspace="b", delay_seconds=100)
    queue.claim(["q"], 4)
    found = scrape(collector(queue))
    assert found["fairqueue_up",] == 1
    assert found["fairqueue_jobs_queued", "q"] == 4
    assert found["fairqueue_jobs_running", "q"] == 4
    startable = found["fairqueue_jobs_startable", "q"]
    assert found["fairqueue_slots_wanted", "q"] == 4 + startable == 5
    assert found["fairqueue_jobs_runnable", "q"] == 3
    assert 0 <= found["fairqueue_oldest_runnable_seconds", "q"] < 60
    assert found["fairqueue_workspace_jobs_running", "a"] == 2
    assert found["fairqueue_workspace_jobs_queued", "b"] == 1
    assert found["fairqueue_workspace_limit", "a"] == 3
    assert found["fairqueue_workspace_jobs_queued", "other"] == 0
    assert found["fairqueue_workspace_fair_share", "a"] == 0.5
    assert found["fairqueue_workers",] == 1


def test_what_is_held_raises_no_alert(queue: FairQueue) -> None:
    """Of a paused queue, and of a workspace at its limit, nothing is runnable."""
    _publish(queue, 5, "a")
    queue.pauses.pause(Scope.queue("q"))
    found = scrape(collector(queue))
    assert found["fairqueue_paused", "queue"] == 1
    assert found["fairqueue_jobs_queued", "q"] == 5
    for name in ("jobs_runnable", "jobs_startable", "slots_wanted", "oldest_runnable_seconds"):
        assert found[f"fairqueue_{name}", "q"] == 0


def test_what_status_finds_is_told(queue: FairQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """By level and subject; looked at again when a minute is over."""
    queue.limits.set(Scope.total(), concurrency=2)
    for name in "ab":
        queue.limits.set(Scope.workspace(name), concurrency=5)
    numbers = collector(queue)
    assert scrape(numbers)["fairqueue_status", "limits", "warning"] == 2
    queue.limits.unset(Scope.total())
    assert scrape(numbers)["fairqueue_status", "limits", "warning"] == 2
    begun = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: begun + 61)
    assert ("fairqueue_status", "limits", "warning") not in scrape(numbers)


def test_memory_is_told_as_redis_tells_it() -> None:
    """Used, and at most, unless that is not set, or Redis may not be asked, or is this process."""
    used, most = ("fairqueue_redis_memory_used_bytes",), ("fairqueue_redis_memory_max_bytes",)
    with embedded_redis() as server:
        client = server.client()
        with FairQueue(server.url) as queue:
            found = scrape(collector(queue))
            assert 500_000 < found[used] < 100_000_000
            assert most not in found
            client.config_set("maxmemory", 64_000_000)
            assert scrape(collector(queue))[most] == 64_000_000
        client.acl_setuser("app", enabled=True, passwords=["+s"], keys=["*"], commands=["+@all"])
        with FairQueue(server.url.replace("unix://", "unix://app:s@")) as queue:
            queue.connect()
            client.acl_setuser("app", commands=["-info"])
            found = scrape(collector(queue))
            assert found["fairqueue_up",] == 1
            assert used not in found
    with FairQueue("memory://") as queue:
        assert queue.views.memory() is None


def test_labels_are_bounded(queue: FairQueue) -> None:
    """The busiest workspaces have their own; what the others have is one number."""
    for n in range(30):
        _publish(queue, 1 + (n < 3), f"w{n}")
    found = scrape(collector(queue, workspaces=3))
    queued = {k[1]: n for k, n in found.items() if k[0] == "fairqueue_workspace_jobs_queued"}
    assert queued == {"w0": 2, "w1": 2, "w2": 2, "other": 27}
    labels = {k[1] for k in found if k[0].startswith("fairqueue_workspace_")}
    assert labels == set(queued)


def test_a_queue_named_as_all_others_is_one_of_them(queue: FairQueue) -> None:
    """Prometheus takes no two numbers with the same labels."""
    _publish(queue, 3, name="other")
    for n in range(MOST_QUEUES + 1):
        _publish(queue, 1 + (n < MOST_QUEUES), name=f"q{n}")
    (jobs,) = (one for one in collector(queue).collect() if one.name == "fairqueue_jobs_queued")
    assert [sample.value for sample in jobs.samples if sample.labels["queue"] == "other"] == [4]


def test_names_are_escaped(queue: FairQueue) -> None:
    """A name breaks no line, label or terminal."""
    queue.tally.begin()
    _publish(queue, 1, HOSTILE, HOSTILE)
    queue.claim([HOSTILE])
    shown = 'a"b\\\\c\\nd}e\\x1b[31m#'
    assert scrape(collector(queue))["fairqueue_jobs_running", shown] == 1
    assert scrape(process_collector(queue))["fairqueue_workspace_jobs_started_total", shown] == 1


def test_names_that_look_alike_are_two_series(queue: FairQueue) -> None:
    """Prometheus takes no two numbers with the same labels."""
    queue.tally.begin()
    for name in ("\x1b", "\\x1b", "\\\\x1b"):
        _publish(queue, 1, name, name)
        queue.claim([name])
    for collected in (collector(queue), process_collector(queue)):
        for family in collected.collect():
            labels = [(one.name, *sorted(one.labels.items())) for one in family.samples]
            assert len(labels) == len(set(labels)), family.name


def test_a_scrape_costs_the_same_beside_many_workspaces(
    queue: FairQueue, redis_client: redis.Redis
) -> None:
    """As many commands with 3,000 workspaces in line as with 1,500."""
    costs = []
    for first in (0, 1500):
        for n in range(first, first + 1500):
            _publish(queue, 1, f"w{n}")
        scrape(collector(queue))
        redis_client.config_resetstat()
        scrape(collector(queue))
        stats: dict[str, Any] = redis_client.info("commandstats")
        costs.append(sum(int(row["calls"]) for row in stats.values()))
    assert costs[1] < 1.1 * costs[0]


def test_a_store_that_is_away_is_down(caplog: pytest.LogCaptureFixture) -> None:
    """The scrape itself succeeds, and has nothing else; the reason is logged."""
    with FairQueue(f"redis://127.0.0.1:{free_port()}") as queue, caplog.at_level(logging.WARNING):
        assert scrape(collector(queue)) == {("fairqueue_up",): 0}
    assert "has not answered a scrape" in caplog.text


def test_a_process_counts_what_it_sees(queue: FairQueue) -> None:
    """Publishes, starts, ends, worker-seconds, waits and runs, by queue and workspace."""
    found = process_collector(queue)
    queue.limits.set(Scope.workspace("b"), capacity=0)
    _publish(queue, 2, "a")
    with pytest.raises(CapacityExceeded):
        _publish(queue, 1, "b")
    one, two = queue.claim(["q"], 2).leases
    queue.tally.ran(one.job, "succeeded", 3.0)
    queue.ack(one, seconds=0)
    queue.reject(two, reason="bad")
    BackgroundLoop("cleaning", logging.getLogger("fairqueue.test")).failed("a fault")
    samples = scrape(found)
    expected = {
        ("fairqueue_background_failures_total", "cleaning"): 1,
        ("fairqueue_jobs_published_total", "q"): 2,
        ("fairqueue_publishes_rejected_total", "q", "workspace"): 1,
        ("fairqueue_jobs_started_total", "q"): 2,
        ("fairqueue_leases_ended_total", "acked", "q"): 1,
        ("fairqueue_leases_ended_total", "dead", "q"): 1,
        ("fairqueue_runs_total", "succeeded", "q"): 1,
        ("fairqueue_workspace_runs_total", "succeeded", "a"): 1,
        ("fairqueue_run_seconds_sum", "q"): 3,
        ("fairqueue_run_seconds_bucket", "2.5", "q"): 0,
        ("fairqueue_run_seconds_bucket", "5.0", "q"): 1,
        ("fairqueue_wait_seconds_count", "q"): 2,
        ("fairqueue_workspace_runnable_wait_seconds_bucket", "+Inf", "a"): 2,
    }
    assert {key: samples.get(key) for key in expected} == expected


def test_a_second_worker_of_a_host_takes_the_next_port(namespace: str) -> None:
    """Both have the same setting; a stopped one frees its port."""
    bind = f"127.0.0.1:{free_port()}"
    with FairQueue("memory://", namespace=namespace, metrics_bind=bind) as queue:
        queue.publish(b"", queue="q", workspace="a")
        (first,), (second,) = serve_worker(queue), serve_worker(queue)
        assert first.url != second.url
        queue.publish(b"", queue="q", workspace="a")
        assert fetch(second.url)["fairqueue_jobs_published_total", "q"] == 1
        first.stop()
        second.stop()
        (again,) = serve_worker(queue)
        assert again.url == first.url
        again.stop()


@pytest.mark.parametrize("bind", ["no such host:1", "host", "h:99999", ":1"])
def test_what_is_no_address_is_refused(bind: str) -> None:
    """As a bad setting."""
    with pytest.raises(ConfigurationError, match="metrics_bind"):
        FairQueue("memory://", metrics_bind=bind)


def test_an_address_of_another_host_stops_no_worker(
    namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged."""
    with FairQueue("memory://", namespace=namespace, metrics_bind="192.0.2.1:0") as queue:
        assert serve_worker(queue) == []
    assert "192.0.2.1:0" in caplog.text


def test_a_forked_child_lets_go_of_the_port(namespace: str) -> None:
    """It would hold it after its parent has died, and answer no scrape."""
    with FairQueue("memory://", namespace=namespace) as queue:
        server = serve([process_collector(queue)], "127.0.0.1:0")
        pid = os.fork()
        if not pid:
            os._exit(int(server._server.socket.fileno() != -1))
        assert os.waitpid(pid, 0)[1] == 0
        assert fetch(server.url) == {}
        server.stop()


WITHOUT = """
import sys
sys.modules["prometheus_client"] = sys.modules["opentelemetry"] = None
import logging
logging.basicConfig()
import fairqueue_celery, fairqueue_celery.transport, fairqueue_dramatiq, fairqueue.cli
from fairqueue import FairQueue
from fairqueue.metrics import serve_worker
assert serve_worker(FairQueue("memory://", metrics_bind="127.0.0.1:0")) == []
from click.testing import CliRunner
result = CliRunner().invoke(fairqueue.cli.main, ["metrics", "--url", "memory://"])
assert (result.exit_code, "fairqueue[metrics]" in result.output) == (2, True), result.output
"""


def test_no_worker_needs_the_extra() -> None:
    """Without the libraries everything else works, and what has no effect says so."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "pip install 'fairqueue[metrics]'" in done.stderr


def test_schedules(queue: FairQueue) -> None:
    """How many there are, what became of their ticks, and for how long one is due."""
    queue.schedules.put("n", NewJob(b"x", queue="q"), workspace="a", every=60)
    engine = queue.store.shards[0].engine
    key = engine.keys.key("schedules", "a")
    record = engine.command("HGET", key, "n")
    due = record.split(b" ")[1]
    engine.command("HSET", key, "n", record.replace(due, b"%.3f" % (float(due) - 90), 1))
    samples = scrape(collector(queue))
    assert samples["fairqueue_schedules",] == 1
    assert samples["fairqueue_schedule_ticks_total", "published"] == 0
    assert 29 < samples["fairqueue_schedule_lateness_seconds",] < 60


PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_page_has_every_metric() -> None:
    """In the order of the code, each once, with type, labels and meaning, and a proper name."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `fairqueue_")]
    families = [*OF_STORE, *OF_PROCESS]
    assert len({family.shown for family in families}) == len(families)
    for family in families:
        assert family.shown.endswith("_total") == (family.kind == "counter")
        assert family.kind != "histogram" or family.shown.endswith("_seconds")
    assert rows == [
        f"| `{family.shown}` | {family.kind} | "
        f"{', '.join(f'`{label}`' for label in family.labels) or '–'} | {family.meaning} |"
        for family in families
    ]


PUBLISHED, REJECTED = "fairqueue_jobs_published_total", "fairqueue_publishes_rejected_total"


@contextmanager
def _celery(namespace: str) -> Iterator[tuple[FairQueue, Any, Callable[[str], object]]]:
    with kept(), closing(Celery(broker=f"fairqueue+memory://{namespace}")) as app:
        queue = fairqueue_celery.queue_of(app)
        yield queue, fairqueue_celery.batch(app), lambda name: app.send_task("t", workspace=name)


@contextmanager
def _dramatiq(_: str) -> Iterator[tuple[FairQueue, Any, Callable[[str], object]]]:
    def send(name: str) -> object:
        return broker.enqueue(Message("default", "t", (), {}, {"workspace": name}))

    with closing(StubBroker()) as broker:
        fairqueue_dramatiq.install(broker)
        broker.declare_queue("default")
        yield fairqueue_dramatiq.queue_of(broker), fairqueue_dramatiq.batch(broker), send


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("opened", "name"), [(_celery, "celery"), (_dramatiq, "default")])
def test_publishes_are_counted(opened: Any, name: str, namespace: str) -> None:
    """One by one and in a batch, and what is rejected."""
    registry = CollectorRegistry()
    with opened(namespace) as (queue, batch, send):
        registry.register(process_collector(queue))
        queue.limits.set(Scope.workspace("full"), capacity=0)
        send("a")
        with batch:
            for _ in range(3):
                send("a")
        with pytest.raises(CapacityExceeded):
            send("full")
    assert registry.get_sample_value(PUBLISHED, {"queue": name}) == 4
    assert registry.get_sample_value(REJECTED, {"queue": name, "scope": "workspace"}) == 1
