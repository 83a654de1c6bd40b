"""A Redis server that cannot keep the promises is refused, and the error names the remedy."""

from __future__ import annotations

import contextlib
import gc
import re
import weakref
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import pytest
import redis

from fairqueue import Cancelled, ConfigurationError, FairQueue, Scope, Settings, StoreUnavailable
from fairqueue._stores.library import Library
from fairqueue._stores.memory.commands import NAMES
from fairqueue._stores.redis import dangers
from fairqueue._stores.redis.permissions import calls, missing_permissions
from fairqueue.adapters import Ending, Finish
from fairqueue.dashboard import Role, app
from fairqueue.metrics import collector
from fairqueue.rows import DeadFilter
from fairqueue.testing import EmbeddedServer, embedded_redis
from tests.dashboard.serving import Visitor, served
from tests.metrics.scraping import scrape
from tests.redis.tracing import WAYS
from tests.system.ledger import wait_for
from tests.unit.conftest import Shell

COMMANDS = {name.rstrip("_").upper() for name in NAMES}
"""Those of the scripts: see test_commands.py."""
SECRET = "hunter2-hunter2"


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """A server whose settings a test may change."""
    with embedded_redis(tcp=True) as server:
        yield server


def _everything_said(error: BaseException) -> str:
    before = error.__cause__ or error.__context__
    return f"{error!s} {error!r} {_everything_said(before) if before else ''}"


def test_a_database_that_the_server_does_not_have(own_server: EmbeddedServer) -> None:
    """It is a mistake in the URL."""
    with (
        FairQueue(f"{own_server.url}?db=99") as queue,
        pytest.raises(ConfigurationError, match="does not have the URL's database"),
    ):
        queue.publish(b"x", queue="q")


