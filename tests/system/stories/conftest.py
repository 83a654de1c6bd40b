"""An office with real workers of one framework, and an operator who has only the command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fairqueue import FairQueue
from fairqueue.cli import main
from fairqueue.testing import EmbeddedServer
from tests.system.celery.conftest import Shop
from tests.system.dramatiq.conftest import Mill, message
from tests.system.ledger import Ledger

APPS = Path(__file__).parent / "apps"
PAGE = Path(__file__).parents[3] / "docs" / "operate" / "day.md"
COMMANDS = frozenset(re.findall(r"^\$ (fairqueue .*)$", PAGE.read_text(), re.MULTILINE))
TASK = "office.report"


class Office:
    """The app of one framework: its workers, a producer, and its ledger."""

    ledger: Ledger
    namespace: str

    def __init__(self, url: str) -> None:
        self.url = url

    def core(self) -> FairQueue:
        """The queue, as a colleague of the operator uses it."""
        return FairQueue(self.url, namespace=self.namespace, brings_limits=False)

    def worker(self, queue: str, slots: int, *, release: str = "good", **settings: Any) -> Any:
        """Start a worker of one queue."""
        raise NotImplementedError

    def close(self) -> None:
        """End its workers."""
        raise NotImplementedError

    def send(self, n: int, workspace: str | None, *, queue: str = "reports", **kwargs: Any) -> None:
        """Publish one job."""
        raise NotImplementedError


class CeleryOffice(Office):
    """The app on Celery."""

    def __init__(self, server: EmbeddedServer, namespace: str, folder: Path) -> None:
        super().__init__(server.url)
        self._shop = Shop(server, namespace, folder)
        self._shop.app_name = "office_celery"
        self.ledger, self.namespace = self._shop.ledger, namespace
        self._publisher: Any = None

    def close(self) -> None:
        self._shop.close()

    def worker(self, queue: str, slots: int, *, release: str = "good", **settings: Any) -> Any:
        pool = ("-P", "threads", "-c", str(slots), "-Q", queue)
        more = {"PYTHONPATH": str(APPS), "RELEASE": release}
        return self._shop.worker(*pool, url=self._shop.url(**settings), **more)

    def send(self, n: int, workspace: str | None, *, queue: str = "reports", **kwargs: Any) -> None:
        self._publisher = self._publisher or self._shop.publisher()
        self._publisher.send(TASK, n, workspace=workspace, queue=queue, kwargs=kwargs)


class DramatiqOffice(Office):
    """The app on Dramatiq."""

    def __init__(self, server: EmbeddedServer, namespace: str, folder: Path) -> None:
        super().__init__(server.url)
        self._mill = Mill(server.url, server.url, namespace, folder)
        self.ledger, self.namespace = self._mill.ledger, namespace
        self._broker: Any = None

    def close(self) -> None:
        self._mill.close()

    def worker(self, queue: str, slots: int, *, release: str = "good", **settings: Any) -> Any:
        pool = ("-p", "1", "-t", str(slots), "-Q", queue)
        more = {"PYTHONPATH": str(APPS), "RELEASE": release}
        wanted = self._mill.settings(**settings)
        return self._mill.worker(*pool, settings=wanted, app="office_dramatiq", **more)

    def send(self, n: int, workspace: str | None, *, queue: str = "reports", **kwargs: Any) -> None:
        self._broker = self._broker or self._mill.broker(self._mill.settings())
        self._broker.enqueue(message(TASK, n, workspace=workspace, queue=queue, **kwargs))


OFFICES = {"celery": CeleryOffice, "dramatiq": DramatiqOffice}


class Operator:
    """Runs commands as they stand in ``docs/operate/day.md``, and keeps what they said."""

    def __init__(self, office: Office) -> None:
        self._environment = {"FAIRQUEUE_URL": office.url, "FAIRQUEUE_NAMESPACE": office.namespace}
        self.commands: list[str] = []

    def run(self, line: str, *, code: int = 0) -> str:
        """Run one command; return all that it printed."""
        assert line in COMMANDS, f"{PAGE.name} does not have: {line}"
        self.commands.append(line)
        _, *arguments = shlex.split(line)
        done = CliRunner().invoke(main, arguments, env=self._environment)
        assert done.exit_code == code, done.output
        return done.output


@pytest.fixture(params=list(OFFICES))
def office(
    request: pytest.FixtureRequest, redis_server: EmbeddedServer, namespace: str, tmp_path: Path
) -> Iterator[Office]:
    """The app of each framework; its workers end with the test."""
    office = OFFICES[request.param](redis_server, namespace, tmp_path)
    yield office
    office.close()


@pytest.fixture
def operator(office: Office) -> Operator:
    """The command line, for the person on call."""
    return Operator(office)
