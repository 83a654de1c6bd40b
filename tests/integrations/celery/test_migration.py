"""``fairqueue migrate celery``: from kombu's own Redis transport into the core, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from click.testing import CliRunner
from kombu import Connection, Consumer, Queue

from fairqueue import ConfigurationError, FairQueue
from fairqueue.cli import main
from fairqueue.testing import EmbeddedServer, embedded_redis
from fairqueue_celery._kombu_lists import transfer
from fairqueue_celery._kombu_lists.adopt import Adoption
from fairqueue_celery._kombu_lists.lists import KombuLists, Layout
from fairqueue_celery._kombu_lists.transfer import Transfer

SOURCES = ["--workspace-from", "kwarg:tenant_id"]


@pytest.fixture
def server(server: EmbeddedServer) -> EmbeddedServer:
    """The module's: stock kombu's keys have no namespace, so each test finds it empty."""
    with server.client() as client:
        client.flushall()
    return server


@pytest.fixture
def client(server: EmbeddedServer) -> Iterator[redis.Redis]:
    with server.client() as client:
        yield client


def kombu_url(server: EmbeddedServer) -> str:
    return server.url.replace("unix://", "redis+socket://")


@pytest.fixture
def old(server: EmbeddedServer) -> Iterator[Celery]:
    """A producer on the old broker."""
    app = Celery("old", broker=kombu_url(server), set_as_current=False)
    yield app
    app.close()


def migrate(*arguments: str, code: int = 0) -> dict[str, Any]:
    """Run the command; return its JSON."""
    result = CliRunner().invoke(main, ["migrate", "celery", "--json", *arguments])
    assert result.exit_code == code, (result.output, result.exception)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def send(app: Celery, count: int, tenant: str = "acme", **options: Any) -> list[str]:
    return [
        app.send_task("shop.work", (n,), {"tenant_id": tenant}, **options).id for n in range(count)
    ]


def claimed(core: FairQueue, queue: str = "celery") -> list[str]:
    """The ids of all tasks that can be claimed, in order."""
    leases = core.claim([queue], 100).leases
    return [json.loads(lease.job.payload)["headers"]["id"] for lease in leases]


def hold_all(server: EmbeddedServer) -> None:
    """Take all messages without acking, like a worker that is then killed."""
    with Connection(kombu_url(server)) as connection:
        channel = connection.channel()
        Consumer(channel, [Queue("celery")], callbacks=[lambda *_: None]).consume()
        with suppress(TimeoutError):
            while True:
                connection.drain_events(timeout=0.2)
        channel.do_restore = False  # it was killed: nothing is given back


def test_waiting_messages_are_imported(server: EmbeddedServer, old: Celery) -> None:
    """Each becomes a job of its workspace, ordered by priority and then by age."""
    late = send(old, 2, priority=9)
    first = send(old, 2)
    send(old, 1, "zeta", queue="other")

    found = migrate("--from", server.url, "--to", server.url, *SOURCES)

    assert found["queues"] == {"celery": 4, "other": 1}
    assert (found["moved"], found["unread"], found["complete"]) == (5, 0, True)
    with FairQueue(server.url) as core:
        rows = {row.workspace: row.waiting for row in core.views.stats().workspaces}
        assert rows == {"acme": 4, "zeta": 1}
        assert claimed(core) == [*first, *late]


def test_a_dry_run_counts_jobs_without_a_workspace(server: EmbeddedServer, old: Celery) -> None:
    """As the move itself would: those that wait and those that are held, in text and as JSON."""
    send(old, 2)
    hold_all(server)
    send(old, 1)
    send(old, 1, countdown=60)
    old.send_task("shop.work", ("by position",))
    arguments = ("--from", server.url, "--to", server.url, "--workspace-from", "kwarg:tenantid")

    found = migrate(*arguments, "--dry-run")
    moved = migrate(*arguments)

    assert (found["moved"], found["without_workspace"], found["scheduled"]) == (5, 5, 1)
    assert {**found, "dry_run": False} == moved
    with FairQueue(server.url) as core:
        assert core.views.stats().without_workspace["shop.work"].jobs == 5


def test_the_option_of_an_old_producer(server: EmbeddedServer, old: Celery) -> None:
    """``workspace=…`` of a call counts, although stock Celery does not know it."""
    send(old, 1, workspace="zeta")
    migrate("--from", server.url, "--to", server.url, *SOURCES)
    with FairQueue(server.url) as core:
        assert [row.workspace for row in core.views.stats().workspaces] == ["zeta"]


def test_messages_of_a_killed_worker_are_imported_at_once(
    server: EmbeddedServer, old: Celery, client: redis.Redis
) -> None:
    """Unacked and ETA jobs do not wait for the visibility timeout; ETAs are kept."""
    now_due = send(old, 2)
    send(old, 1, eta=datetime.now(timezone.utc) + timedelta(hours=2))
    hold_all(server)
    assert client.hlen("unacked") == 3

    found = migrate("--from", server.url, "--to", server.url, *SOURCES)

    assert (found["held"], found["scheduled"], found["moved"]) == (3, 1, 3)
    assert client.hlen("unacked") == client.zcard("unacked_index") == 0
    with FairQueue(server.url) as core:
        [row] = core.views.stats().workspaces
        assert (row.workspace, row.waiting, row.scheduled) == ("acme", 2, 1)
        assert sorted(claimed(core)) == sorted(now_due)
    again = migrate("--from", server.url, "--to", server.url, *SOURCES)
    assert again["moved"] == 0


def test_a_prefix_is_kept(server: EmbeddedServer) -> None:
    """With ``global_keyprefix`` the lists and the core's keys have the prefix."""
    options = {"global_keyprefix": "p_"}
    app = Celery("old", broker=kombu_url(server), set_as_current=False)
    app.conf.broker_transport_options = options
    send(app, 2, priority=3)
    app.close()

    found = migrate("--from", server.url, "--to", server.url, "--global-keyprefix", "p_", *SOURCES)

    assert found["queues"] == {"celery": 2}
    with FairQueue(server.url, namespace="p_fairqueue") as core:
        assert core.depth("celery") == 2


