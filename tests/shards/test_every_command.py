"""Every command of the program, given one Redis, Sentinels, or a Cluster."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import NamedTuple

import click
import pytest
from starlette.types import ASGIApp

from fairqueue import FairQueue, NewJob
from fairqueue.cli import main
from tests.dashboard.serving import served
from tests.nodes import cluster, watched
from tests.unit.conftest import Shell

pytestmark = pytest.mark.system

NAMES = ["w0", "w1", "w2", "w3"]
"""Workspaces, which live on several shards of a Cluster."""


class Harmless(NamedTuple):
    """How a command is called, and what its output has."""

    args: str
    says: str = ""


COMMANDS = {
    "acts": Harmless(""),
    "cancel": Harmless("w1-3"),
    "dead count": Harmless("", "broken"),
    "dead list": Harmless("", "w2-0"),
    "dead purge": Harmless("--all --yes"),
    "dead replay": Harmless("--all --yes"),
    "dead show": Harmless("w3-0", "broken"),
    "doctor": Harmless("--repair"),
    "drain": Harmless("--workspace w1 --no-wait"),
    "history": Harmless(""),
    "jobs": Harmless("", "w1-3"),
    "limits get": Harmless("--workspace w1", "concurrency"),
    "limits set": Harmless("--total concurrency=99 requests=9"),
    "limits unset": Harmless("--total"),
    "migrate celery": Harmless("--from {stock} --dry-run"),
    "pause": Harmless("--queue q"),
    "pauses": Harmless(""),
    "ps": Harmless("", "w1-1"),
    "purge": Harmless("--workspace w1 --yes"),
    "queues": Harmless("", "q"),
    "reshard": Harmless("--to 5 --dry-run"),
    "resume": Harmless("--queue q"),
    "schedules": Harmless("", "w3"),
    "stats": Harmless("", "w3"),
    "status": Harmless(""),
    "tasks": Harmless("", "send"),
    "why": Harmless("w1-3", "waiting"),
    "workers": Harmless(""),
    "workspace": Harmless("w2", "w2"),
}
SERVING = {
    "dashboard": Harmless("--port 0", "w3"),
    "metrics": Harmless("--bind 127.0.0.1:0", 'fairqueue_jobs_queued{queue="q"} 4.0'),
}
OF_A_TERMINAL = {"top": Harmless("", "w3")}
WITHOUT_A_STORE = {"buffer", "demo"}
"""They need no URL: a directory of a producer's, and a server of its own."""


def named(command: click.Command, *path: str) -> Iterator[str]:
    """Name a command, or those of a group."""
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    for name, each in command.commands.items():
        yield from named(each, *path, name)


@pytest.fixture(scope="module", params=["one Redis", "Sentinels", "Cluster"])
def kind(request: pytest.FixtureRequest) -> str:
    """What the URL names."""
    return str(request.param)


@pytest.fixture(scope="module")
def url(kind: str, redis_url: str) -> Iterator[str]:
    """One store of this kind for all commands, each in a namespace of its own."""
    with ExitStack() as stack:
        if kind == "Sentinels":
            yield stack.enter_context(watched()).url
        elif kind == "Cluster":
            yield f"{stack.enter_context(cluster()).url}?shards=4"
        else:
            yield redis_url


@pytest.fixture
def shell(url: str, namespace: str) -> Iterator[Shell]:
    """Each workspace has a job that waits, two that run, and a dead one."""
    with FairQueue(url, namespace=namespace, workspace_concurrency=2) as queue:
        for n in range(4):
            for name in NAMES:
                queue.publish(b"", queue="q", workspace=name, task="send", job_id=f"{name}-{n}")
        queue.schedules.put("n", NewJob(b"", queue="q"), workspace="w3", every=3600)
        for lease in queue.claim(["q"], 8).leases:
            if lease.job.id.endswith("-0"):
                queue.reject(lease, reason="broken")
        queue.claim(["q"], 4)
        yield Shell(url, namespace)


def test_no_command_is_left_out() -> None:
    """A new one is to be added above, with arguments that harm nothing."""
    assert {*COMMANDS, *SERVING, *OF_A_TERMINAL, *WITHOUT_A_STORE} == set(named(main))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_works(shell: Shell, command: str, redis_url: str) -> None:
    """The store is sound behind it."""
    args, says = COMMANDS[command]
    words = [*command.split(), *args.format(stock=redis_url).split()]
    assert says in shell.run(*words).output
    assert shell.json("doctor")["findings"] == []


@pytest.mark.parametrize("command", SERVING)
def test_a_command_serves(shell: Shell, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At an address that it prints, until it is stopped."""
    args, says = SERVING[command]
    found: list[str] = []

    def fetch(address: str) -> None:
        with urllib.request.urlopen(address, timeout=30) as answer:
            found.append(answer.read().decode())

    def visit(app: ASGIApp, _: socket.socket) -> None:
        with served(app) as address:
            fetch(address)

    monkeypatch.setattr("fairqueue.metrics._serve.Server.wait", lambda server: fetch(server.url))
    module = sys.modules["fairqueue.cli.dashboard"]  # its name is that of the command
    monkeypatch.setattr(module, "_serve", visit)
    assert "http://127.0.0.1:" in shell.run(*command.split(), *args.split()).output
    assert says in found[0]


@pytest.mark.parametrize("command", OF_A_TERMINAL)
def test_a_command_shows(shell: Shell, command: str) -> None:
    """In a real terminal, until q is pressed."""
    ours, theirs = pty.openpty()
    where = {"FAIRQUEUE_URL": shell.url, "FAIRQUEUE_NAMESPACE": shell.namespace}
    process = subprocess.Popen(
        [sys.executable, "-m", "fairqueue.cli", command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **where, "TERM": "xterm", "COLUMNS": "120", "LINES": "30"},
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # it has ended
        while OF_A_TERMINAL[command].says.encode() not in shown:
            shown += os.read(ours, 4096)
        os.write(ours, b"q")
    assert process.wait(timeout=60) == 0, shown.decode()
    os.close(ours)
