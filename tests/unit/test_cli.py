"""The command line: tables, JSON, exit codes, and nothing that steers a terminal."""

from __future__ import annotations

import shlex

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from fairqueue import CapacityExceeded, FairQueue
from fairqueue.cli import main
from fairqueue.cli._board import Board
from fairqueue.cli._command import table
from fairqueue.cli._connect import core_url
from fairqueue.plain import counted, duration
from fairqueue.testing import EmbeddedServer
from tests.unit.conftest import Shell


def stats(*arguments: str) -> Result:
    """Run ``fairqueue stats``."""
    return CliRunner().invoke(main, ["stats", *arguments])


@pytest.fixture
def queue(redis_url: str, namespace: str) -> FairQueue:
    """Three jobs of acme, one of them running, one scheduled; a limit of 2."""
    queue = FairQueue(redis_url, namespace=namespace, workspace_concurrency=2)
    for delay in (0, 0, 60):
        queue.publish(b"x", queue="celery", workspace="acme", task="t", delay_seconds=delay)
    queue.claim(["celery"], 1)
    return queue


def test_stats_as_a_table(queue: FairQueue, redis_url: str, namespace: str) -> None:
    """The same counts for people, with a last line for the total."""
    result = stats("--url", redis_url, "--namespace", namespace)
    _, head, _, acme, total = result.stdout.splitlines()
    assert head.split()[:4] == ["workspace", "waiting", "scheduled", "running"]
    assert acme.split()[:5] == ["acme", "1", "1", "1", "2"]
    assert total.split()[:4] == ["(all)", "1", "1", "1"]
    queue.close()


def test_a_terminal_without_unicode_gets_what_it_can_show(
    queue: FairQueue, redis_url: str, namespace: str
) -> None:
    """Such as of a locale with Latin 1, which has no lines for a table."""
    where = ["--url", redis_url, "--namespace", namespace]
    result = CliRunner(charset="latin-1").invoke(main, ["stats", *where])
    assert result.exit_code == 0, result.exception
    assert "?????" in result.stdout
    queue.close()


def test_stats_store_nothing(redis_server: EmbeddedServer, redis_url: str, namespace: str) -> None:
    """Reading the stats stores no limits: the first app that connects is still the first."""
    stats("--url", redis_url, "--namespace", namespace)
    with redis_server.client() as client:
        assert list(client.scan_iter(f"*{namespace}*")) == []


def test_no_connection_is_exit_code_3_and_hides_the_password() -> None:
    """If no server listens, the message names the URL without the password."""
    result = stats("--url", "redis://:hunter2@127.0.0.1:1/0")
    assert result.exit_code == 3, result.output
    assert "redis://:**@127.0.0.1:1/0" in result.output
    assert "hunter2" not in result.output


def test_a_user_that_redis_refuses_is_exit_code_3(redis_url: str) -> None:
    """As a server that cannot be reached: the command itself was right."""
    result = stats("--url", redis_url.replace("://", "://eve:wrong@", 1))
    assert result.exit_code == 3, result.output
    assert "Redis refuses this user" in result.output


@pytest.mark.parametrize(
    "command",
    [
        "stats --url ftp://h",
        "stats --namespace a{b",
        "stats --nope",
        "stats --top 0",
        "stats --all --top 3",
        "stats --workspace ''",
        "stats --watch=often",
        "ps --longer-than soon",
        "ps --longer-than -1",
        "ps --limit 0",
        "dead list --limit 99999999999999999999",
        "history --limit 99999999999999999999",
        "stats --watch=99999999999d",
        "stats --watch=0",
        "top --every nan",
        "drain --all --timeout nan",
        "reshard --to 2 --wait inf",
        "dead replay --all --yes --rate nan",
        "ps --workspace ''",
        "jobs --cursor nonsense",
        "cancel",
        "cancel --workspace w --queue q",
        "limits get --workspace ''",
        "limits get --workspace a --total",
        "limits unset",
        "limits unset --configured --total",
        "limits set concurrency=2",
        "limits set --workspace a",
        "limits set concurrency --workspace a",
        "limits set concurrency=x --workspace a",
        "limits set speed=2 --workspace a",
        "limits set rate=2 --queue q",
    ],
)
def test_bad_usage_is_exit_code_2(shell: Shell, command: str) -> None:
    """Unknown or contradictory options, no scope or two, and impossible values, in a sentence."""
    assert "Error" in shell.run(*shlex.split(command), code=2).output


@pytest.mark.parametrize(
    ("url", "core"),
    [
        ("fairqueue://:p@h:1/2", "redis://:p@h:1/2"),
        ("fairqueues://h", "rediss://h"),
        ("fairqueue+socket:///run/r.sock", "unix:///run/r.sock"),
        ("redis://h", "redis://h"),
        (
            "fairqueue://h?visibility_timeout=30&workspace_from=arg:0",
            "redis://h?workspace_from=arg:0",
        ),
        ("fairqueue+socket:///r?virtual_host=2", "unix:///r?db=2"),
        ("fairqueue://h?global_keyprefix=a_", "redis://h?namespace=a_fairqueue"),
        ("fairqueue://h?priority_steps=0&socket_timeout=5", "redis://h?socket_timeout=5"),
        ("fairqueue://u:a?b@h/0", "redis://u:a?b@h/0"),
    ],
)
def test_a_broker_url_works(url: str, core: str) -> None:
    """The app's broker_url can be pasted as it is."""
    assert core_url(url) == core


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "–"),
        (0, "0.0 s"),
        (0.024, "24 ms"),
        (9.96, "10 s"),
        (65, "1 m 05 s"),
        (7380, "2 h 03 m"),
    ],
)
def test_durations_are_short(seconds: float | None, shown: str) -> None:
    """Two units at most."""
    assert duration(seconds) == shown


def test_wide_names_keep_the_columns() -> None:
    """Columns line up where a character takes two cells; only numbers stand to the right."""
    rows = [["日本", "1", "x y"], ["abcd", "22", "z"]]
    first, _, second, third = table(["name", "n", "text"], rows, right=("n",)).splitlines()
    assert (first, second, third) == (
        "name   n  text",
        "日本   1  x y",
        "abcd  22  z",
    )


def test_one_is_singular() -> None:
    """In the command line, the dashboard, logs and errors alike."""
    assert [counted(n, "process") for n in (0, 1, 2000)] == [
        "0 processes",
        "1 process",
        "2,000 processes",
    ]
    assert "is full: 1 job waiting" in str(CapacityExceeded("total", 1, 1, 1.0, "a", "q"))
    with FairQueue("memory://") as queue:
        queue.publish(b"", queue="q", workspace="a")
        board = Board(queue, "here")
        board.look()
        console = Console(width=110, height=24)
        with console.capture() as shown:
            console.print(board.shown(24))
    assert "1 queued   1 workspace   by" in shown.get()