def test_a_body_that_is_not_json_goes_to_the_default_workspace(
    server: EmbeddedServer, old: Celery
) -> None:
    """It is not decoded, not lost, and counted as unread."""
    send(old, 1, serializer="pickle")
    found = migrate("--from", server.url, "--to", server.url, *SOURCES)

    assert (found["moved"], found["unread"]) == (1, 1)
    with FairQueue(server.url) as core:
        assert [row.workspace for row in core.views.stats().workspaces] == ["default"]


def test_protocol_1_is_read(server: EmbeddedServer) -> None:
    """There the task, its arguments and its ETA are in the body."""
    app = Celery("old", broker=kombu_url(server), set_as_current=False)
    app.conf.task_protocol = 1
    send(app, 1)
    send(app, 1, countdown=3600)
    app.close()

    found = migrate("--from", server.url, "--to", server.url, *SOURCES)

    assert (found["moved"], found["scheduled"], found["unread"]) == (2, 1, 0)
    with FairQueue(server.url) as core:
        [lease] = core.claim(["celery"]).leases
        assert (lease.job.workspace, lease.job.task) == ("acme", "shop.work")


def test_jobs_move_back(server: EmbeddedServer, old: Celery, client: redis.Redis) -> None:
    """Waiting and scheduled jobs are in kombu's lists again; running jobs are left and counted."""
    now_due, later = send(old, 4), send(old, 1, countdown=3600)
    less_urgent = send(old, 1, "zeta", priority=6)
    migrate("--from", server.url, "--to", server.url, *SOURCES)
    with FairQueue(server.url) as core:
        core.claim(["celery"], 1)
        found = migrate("--back", "--from", server.url, "--to", server.url, code=1)

        assert (found["moved"], found["scheduled"], found["running"]) == (5, 1, 1)
        assert core.depth("celery") == 0
    waiting = [json.loads(m)["headers"] for m in client.lrange("celery", 0, -1)[::-1]]
    assert [(h["id"], bool(h["eta"])) for h in waiting] == [
        *((one, False) for one in now_due[1:]),
        (later[0], True),
    ]
    [low] = client.lrange("celery\x06\x166", 0, -1)
    assert json.loads(low)["headers"]["id"] == less_urgent[0]


def test_between_two_servers(
    server: EmbeddedServer, redis_server: EmbeddedServer, namespace: str, old: Celery
) -> None:
    """There and back between two Redis servers, in order, with nothing left behind."""
    ids = send(old, 5)
    to = f"{redis_server.url}?namespace={namespace}&workspace_from=kwarg:tenant_id"
    assert migrate("--from", server.url, "--to", to)["moved"] == 5
    with FairQueue(redis_server.url, namespace=namespace) as core:
        assert core.depth("celery") == 5
        assert [row.workspace for row in core.views.stats().workspaces] == ["acme"]
        assert migrate("--back", "--from", to, "--to", server.url)["moved"] == 5
        assert core.depth("celery") == 0

    with server.client() as client:
        found = [json.loads(m)["headers"]["id"] for m in client.lrange("celery", 0, -1)[::-1]]
        assert found == ids
        assert not list(client.scan_iter("fairqueue.transfer*"))


