"""Real `dramatiq` workers on a real Redis or RabbitMQ, and the ledger that their actors write."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dramatiq import Message
from dramatiq.broker import Broker
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker

import fairqueue_dramatiq
from fairqueue import FairQueue
from fairqueue.testing import EmbeddedServer
from tests.system.dramatiq.rabbitmq import RabbitServer, find_rabbitmq
from tests.system.forked import WorkerProcess
from tests.system.ledger import Ledger, wait_for

APPS = Path(__file__).parent / "apps"


class Worker(WorkerProcess):
    """One `dramatiq` command: a main process and its worker processes."""

    def __init__(
        self, environment: dict[str, str], log: Path, *options: str, app: str, command: str
    ) -> None:
        program = str(Path(sys.executable).parent / command)
        super().__init__(
            [program],
            *(app, "--path", str(APPS), *options),
            main="dramatiq.cli",
            argv0=program,
            env=environment,
            cwd=APPS,
            log=log,
            forks=command == "dramatiq",
            start_new_session=True,
        )

    def ready(self, processes: int = 1) -> Worker:
        wait_for(lambda: self._booted() >= processes)
        return self

    def _booted(self) -> int:
        assert self.process.poll() is None, self.log.read_text()
        return self.log.read_text().count("Worker process is ready for action.")

    def children(self) -> list[int]:
        """The worker processes."""
        found = re.findall(r"\[PID (\d+)\].*ready for action", self.log.read_text())
        return [int(pid) for pid in found]

    def kill(self) -> None:
        """Kill all its processes at once, including those that are not ready yet."""
        with contextlib.suppress(ProcessLookupError):  # they have ended
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


def open_broker(url: str, namespace: str, settings: dict[str, Any] | None) -> Broker:
    """A producer's broker, which declares no actor; None: without the middleware."""
    broker: Broker
    if url.startswith("amqp"):
        broker = RabbitmqBroker(url=url)
    else:
        broker = RedisBroker(url=url, namespace=namespace)
    if settings is not None:
        fairqueue_dramatiq.install(broker, **settings)
    return broker


class Mill:
    """The app, its broker, the core and its workers, for one test."""

    def __init__(self, broker_url: str, core_url: str, namespace: str, folder: Path) -> None:
        self.broker_url, self.core_url, self.namespace = broker_url, core_url, namespace
        self._folder = folder
        self.ledger = Ledger(folder / "ledger")
        self.workers: list[Worker] = []
        self._brokers: list[Broker] = []

    def settings(self, **settings: Any) -> dict[str, Any]:
        return {
            "url": self.core_url,
            "namespace": self.namespace,
            "workspace_from": "kwarg:tenant_id",
            **settings,
        }

    def worker(
        self,
        *options: str,
        settings: dict[str, Any] | None = None,
        app: str = "mill",
        command: str = "dramatiq",
        **environment: str,
    ) -> Worker:
        """Start a worker; ``settings`` None: without the middleware."""
        worker = Worker(
            {
                **os.environ,
                "MILL_BROKER": self.broker_url,
                "MILL_NAMESPACE": self.namespace,
                "MILL_SETTINGS": json.dumps(settings),
                "MILL_LEDGER": str(self.ledger.path),
                **self._prometheus(),
                **environment,
            },
            self._folder / f"worker-{len(self.workers)}.log",
            *options,
            app=app,
            command=command,
        )
        self.workers.append(worker)
        return worker

    def _prometheus(self) -> dict[str, str]:
        """Before Dramatiq 2 every worker serves metrics on the same port: the second would fail."""
        folder = self._folder / f"prometheus-{len(self.workers)}"
        return {
            "dramatiq_prom_host": "127.0.0.1",
            "dramatiq_prom_port": "0",
            "dramatiq_prom_db": str(folder),
        }

    def broker(self, settings: dict[str, Any] | None = None) -> Broker:
        """A producer's broker, which declares no actor; None: without the middleware."""
        broker = open_broker(self.broker_url, self.namespace, settings)
        self._brokers.append(broker)
        return broker

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
        for broker in self._brokers:
            broker.close()

    def core(self, **settings: Any) -> FairQueue:
        return FairQueue(self.core_url, namespace=self.namespace, **settings)

    def row(self, workspace: str) -> Any:
        """What the store says about a workspace."""
        with self.core() as core:
            return {row.workspace: row for row in core.views.stats().workspaces}.get(workspace)

    def is_idle(self, workspace: str) -> bool:
        """Whether no job of a workspace runs."""
        row = self.row(workspace)
        return row is None or not row.running


def message(
    actor: str, n: int, *, workspace: str | None, queue: str = "default", **kwargs: Any
) -> Any:
    """A message by actor name, as from a producer that does not import the actors."""
    return Message(
        queue_name=queue,
        actor_name=actor,
        args=(n,),
        kwargs={"tenant_id": workspace, **kwargs},
        options={},
    )


@pytest.fixture(scope="session")
def rabbit_server() -> Iterator[RabbitServer]:
    """A RabbitMQ for this test process, if it is installed; CI has it."""
    if not find_rabbitmq() and not os.environ.get("CI"):
        pytest.skip("rabbitmq-server is not installed; CI has it")
    server = RabbitServer()
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(params=["redis", "rabbitmq"])
def mill(
    request: pytest.FixtureRequest, redis_server: EmbeddedServer, namespace: str, tmp_path: Path
) -> Iterator[Mill]:
    """A user's app on each broker, with its own namespace; its workers end with the test."""
    if request.param == "redis":
        broker_url = redis_server.url
    else:
        broker_url = request.getfixturevalue("rabbit_server").url
    mill = Mill(broker_url, redis_server.url, namespace, tmp_path)
    yield mill
    mill.close()


@pytest.fixture
def redis_mill(redis_server: EmbeddedServer, namespace: str, tmp_path: Path) -> Iterator[Mill]:
    """The app on RedisBroker, for what is the same on every broker."""
    mill = Mill(redis_server.url, redis_server.url, namespace, tmp_path)
    yield mill
    mill.close()
