"""Real workers on a real Redis, and the ledger that their tasks write outside the broker."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import celery.__main__
import pytest
from celery import Celery, chord, group

from fairqueue import FairQueue
from fairqueue.testing import EmbeddedServer
from tests.system.forked import WorkerProcess
from tests.system.ledger import Ledger, wait_for

APPS = Path(__file__).parent / "apps"
GREEN = {"gevent", "eventlet"}
"""Pools that patch Python before anything else is imported."""


class Worker(WorkerProcess):
    """One ``celery worker`` process."""

    def __init__(
        self, name: str, environment: dict[str, str], log: Path, *options: str, app: str
    ) -> None:
        self.name = name
        super().__init__(
            [sys.executable, "-m", "celery"],
            *("-A", app, "worker", "-l", "INFO", "-n", name, *options),
            main="celery.__main__",
            argv0=celery.__main__.__file__,
            env=environment,
            cwd=APPS,
            log=log,
            forks=GREEN.isdisjoint(options),
        )

    def ready(self) -> Worker:
        wait_for(self._is_ready, seconds=60)
        return self

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return " ready." in self.log.read_text()


class Shop:
    """The app, its broker and its workers, for one test."""

    def __init__(self, server: EmbeddedServer, namespace: str, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self.namespace = namespace
        self.ledger = Ledger(folder / "ledger")
        self.workers: list[Worker] = []
        self.publishers: list[Publisher] = []
        self.config: dict[str, Any] = {}
        """Settings of the workers' app."""
        self.app_name = "shop"
        self.mingles = False
        """Whether workers ask the others at their start: each waits a second for the answers."""

    def url(self, **settings: object) -> str:
        path = self._server.url.removeprefix("unix://")
        return self.at(f"fairqueue+socket://{path}", **settings)

    def at(self, address: str, **settings: object) -> str:
        """The broker's URL at another address."""
        query = {"namespace": self.namespace, "workspace_from": "kwarg:tenant_id", **settings}
        return f"{address}?{urlencode(query)}"

    def at_port(self, port: int, **settings: object) -> str:
        """The same at a port of this host."""
        return self.at(f"fairqueue://127.0.0.1:{port}/0", **settings)

    def worker(self, *options: str, url: str, **environment: str) -> Worker:
        worker = Worker(
            f"w{len(self.workers)}@{self.namespace}",
            {
                **os.environ,
                "CELERY_BROKER_URL": url,
                "SHOP_LEDGER": str(self.ledger.path),
                "SHOP_CONFIG": json.dumps(self.config),
                **environment,
            },
            self._folder / f"worker-{len(self.workers)}.log",
            *([] if self.mingles else ["--without-mingle"]),
            *options,
            app=self.app_name,
        )
        self.workers.append(worker)
        return worker

    def publisher(self, url: str | None = None, **config: object) -> Publisher:
        url = url or self.url()
        publisher = Publisher(Celery("publisher", broker=url, **config))
        self.publishers.append(publisher)
        return publisher

    def open(
        self,
        pool: str = "prefork",
        processes: int = 2,
        *options: str,
        url: str = "",
        results: bool = False,
        **settings: object,
    ) -> Publisher:
        """Start a worker; return a producer with the same URL, which may have results, too."""
        url = url or self.url(**settings)
        if results:
            self.config = {**self.config, "result_backend": url}
        self.worker("-P", pool, "-c", str(processes), *options, url=url).ready()
        return self.publisher(url, **({"backend": url} if results else {}))

    def control(self, publisher: Publisher, *workers: Worker) -> Any:
        """Remote control, once these workers (or all) answer; "ready" is logged before that."""
        control = publisher.app.control
        for worker in workers or self.workers:
            wait_for(partial(control.ping, [worker.name], timeout=1, limit=1))
        return control

    def play(self, publisher: Publisher, names: list[str], *, limit: int, jobs: int) -> None:
        """Jobs, a group and a chord of these workspaces: each once, within the limit, with results.

        There are eight workspaces.
        """
        sent = {
            (name, n): publisher.send("work", n, kwargs={"seconds": 0.1}, workspace=name)
            for n in range(jobs)
            for name in names
        }
        assert all(result.get(timeout=60) == n for (_, n), result in sent.items())
        assert Counter(
            (row["workspace"], row["n"]) for row in self.ledger.lines("start")
        ) == dict.fromkeys(sent, 1)
        assert max(self.ledger.most_at_once(workspace=name) for name in names) == limit
        parts = [publisher.signature("work", n, workspace=name) for n, name in enumerate(names)]
        assert group(parts, app=publisher.app).apply_async().get(timeout=60) == list(range(8))
        body = publisher.signature("add_up", workspace=names[0])
        assert chord(parts, body, app=publisher.app).apply_async().get(timeout=60) == sum(range(8))

    def close(self) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait()
        for publisher in self.publishers:
            publisher.app.close()
        self.publishers.clear()
        gc.collect()  # what Celery leaves behind complains here, and in no other test

    def row(self, workspace: str) -> Any:
        """The store's stats of a workspace."""
        with self.core() as core:
            return {row.workspace: row for row in core.views.stats().workspaces}.get(workspace)

    def running(self, workspace: str) -> int:
        row = self.row(workspace)
        return row.running if row else 0

    def core(self, **settings: Any) -> FairQueue:
        return FairQueue(self._server.url, namespace=self.namespace, **settings)


def _named(task: str) -> str:
    return task if "." in task else f"shop.{task}"


class Publisher:
    """A producer that knows the tasks only by name."""

    def __init__(self, app: Celery) -> None:
        self.app = app

    def send(self, task: str, *args: object, **options: Any) -> Any:
        workspace = options.pop("workspace", None)
        kwargs = {**options.pop("kwargs", {}), "tenant_id": workspace}
        return self.app.send_task(_named(task), args, kwargs, **options)

    def signature(self, task: str, *args: object, workspace: str, **options: Any) -> Any:
        return self.app.signature(_named(task), args, {"tenant_id": workspace}, **options)


@pytest.fixture(scope="module")
def open_a_shop(
    redis_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Shop]]:
    """Makes shops, each with one of the apps, that several tests of a module share."""
    with contextlib.ExitStack() as closing:

        def open_it(app_name: str) -> Shop:
            folder = tmp_path_factory.mktemp("shop")
            shop = Shop(redis_server, f"m-{os.urandom(6).hex()}", folder)
            shop.app_name = app_name
            closing.callback(shop.close)
            return shop

        yield open_it


@pytest.fixture
def shop(redis_server: EmbeddedServer, namespace: str, tmp_path: Path) -> Iterator[Shop]:
    """A user's app with its own broker namespace; its workers end with the test."""
    shop = Shop(redis_server, namespace, tmp_path)
    yield shop
    shop.close()


@pytest.fixture
def own_shop(shop: Shop, own_server: EmbeddedServer) -> Shop:
    """The same with that server."""
    shop._server = own_server
    return shop