class Interrupted(Exception):
    """Stops a transfer in the middle."""


def interrupted(call: Callable[..., Any], when: str, nth: int) -> Callable[..., Any]:
    """Make a call that is interrupted "before" or "after" it has done its work the nth time."""
    numbers = count(1)

    def stopped(*arguments: Any, **options: Any) -> Any:
        number = next(numbers)
        if number == nth and when == "before":
            raise Interrupted
        answer = call(*arguments, **options)
        if number == nth:
            raise Interrupted
        return answer

    return stopped


@pytest.mark.parametrize("script", ["_aside._take", "_push"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", [1, 3])
def test_an_interrupted_transfer_neither_loses_nor_doubles_messages(
    server: EmbeddedServer,
    redis_client: redis.Redis,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    script: str,
    when: str,
    nth: int,
) -> None:
    """Wherever it is interrupted, a repeat transfers the rest, each message once."""
    with server.client() as client:
        source = KombuLists(client, Layout())
        destination = KombuLists(redis_client, Layout(prefix=f"{namespace}."))
        messages = [b"%d" % n for n in range(5)]
        for message in messages:
            client.lpush("q", message)
        moving = Transfer(source, destination)
        *path, name = script.split(".")
        owner = getattr(moving, path[0]) if path else moving
        monkeypatch.setattr(owner, name, interrupted(getattr(owner, name), when, nth))
        with pytest.raises(Interrupted), moving:
            moving.run(["q"])
        with Transfer(source, destination) as repeat:
            repeat.finish_earlier()
            repeat.run(["q"])

        arrived = redis_client.lrange(f"{namespace}.q", 0, -1)
        assert arrived[::-1] == messages
        assert not client.exists("q", transfer.ASIDE)
        assert not redis_client.exists(f"{namespace}.{transfer.ARRIVED}")


def test_bad_usage(tmp_path: Path) -> None:
    """The stock broker must be named, and must not be fairqueue."""
    for arguments in (
        [],
        ["--from", "fairqueue://h"],
        ["--back"],
        ["--back", "--to", "fairqueue://h"],
    ):
        result = CliRunner().invoke(main, ["migrate", "celery", *arguments])
        assert result.exit_code == 2
        assert "name the stock broker" in result.output
    gone = f"unix://{tmp_path}/none.sock"
    result = CliRunner().invoke(main, ["migrate", "celery", "--from", gone, "--to", gone])
    assert result.exit_code == 3


def test_a_refusal_may_be_of_either_server() -> None:
    """Both are named, without a password: the error of Redis does not say which."""
    rules: dict[str, Any] = {
        "passwords": ["+hunter2"],
        "keys": ["*"],
        "commands": ["+@all", "-info"],
    }
    with embedded_redis() as server, server.client() as client:
        client.acl_setuser("mover", enabled=True, **rules)
        ours = server.url.replace("unix://", "unix://mover:hunter2@")
        result = CliRunner().invoke(main, ["migrate", "celery", "--from", server.url, "--to", ours])
    assert result.exit_code == 3
    for said in ("'info' command", server.url, ours.replace("hunter2", "**")):
        assert said in result.output


def poison(**changes: Any) -> bytes:
    """A message of a task with something wrong in it."""
    body = json.dumps([[1], {"tenant_id": "acme"}, {}])
    message = {
        "body": body,
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"task": "shop.work", "id": "1"},
        "properties": {"delivery_info": {}, "priority": 0},
    }
    for place, value in changes.items():
        message[place] = {**message[place], **value} if isinstance(value, dict) else value  # type: ignore[dict-item]
    return json.dumps(message).encode()


POISON = {
    "empty": b"",
    "no text": b"\xff\xfe",
    "null": b"null",
    "a list": b"[]",
    "too deep": b"[" * 100_000,
    "a pickle": b"\x80\x04cos\nsystem\n(S'false'\ntR.",
    "null properties": poison(properties=None),
    "null headers": poison(headers=None),
    "body too deep": poison(body="[" * 100_000),
    "body of a wrong shape": poison(body="5"),
    "a list as workspace name": poison(body='[[1], {"tenant_id": ["a"]}, {}]'),
    "a surrogate as workspace name": poison(body='[[1], {"tenant_id": "\\ud800"}, {}]'),
    "too long a workspace name": poison(body=json.dumps([[1], {"tenant_id": "x" * 300}, {}])),
    "a list as task": poison(headers={"task": ["a"]}),
    "too long a task": poison(headers={"task": "x" * 300}),
    "an object as workspace": poison(headers={"workspace": {}}),
    "a list as eta": poison(headers={"eta": [1]}),
    "far eta": poison(headers={"eta": "9999-12-31T23:59:59-23:59"}),
    "a number as content type": poison(**{"content-type": 5}),
}


@pytest.mark.parametrize("bad", POISON.values(), ids=POISON)
def test_a_malformed_message_does_not_block_the_list(
    server: EmbeddedServer, client: redis.Redis, bad: bytes
) -> None:
    """It is imported as it is, and so are the messages after it."""
    client.rpush("celery", poison(), bad)  # the right end is next
    with FairQueue(server.url, workspace_from="kwarg:tenant_id") as core:
        adopted = Adoption(core, KombuLists(client, Layout())).adopt("celery", most=10)
        assert (adopted, client.llen("celery")) == (2, 0)
        payloads = {lease.job.payload for lease in core.claim(["celery"], 10).leases}
        assert payloads <= {bad, poison()}
        assert core.depth("celery", running=True) == 2


PRIORITIES = [(True, 1), (3, 3), ("3", 3), (2.7, 2), (-4, 0), (10**30, 9), ([], 0), (None, 0),
              (float("nan"), 0), (float("inf"), 0), (1e308, 9), ("x", 0)]  # fmt: skip


def test_priorities_are_read_as_kombu_reads_them(
    server: EmbeddedServer, client: redis.Redis
) -> None:
    """Whatever a producer wrote, the job is in a lane from which it is claimed."""
    client.lpush("celery", *(poison(properties={"priority": given}) for given, _ in PRIORITIES))
    with FairQueue(server.url) as core:
        Adoption(core, KombuLists(client, Layout())).adopt("celery", most=100)
        claimed = [lease.job.priority for lease in core.claim(["celery"], 100).leases]
        assert core.doctor.audit() == []
    assert claimed == sorted(core_priority for _, core_priority in PRIORITIES)


@pytest.mark.parametrize("wrong", [{"priority": "1"}, {"priority": -1}, {"delay_seconds": "x"}])
def test_an_import_checks_its_numbers_as_a_publish_does(
    server: EmbeddedServer, client: redis.Redis, wrong: dict[str, Any]
) -> None:
    """Nothing is stored that no worker could claim; the message stays where it is."""
    client.lpush("celery", b"1")
    with FairQueue(server.url) as core:
        with pytest.raises(ConfigurationError):
            core.jobs.import_message("celery", b"1", queue="celery", **wrong)
        assert (client.llen("celery"), core.depth("celery")) == (1, 0)


HELD = [
    b"5",
    b"[1]",
    b"[" * 100_000,
    json.dumps([json.loads(poison()), 5, 6]).encode(),
    json.dumps([json.loads(poison(properties={"delivery_info": None})), "", "celery"]).encode(),
]


@pytest.mark.parametrize("bad", HELD)
def test_a_malformed_unacked_message_does_not_block_the_others(
    client: redis.Redis, bad: bytes
) -> None:
    """It stays unacked; the readable ones are put back."""
    lists = KombuLists(client, Layout())
    entries = [bad, json.dumps([json.loads(poison()), "", "celery"]).encode()]
    for tag, entry in enumerate(entries):
        client.hset("unacked", str(tag), entry)
        client.zadd("unacked_index", {str(tag): tag})
    for held in lists.overdue(100, 10):
        lists.restore(held)
    assert client.llen("celery") >= 1
    assert client.hget("unacked", "1") is None


def test_broker_urls_are_read_as_apps_write_them(server: EmbeddedServer, old: Celery) -> None:
    """Kombu's own scheme for sockets and its options in the query are accepted on either side."""
    send(old, 2)
    options = "visibility_timeout=7200&priority_steps=0"
    ours = server.url.replace("unix://", "fairqueue+socket://")
    found = migrate("--from", f"{kombu_url(server)}?{options}", "--to", f"{ours}?{options}")
    assert found["queues"] == {"celery": 2}
