"""A web app goes on through an outage of Redis: no request fails, and each job is there."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fairqueue import FairQueue
from fairqueue.testing import EmbeddedServer
from tests.system.ledger import wait_for

APPS = Path(__file__).parent / "apps"
QUEUES = {"celery": "celery", "dramatiq": "default"}
EVERY_SECONDS = 0.04  # of each of two processes: 50 requests a second
OPENS_WITHIN_SECONDS = 3.0
"""How long a request may take that meets the beginning of an outage."""


class Answer(NamedTuple):
    """What a request was answered, and when."""

    text: str
    status: int
    began: float
    seconds: float


@dataclass
class Client:
    """Sends requests to one server of the app, one after the other."""

    app: str
    answers: list[Answer] = field(default_factory=list)

    def start(self) -> None:
        """Start gunicorn, whose worker is a fork of the process that has imported the app."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self._port, fd = listening.getsockname()[1], listening.fileno()
            command = [sys.executable, "-W", "ignore", "-m", "gunicorn", "--preload", "--chdir"]
            command += [str(APPS), "--log-level", "warning", "--bind", f"fd://{fd}", self.app]
            self._process = subprocess.Popen(command, pass_fds=[fd], start_new_session=True)
        self._get("up")
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._load)
        self._thread.start()

    def kill(self) -> None:
        """Send no more, and end the process as a crash does."""
        self._stopped.set()
        self._thread.join()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _load(self) -> None:
        while not self._stopped.wait(EVERY_SECONDS):
            self.answers.append(self._get(str(len(self.answers))))

    def _get(self, path: str) -> Answer:
        began = time.monotonic()
        connection = HTTPConnection("127.0.0.1", self._port, timeout=30)
        connection.request("GET", f"/{path}")
        answer = connection.getresponse()
        text = f"{answer.read().decode()} {path}"
        connection.close()
        return Answer(text, answer.status, began, time.monotonic() - began)


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tcp=True, persistent=True) as server:
        yield server


@pytest.fixture
def ending() -> Iterator[ExitStack]:
    """Ends the processes of the app, whose clients wait for no garbage collection of this one."""
    with ExitStack() as stack:
        gc.collect()
        gc.disable()
        stack.callback(gc.enable)
        yield stack


def texts(queue: FairQueue, name: str) -> list[str]:
    """The argument of each job, in the order in which one worker gets them."""
    found = []
    while leases := queue.claim([name], 1000).leases:
        for lease in leases:
            message: Any = json.loads(lease.job.payload)
            args = message.get("args") or json.loads(message["body"])[0]
            found.append(args[0])
    return found


def begin(server: EmbeddedServer, fault: str) -> None:
    """Let Redis be away."""
    if fault == "full":
        with server.client() as client:
            client.config_set("maxmemory", "1mb")
    elif fault == "killed":
        server.kill()
    else:
        server.freeze()


def end(server: EmbeddedServer, fault: str) -> None:
    """Let it take jobs again."""
    if fault == "full":
        with server.client() as client:
            client.config_set("maxmemory", 0)
    elif fault == "killed":
        server.start()
    else:
        server.thaw()


def play(
    server: EmbeddedServer,
    folder: Path,
    framework: str,
    fault: str,
    ending: ExitStack,
    *,
    seconds: float,
) -> tuple[list[Answer], list[str]]:
    """Let Redis be away for some seconds, and an app's process be killed and started meanwhile.

    Returns the answers of that time, and the jobs that are there afterwards.
    """
    url = f"{server.tcp_address}/0"
    clients = [Client(f"outage:make({framework!r}, {url!r}, {str(folder)!r})") for _ in range(2)]
    for client in clients:
        client.start()
        ending.callback(client.kill)
    wait_for(lambda: all(429 in {each.status for each in client.answers} for client in clients))
    begin(server, fault)
    began = time.monotonic()
    time.sleep(seconds / 2)
    clients[0].kill()
    clients[0].start()
    before = len(clients[0].answers)
    time.sleep(seconds / 2)
    wait_for(lambda: len(clients[0].answers) > before)  # however long it takes to start
    ended = time.monotonic()
    end(server, fault)
    wait_for(lambda: not [*folder.glob("*.spool")])
    ending.close()
    with FairQueue(f"redis://{url}") as queue:
        found = texts(queue, QUEUES[framework])
    answers = [each for client in clients for each in client.answers]
    accepted = {each.text for each in answers if each.status == 200}
    assert not accepted - set(found)
    return [each for each in answers if began + 0.1 < each.began < ended - 0.1], found


def check(answers: list[Answer], found: list[str], *, within: float) -> None:
    """No request failed or hung, and the jobs of each process run in the order of their calls."""
    assert {each.status for each in answers} == {200}
    assert max(each.seconds for each in answers) < OPENS_WITHIN_SECONDS
    during, of_process = set[str](), defaultdict[str, list[Answer]](list)
    for each in answers:
        during.add(each.text)
        of_process[each.text.split()[0]].append(each)
    assert len(of_process) == 3
    for pid, some in of_process.items():
        known = some[0].began + OPENS_WITHIN_SECONDS
        assert max((each.seconds for each in some if each.began > known), default=0) < within
        there = dict.fromkeys(text for text in found if text in during and text.startswith(pid))
        assert [*there] == [each.text for each in some]


@pytest.mark.parametrize(("framework", "fault"), [("celery", "killed"), ("dramatiq", "silent")])
def test_a_web_app_goes_on_while_redis_is_away(
    server: EmbeddedServer, tmp_path: Path, framework: str, fault: str, ending: ExitStack
) -> None:
    """Its capacity is full before and at the return, and what was accepted is there all the same.

    One of its processes is killed meanwhile, and another sends what that one has kept.
    """
    check(*play(server, tmp_path, framework, fault, ending, seconds=5.0), within=1.0)


@pytest.mark.long
@pytest.mark.parametrize("fault", ["killed", "silent", "full"])
@pytest.mark.parametrize("framework", ["celery", "dramatiq"])
def test_a_web_app_goes_on_for_half_a_minute(
    server: EmbeddedServer, tmp_path: Path, framework: str, fault: str, ending: ExitStack
) -> None:
    """Once it is known that Redis is away, each request takes less than 50 ms.

    On a machine that has nothing else to do.
    """
    check(*play(server, tmp_path, framework, fault, ending, seconds=30.0), within=0.05)
