"""The smallest ACL that the documentation names is enough: for the core, and for Celery."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import chord, group

from fairqueue import FairQueue, Scope
from fairqueue._stores.redis.permissions import calls
from fairqueue.testing import EmbeddedServer, embedded_redis
from tests.system.ledger import wait_for

PAGE = Path(__file__).parents[3] / "docs" / "operate" / "redis.md"
SECRET = "hunter2-hunter2"


def rules(user: str) -> list[str]:
    """The rules of a user on that page."""
    (text,) = re.findall(rf"```text\nACL SETUSER {user} on >SECRET ([^`]*)```", PAGE.read_text())
    return str(text).replace("\\\n", " ").split()


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with embedded_redis(tcp=True) as server:
        if server.version.startswith("Redis 6"):
            pytest.skip("this server knows no rules for subcommands, such as +function|load")
        yield server


def login(server: EmbeddedServer, user: str, given: list[str] | None = None) -> str:
    """Create the user; return its part of a URL."""
    admin = server.client()
    all_rules = rules(user) if given is None else given
    admin.execute_command("ACL", "SETUSER", user, "reset", "on", f">{SECRET}", *all_rules)
    return f"{user}:{SECRET}@127.0.0.1:{server.port}"


def refused(server: EmbeddedServer) -> set[str]:
    """What the server has refused."""
    told = {str(row["object"]) for row in server.client(decode_responses=True).acl_log()}
    return told - {"client|setinfo"}  # redis-py names itself if it may


SCRIPTS_INSTEAD = {"+fcall": "+evalsha", "+function|load": "+eval"}


@pytest.mark.parametrize("instead", [{}, SCRIPTS_INSTEAD], ids=["functions", "scripts"])
def test_the_core_needs_no_more_than_its_page_says(
    server: EmbeddedServer, instead: dict[str, str]
) -> None:
    """A job's life, the operator's calls and the doctor; the check at the start finds no gap."""
    given = [instead.get(rule, rule) for rule in rules("jobs")]
    with FairQueue(f"redis://{login(server, 'jobs', given)}/0") as queue:
        queue.connect()
        queue.publish(b"x", queue="q", workspace="a")
        queue.publish(b"x", queue="q", workspace="a", delay_seconds=60.0)
        queue.pauses.pause(Scope.queue("q"))
        queue.limits.set(Scope.workspace("a"), concurrency=2)
        assert queue.claim(["q"]).leases == ()
        with contextlib.closing(queue.waiter(["q"])) as waiter:
            assert not waiter.wait(0.01)
            waiter.arm(60.0)
        queue.pauses.resume(Scope.queue("q"))
        (lease,) = queue.claim(["q"]).leases
        queue.renew([(lease.fence, 0.1)])
        queue.ack(lease)
        assert queue.views.stats().workspaces
        assert queue.doctor.checkup().is_sound
        queue.jobs.purge()
    assert refused(server) == ({"fcall"} if instead else set())
    asked = {"|".join(call[:2]) if call[0] == "FUNCTION" else call[0] for call in calls("k")}
    needed = asked - {"EVAL", "EVALSHA"}
    assert {f"+{name.lower()}" for name in needed} <= set(rules("jobs"))


def test_celery_needs_no_more_than_its_page_says(server: EmbeddedServer, shop: Any) -> None:
    """Tasks, results, groups, chords, retries, countdowns, revokes, events and remote control."""
    shop.config = {"worker_send_task_events": True}
    publisher = shop.open(url=shop.at(f"fairqueue://{login(server, 'celery')}/0"), results=True)
    [worker] = shop.workers
    control = shop.control(publisher)

    assert publisher.send("work", 1, workspace="a").get(timeout=60) == 1
    assert publisher.send("work_late", 2, workspace="a", countdown=0.1).get(timeout=60) == 2
    flaky = publisher.send("flaky", 3, kwargs={"failures": 1}, workspace="a")
    assert flaky.get(timeout=60) == 3
    some = [publisher.signature("work", n, workspace="a") for n in (4, 5)]
    assert group(some).apply_async().get(timeout=60) == [4, 5]
    added = chord(some, publisher.signature("add_up", workspace="a")).apply_async()
    assert added.get(timeout=60) == 9
    late = publisher.send("work", 6, workspace="a", countdown=3600)
    late.revoke()
    wait_for(lambda: late.state == "REVOKED")
    assert control.inspect(timeout=10, limit=1).stats()
    added.forget()
    assert worker.stop() == 0
    assert refused(server) == set()