def test_too_old(
    redis_client: redis.Redis, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Redis before 6.2 is refused; the error names the required version."""
    client: Any = redis_client
    old = {**client.info(), "redis_version": "6.0.16"}
    monkeypatch.setattr(client, "info", lambda *_: old)
    with (
        FairQueue(client=client, namespace=namespace) as queue,
        pytest.raises(ConfigurationError, match=r"6\.0\.16, too old: fairqueue needs 6\.2"),
    ):
        queue.publish(b"x", queue="q")


@pytest.mark.parametrize("shards", [1, 2])
def test_evicting_under_running_workers(
    own_server: EmbeddedServer, caplog: pytest.LogCaptureFixture, shards: int
) -> None:
    """Workers go on and warn; operators see, brake and are told; what starts is refused."""
    dangers._throttle.cache_clear()
    shell = Shell(f"{own_server.url}?shards={shards}", "fairqueue")
    with FairQueue(own_server.url, shards=shards) as worker:
        for workspace in "abc":
            worker.publish(b"x", queue="q", workspace=workspace)
        assert worker.claim(["q"]).leases
        own_server.client().config_set("maxmemory-policy", "allkeys-lru")
        caplog.clear()
        for _ in range(3):
            worker.presence.restart()  # half a minute later
            assert worker.claim(["q"], 0).leases == ()
            worker.claim(["q"])
        worker.connect()  # as it does after an outage
        (warning,) = [one for one in caplog.records if one.name == "fairqueue.redis"]
        assert "'allkeys-lru' and would drop jobs when it is full" in warning.getMessage()

        assert shell.json("stats", "--all")["workspaces"]
        shell.run("limits", "set", "concurrency=2", "--workspace", "a")
        shell.run("pause", "--all")
        found = shell.json("doctor", code=1)["remarks"]
        (told,) = [one for one in found if one["about"] == "eviction"]
        assert (told["level"], "set maxmemory-policy to" in told["text"]) == ("problem", True)

        with FairQueue(own_server.url, shards=shards) as queue:
            samples = scrape(collector(queue))
            assert samples["fairqueue_redis_evicts_jobs",] == 1
            assert samples["fairqueue_redis_appendonly",] == 0
            assert samples["fairqueue_paused", "total"] == 1
            with pytest.raises(ConfigurationError, match="would drop jobs"):
                queue.publish(b"x", queue="q")
            with pytest.raises(ConfigurationError, match="would drop jobs"):
                queue.claim(["q"])
        url = f"{own_server.url}?shards={shards}"
        open_to_all = app(url, authorize=lambda _: Role.OPERATOR)
        with served(open_to_all) as site, Visitor(base_url=site) as visitor:
            assert visitor.get("/").status_code == HTTPStatus.OK


def _cannot_save(server: EmbeddedServer) -> None:
    (server.folder / "dump.rdb").mkdir()  # in place of the file
    client = server.client()
    client.config_set("save", "3600 1")
    client.bgsave()
    wait_for(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")


def _has_no_replica(server: EmbeddedServer) -> None:
    server.client().config_set("min-replicas-to-write", 1)


@pytest.mark.parametrize(
    ("break_it", "told"),
    [(_cannot_save, "cannot save to its disk"), (_has_no_replica, "min-replicas-to-write")],
)
def test_operators_of_a_server_that_refuses_writes_see_all_that_can_be_read(
    own_server: EmbeddedServer, break_it: Callable[[EmbeddedServer], None], told: str
) -> None:
    """The refusal is one of the findings, of ``status``, ``doctor`` and the metrics."""
    with FairQueue(own_server.url) as queue:
        queue.publish(b"x", queue="q", workspace="a", task="t")
        break_it(own_server)
        with pytest.raises(StoreUnavailable, match=told):
            queue.publish(b"x", queue="q", workspace="a", task="t")
        samples = scrape(collector(queue))
        assert samples["fairqueue_up",] == 1
        assert samples["fairqueue_status", "writes", "problem"] == 1
    shell = Shell(own_server.url, "fairqueue")
    for command in ("status", "doctor"):
        remarks = shell.json(command, code=1)["remarks"]
        (refusal,) = [one for one in remarks if one["about"] == "writes"]
        assert refusal["level"] == "problem"
        assert told in refusal["text"]
    assert shell.json("status", code=1)["waiting"] == 1


def test_an_operator_without_a_permission(own_server: EmbeddedServer) -> None:
    """What needs no more than it has works; doctor names what the ACL forbids."""
    with FairQueue(own_server.url) as queue:
        queue.publish(b"x", queue="q", workspace="a")
    shell = Shell(_user(own_server, "~*", "+@all", "-lpush"), "fairqueue")
    assert len(shell.json("stats")["workspaces"]) == 1
    shell.run("pause", "--workspace", "a")
    if _has_functions(own_server.client()):
        told = [one["text"] for one in shell.json("doctor", code=1)["remarks"]]
        assert any("run LPUSH on keys like" in text for text in told)


@pytest.mark.parametrize("policy", ["volatile-lru", "volatile-ttl", "volatile-random"])
def test_evicting_what_expires(
    own_server: EmbeddedServer, caplog: pytest.LogCaptureFixture, policy: str
) -> None:
    """No job has a time to live: such a server is used, full or not, with one warning."""
    dangers._throttle.cache_clear()
    client = own_server.client()
    client.config_set("maxmemory-policy", policy)
    with FairQueue(own_server.url) as queue, FairQueue(own_server.url) as another:
        another.connect()
        for _ in range(20):
            queue.publish(b"x" * 1000, queue="q")
        for lease in queue.claim(["q"], 3).leases:
            queue.ack(lease)
        client.set("a result", "x" * 1000, ex=1000)
        client.config_set("maxmemory", 1)
        with pytest.raises(StoreUnavailable, match="out of memory"):
            queue.publish(b"x", queue="q")
        assert not client.exists("a result")  # it was evicted before that
        leases = another.claim(["q"], 20).leases
        for lease in leases:
            another.ack(lease)
        assert len(leases) == 17
        assert {mark.about for mark in queue.doctor.checkup().remarks} >= {"eviction"}
    warned = [record for record in caplog.records if record.name == "fairqueue.redis"]
    assert len(warned) == 1
    assert policy in warned[0].getMessage()


@pytest.mark.parametrize("how", ["wrong password", "no password", "unknown user"])
def test_wrong_password(own_server: EmbeddedServer, how: str) -> None:
    """A refused login names what to check, and no error in the chain contains the password."""
    path = own_server.socket_path
    urls = {
        "wrong password": f"unix://:{SECRET}@{path}",
        "no password": f"unix://{path}",
        "unknown user": f"unix://stranger:{SECRET}@{path}",
    }
    with FairQueue(urls[how]) as queue, pytest.raises(ConfigurationError) as caught:
        queue.publish(b"x", queue="q")
    assert "check the URL's user and password" in str(caught.value)
    assert SECRET not in _everything_said(caught.value)


@pytest.mark.parametrize("shards", [1, 4])
def test_a_login_that_worked_before_is_refused_as_in_an_outage(
    own_server: EmbeddedServer, shards: int
) -> None:
    """As while a password changes: workers wait, and what follows from a job is sent again."""
    with (
        FairQueue(own_server.url, settings=Settings.load({"shards": shards})) as queue,
        own_server.client() as admin,
        contextlib.closing(queue.waiter(["q"])) as waiter,
    ):
        queue.publish(b"x", queue="q")
        other = queue.clone(timeout_seconds=1.0)
        before = admin.config_get("requirepass")["requirepass"]
        admin.config_set("requirepass", SECRET)
        admin.client_kill_filter(_type="normal", skipme=True)
        calls: list[Callable[[], object]] = [
            lambda: queue.publish(b"y", queue="q"),
            lambda: other.claim(["q"]),
            lambda: waiter.arm(0.1),
            queue.connect,
            lambda: FairQueue(own_server.url).connect(),
        ]
        *known, new = calls
        for call in known:
            with pytest.raises(StoreUnavailable, match="check the URL's user and password"):
                call()
        with pytest.raises(ConfigurationError, match="check the URL's user and password"):
            new()
        admin.config_set("requirepass", before)
        assert [lease.job.payload for lease in queue.claim(["q"], 2).leases] == [b"x"]


@pytest.mark.parametrize(
    "rules",
    [["+@all", "-@scripting"], ["+@all", "-zadd"], ["+@all", "-@write"]],
    ids=["no scripts", "one command missing", "no writes"],
)
def test_no_permission(own_server: EmbeddedServer, rules: list[str]) -> None:
    """A user with too few ACL permissions gets an error that lists what to allow."""
    admin = own_server.client()
    admin.execute_command("ACL", "SETUSER", "app", "on", f">{SECRET}", "~*", "&*", *rules)
    with (
        FairQueue(f"unix://app:{SECRET}@{own_server.socket_path}") as queue,
        pytest.raises(ConfigurationError, match="its ACL allows") as caught,
    ):
        queue.publish(b"x", queue="q", delay_seconds=1.0)
    assert SECRET not in _everything_said(caught.value)


def test_the_wait_for_replicas_is_not_permitted(own_server: EmbeddedServer) -> None:
    """Only where it is asked for."""
    admin = own_server.client()
    rules = ["on", f">{SECRET}", "~*", "&*", "+@all", "-wait"]
    admin.execute_command("ACL", "SETUSER", "app", *rules)
    url = f"unix://app:{SECRET}@{own_server.socket_path}"
    with FairQueue(url) as queue:
        assert queue.publish(b"x", queue="q")
    with (
        FairQueue(url, min_replicas=1) as queue,
        pytest.raises(ConfigurationError) as caught,
    ):
        queue.publish(b"x", queue="q")
    told = (
        r"does not let user 'app' run WAIT.*\+wait"
        if _has_functions(admin)
        else r"no permissions to run the 'wait' command.*its ACL allows"
    )
    assert re.search(told, str(caught.value))


def test_a_user_who_may_not_ask_keeps_nothing_of_the_caller(own_server: EmbeddedServer) -> None:
    """The errors of the answers do not hold the frames of the call that connects.

    Celery stops to wait for a result when a second object of it goes; too late is too late there.
    """
    url = _user(own_server, "~*", "+@all", "-acl", "+acl|whoami")

    class Held:
        """What a caller has at hand."""

    def connect() -> weakref.ref[Held]:
        held = Held()
        with FairQueue(url) as queue:
            queue.publish(b"x", queue="q")
        return weakref.ref(held)

    connect()  # loads the scripts
    gc.collect()
    gc.disable()
    try:
        assert connect()() is None
    finally:
        gc.enable()


def _user(server: EmbeddedServer, *rules: str) -> str:
    """The URL of a user with these rules."""
    admin = server.client()
    admin.execute_command("ACL", "SETUSER", "app", "reset", "on", f">{SECRET}", "&*", *rules)
    return f"unix://app:{SECRET}@{server.socket_path}"


def _has_functions(client: Any) -> bool:
    """Functions and ``ACL DRYRUN`` came with Redis 7.0."""
    return int(client.info("server")["redis_version"].split(".")[0]) >= 7


@pytest.fixture
def _can_be_asked(redis_client: redis.Redis) -> None:
    if not _has_functions(redis_client):
        pytest.skip("this server cannot be asked what an ACL allows")


@pytest.mark.usefixtures("_can_be_asked")
def test_every_missing_command_is_named_at_once(own_server: EmbeddedServer) -> None:
    """The check at the start names all of them, how to allow them, and changes nothing."""
    url = _user(own_server, "~*", "+@all", "-zadd", "-lpop", "-hsetnx")
    with FairQueue(url) as queue, pytest.raises(ConfigurationError) as caught:
        queue.connect()
    said = str(caught.value)
    assert "user 'app' run HSETNX, LPOP, ZADD on keys like '{fairqueue:0}:token:q'" in said
    assert "ACL SETUSER app +hsetnx +lpop +zadd" in said
    assert SECRET not in _everything_said(caught.value)
    assert own_server.client().dbsize() == 0
    with FairQueue(_user(own_server, "~*", "+@all")) as queue:
        assert queue.publish(b"x", queue="q")


@pytest.mark.usefixtures("_can_be_asked")
def test_other_keys_are_named(own_server: EmbeddedServer) -> None:
    """A user that may touch the keys of another namespace alone is refused."""
    url = _user(own_server, "~{other:0}:*", "+@all")
    with (
        FairQueue(url) as queue,
        pytest.raises(ConfigurationError, match=r"on keys like '\{fairqueue:0\}"),
    ):
        queue.connect()
    with FairQueue(url, namespace="other") as queue:
        queue.connect()


def test_a_user_who_may_not_ask_is_not_checked(own_server: EmbeddedServer) -> None:
    """With the commands that fairqueue needs and no others, everything works."""
    allowed = [f"+{name.lower()}" for name in {*COMMANDS, "BLPOP", "INFO"}]
    url = _user(own_server, "~{fairqueue:0}:*", *allowed, "+evalsha", "+eval", "+hello")
    with FairQueue(url) as queue:
        queue.connect()
        assert _lives(queue)


class Withholding(EmbeddedServer):
    """Hides some commands from everybody, as hosted servers do."""

    def _config(self, *, persistent: bool) -> str:
        hidden = ("CONFIG", "SCRIPT", "INFO", "DEBUG", "KEYS", "SLOWLOG")
        renamed = "".join(f'rename-command {name} ""\n' for name in hidden)
        return super()._config(persistent=persistent) + renamed

    def _answers(self) -> bool:
        with contextlib.suppress(redis.RedisError, OSError), self.client() as client:
            return bool(client.ping())
        return False


def test_a_server_that_hides_commands() -> None:
    """One without INFO, CONFIG and SCRIPT, a traced client or not, does all of a job's life."""
    server = Withholding(tcp=True)
    server.start()
    try:
        with FairQueue(server.url) as queue:
            assert _lives(queue)
            with pytest.MonkeyPatch.context() as patch:
                WAYS["function"](patch, [])
                queue.limits.set(Scope.workspace("a"), concurrency=3)
                assert _lives(queue)
            assert any("INFO is refused" in one.text for one in queue.doctor.checkup().remarks)
    finally:
        server.stop()


def _lives(queue: FairQueue) -> bool:
    """Whether a job can be published, claimed, renewed and acked."""
    queue.publish(b"x", queue="q", workspace="a")
    (lease,) = queue.claim(["q"]).leases
    assert not queue.renew([(lease.fence, 0.1)]).lost
    queue.ack(lease)
    return queue.depth("q", running=True) == 0


class Interrupted(Exception):
    """As a soft time limit, which a signal raises anywhere."""


@pytest.mark.usefixtures("_can_be_asked")
def test_an_interrupted_change_to_scripts_is_made_again(
    own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a user may not run functions any more, an interrupted call hinders none after it."""
    written, interrupted = Library.script, list[str]()

    def script(library: Library, operation: str) -> str:
        if operation == "publish" and not interrupted:
            interrupted.append(operation)
            raise Interrupted
        return written(library, operation)

    with FairQueue(_user(own_server, "~*", "+@all")) as queue:
        assert _lives(queue)
        _user(own_server, "~*", "+@all", "-fcall")
        monkeypatch.setattr(Library, "script", script)
        with pytest.raises(Interrupted):
            queue.publish(b"", queue="q", workspace="a")
        assert _lives(queue)


def test_a_user_who_may_not_end_a_wait(own_server: EmbeddedServer) -> None:
    """It waits all the same; a token that comes while it stops may be lost with it."""
    url = _user(own_server, "~*", "+@all", "-client")
    with FairQueue(url) as queue, contextlib.closing(queue.waiter(["q"])) as waiter:
        assert not waiter.wait(0.01)
        queue.publish(b"x", queue="q")
        assert waiter.wait(5.0)
        waiter.arm(60.0)


@pytest.mark.usefixtures("_can_be_asked")
def test_each_command_of_the_scripts_is_asked_for(redis_client: redis.Redis) -> None:
    """The list of what is asked is the list of what the scripts run, and has the right arity."""
    asked = {call[0] for call in calls("k")}
    brings = {"FCALL", "FUNCTION", "EVALSHA", "EVAL"}
    assert asked - {*brings, "BLPOP"} == COMMANDS
    assert missing_permissions(redis_client, "k") is None
    for call in calls("k"):
        reply = redis_client.execute_command("ACL", "DRYRUN", "default", *call)
        assert reply in {b"OK", "OK"}


def test_not_reachable(own_server: EmbeddedServer) -> None:
    """If no server listens, the error says to start it and does not contain the password."""
    port = own_server.port
    own_server.stop()
    with (
        FairQueue(f"redis://:{SECRET}@127.0.0.1:{port}/0") as queue,
        pytest.raises(StoreUnavailable, match="is it running") as caught,
    ):
        queue.publish(b"x", queue="q")
    assert SECRET not in _everything_said(caught.value)


def test_out_of_memory(own_server: EmbeddedServer) -> None:
    """A full Redis refuses publishes entirely; claims, renewals and acks still work."""
    client = own_server.client()
    with FairQueue(own_server.url) as queue:
        for i in range(40):
            queue.publish(b"x" * 1000, queue="q", workspace=f"w{i % 5}", task="t")
        client.config_set("maxmemory", 1)
        for workspace, task, delay in (("w0", "t", 0), ("new", "new", 0), ("w1", "t", 9)):
            with pytest.raises(StoreUnavailable, match=r"out of memory.*raise maxmemory"):
                queue.publish(b"y", queue="q", workspace=workspace, task=task, delay_seconds=delay)
        assert queue.depth("q") == 40
        assert {w.workspace for w in queue.views.stats().workspaces} == {f"w{i}" for i in range(5)}
        done = 0
        while leases := queue.claim(["q"], 3).leases:
            assert not queue.renew([(lease.fence, 0.1) for lease in leases]).lost
            for lease in leases:
                queue.ack(lease)
                done += 1
        assert done == 40
        client.config_set("maxmemory", 0)
        assert queue.publish(b"y", queue="q")


@pytest.mark.parametrize("claims", [True, False])
@pytest.mark.parametrize("first", ["acked early", "lost"])
def test_ends_that_free_nothing_while_out_of_memory(
    own_server: EmbeddedServer, first: str, *, claims: bool
) -> None:
    """A full Redis accepts an early ack, and the ack of a lost lease, as the first of a call."""
    client = own_server.client()
    with FairQueue(own_server.url) as queue:
        for _ in range(4):
            queue.publish(b"x" * 1000, queue="q")
        held, other = queue.claim(["q"], 2).leases
        client.config_set("maxmemory", 1)
        early = Finish(held.fence, Ending.ACK_EARLY)
        ends = [early if first == "acked early" else Finish(1), Finish(other.fence)]
        for end in ends:
            if claims:
                assert len(queue.claim(["q"], 1, finishes=[end]).leases) == 1
            else:
                queue.finish([end])
        assert len(queue.claim(["q"], 4).leases) == (0 if claims else 2)


def test_giving_back_while_out_of_memory(own_server: EmbeddedServer) -> None:
    """A full Redis still accepts releases and rejects, and still reaps expired leases."""
    client = own_server.client()
    with FairQueue(own_server.url) as queue:
        for _ in range(3):
            queue.publish(b"x" * 1000, queue="q")
        client.config_set("maxmemory", 1)
        first, second, third = queue.claim(["q"], 3).leases
        queue.release(first)
        queue.release(second, delay_seconds=60)
        queue.reject(third, reason="bad")
        queue.reap()
        (workspace,) = queue.views.stats().workspaces
        assert (workspace.waiting, workspace.scheduled, workspace.dead) == (1, 1, 1)


@pytest.mark.parametrize("most", [None, 3])
def test_a_worker_of_several_shards_at_a_full_redis(
    own_server: EmbeddedServer, most: int | None
) -> None:
    """It asks how they stand before its first claim, and is given permits of a new limit."""
    with FairQueue(own_server.url, shards=4) as queue:
        for n in range(20):
            queue.publish(b"x" * 1000, queue="q", workspace=f"w{n}")
        own_server.client().config_set("maxmemory", 1)
        if most:
            queue.limits.set(Scope.queue("q"), concurrency=most)
        assert len(queue.claim(["q"], 16).leases) == (most or 16)


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "another release"])
def test_brakes_work_at_a_full_redis(own_server: EmbeddedServer, *, is_known: bool) -> None:
    """A pause, a limit, a cancel and a purge act where memory must be freed, and so does a list.

    Also those of a release that this Redis does not know.
    """
    client = own_server.client()
    with FairQueue(own_server.url) as queue:
        for n in range(40):
            workspace, task = f"w{n % 4}", f"t{n % 2}"
            queue.publish(b"x" * 1000, queue="q", job_id=f"j{n}", workspace=workspace, task=task)
        dead, *leases = queue.claim(["q"], 8).leases
        queue.reject(dead, reason="bad")
        client.script_flush()
        if not is_known and _has_functions(client):
            client.function_flush()
        client.config_set("maxmemory", 1)
        admin = queue
        admin.pauses.pause(Scope.workspace("w0"))
        admin.pauses.pause(Scope.task("t1"))  # its leases are indexed first
        admin.pauses.drain(Scope.queue("q"))
        admin.pauses.pause(Scope.total())
        assert len(admin.pauses.list()) == 4
        admin.limits.set(Scope.workspace("w1"), concurrency=1)
        admin.limits.set(Scope.task("t0"), rate=1)
        admin.limits.set(Scope.queue("q"), concurrency=1)
        admin.limits.set(Scope.default(), concurrency=0)
        admin.limits.set(Scope.total(), concurrency=1)
        assert len(admin.limits.list()) == 5
        assert admin.jobs.cancel(leases[0].job.id) is Cancelled.SIGNALLED
        assert admin.jobs.cancel("j39") is Cancelled.REMOVED
        assert admin.jobs.cancel_matching(workspace="w2").removed > 0
        assert admin.jobs.withdraw("j37", queue="q") is not None
        assert admin.jobs.purge(task="t0") > 0
        assert admin.jobs.purge() > 0
        with pytest.raises(StoreUnavailable, match="out of memory"):
            admin.dead.replay(dead.job.workspace, dead.job.id)
        assert admin.dead.purge(DeadFilter(dead.job.workspace)) == 1
        assert queue.depth("q") == 0
        for scope in (Scope.workspace("w0"), Scope.task("t1"), Scope.queue("q"), Scope.total()):
            assert admin.pauses.resume(scope) is not None
        admin.limits.unset(Scope.workspace("w1"))
        admin.limits.unset(Scope.task("t0"))
        assert [row.running for row in admin.views.queues()] == [7]
        client.config_set("maxmemory", 0)
        if not is_known and _has_functions(client):  # its long text is not sent with each call
            assert client.info("commandstats")["cmdstat_function|load"]["failed_calls"] < 10
        assert {finding.invariant for finding in admin.doctor.audit()} == {
            "I2"
        }  # limits that drain


def test_a_full_redis_is_said_to_be_full(own_server: EmbeddedServer) -> None:
    """Also by a release that it does not know, to a user who may run functions only."""
    client = own_server.client()
    if not _has_functions(client):
        pytest.skip("a server without functions")
    url = _user(own_server, "~*", "+@all", "-eval", "-evalsha")
    client.config_set("maxmemory", 1)
    with FairQueue(url) as queue, pytest.raises(StoreUnavailable, match="out of memory"):
        queue.publish(b"x", queue="q")


def test_a_worker_with_other_limits_boots_at_a_full_redis(own_server: EmbeddedServer) -> None:
    """It stores them, is listed, declares its queues, and starts what waits."""
    client = own_server.client()
    with FairQueue(own_server.url, workspace_concurrency=2) as producer:
        for n in range(3):
            producer.publish(b"x", queue="q", task=f"t{n}")
    client.config_set("maxmemory", 1)
    tasks = {"t0": {"concurrency": 1}}
    with FairQueue(
        own_server.url, authoritative=True, workspace_concurrency=1, tasks=tasks
    ) as worker:
        worker.presence.describe("celery@new", software="celery/5")
        worker.declare("other")
        (lease,) = worker.claim(["q"]).leases
        worker.ack(lease)
        assert [row.worker for row in worker.views.workers()] == ["celery@new"]
        assert worker.limits.get(Scope.default())["concurrency"].value == 1
