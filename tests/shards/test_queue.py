"""A queue of three shards: publish, claim, finish, renew, wait; one shard is away for a while."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from fairqueue import (
    CapacityExceeded,
    ConfigurationError,
    FairQueue,
    LeaseLost,
    NewJob,
    Scope,
    StoreUnavailable,
)
from fairqueue._shards import order
from fairqueue._shards.placement import shard_of, shard_of_fence
from fairqueue._stores.sharded import ShardedStore
from fairqueue.adapters import Ending, Finish, LeaseKeeper, Renewed
from fairqueue.errors import PublishInterrupted
from tests.shards.conftest import SHARDS, living_on, put_away

WORKSPACES = [f"w{n}" for n in range(9)]
HOMES = {name: shard_of(name, SHARDS) for name in WORKSPACES}


@pytest.fixture(params=["memory", "redis"])
def queue(request: pytest.FixtureRequest, namespace: str) -> Iterator[FairQueue]:
    """A queue whose shards are on one server."""
    url = f"memory://{namespace}"
    if request.param == "redis":
        url = request.getfixturevalue("redis_url")
    with FairQueue(url, namespace=namespace, shards=SHARDS, workspace_concurrency=2) as queue:
        yield queue


def of_shard(number: int) -> str:
    """A workspace that lives there."""
    return next(living_on(number))


def fill(queue: FairQueue, jobs: int = 2) -> None:
    for name in WORKSPACES:
        for n in range(jobs):
            queue.publish(b"%d" % n, queue="q", workspace=name, job_id=f"{name}-{n}")


class Away:
    """Takes a shard away: its calls raise, as if its server did not answer."""

    def __init__(self, queue: FairQueue) -> None:
        self._queue = queue

    def __call__(self, *numbers: int) -> None:
        for number in numbers:
            put_away(self._queue.store.shards[number])

    def back(self) -> None:
        """It answers again, and is not passed any more."""
        for shard in self._queue.store.shards:
            put_away(shard, is_away=False)
            shard.engine.breaker.answered()


@pytest.fixture
def away(queue: FairQueue, servers_apart: None) -> Away:
    return Away(queue)


def test_every_job_runs_once_within_its_limit(queue: FairQueue) -> None:
    """Each workspace's limit is exact, since all of it is on one shard."""
    fill(queue, 4)
    ran = []
    while leases := queue.claim(["q"], 100).leases:
        running = [lease.job.workspace for lease in leases]
        assert {name: running.count(name) for name in WORKSPACES} == dict.fromkeys(WORKSPACES, 2)
        assert [shard_of_fence(lease.fence) for lease in leases] == [HOMES[w] for w in running]
        ran += [lease.job.id for lease in leases]
        for lease in leases:
            queue.ack(lease)
    assert sorted(ran) == sorted(f"{name}-{n}" for name in WORKSPACES for n in range(4))
    assert [row.owner for row in queue.views.workers()] == [queue._claimer.owner]
    assert queue.depth("q", running=True) == 0


def test_finishes_go_to_the_shards_of_their_leases(queue: FairQueue) -> None:
    """In the call of a claim, and by themselves; what no shard knows is lost."""
    fill(queue, 1)
    leases = queue.claim(["q"], 100).leases
    first, rest = leases[:5], leases[5:]
    claimed = queue.claim(["q"], 0, finishes=[*(Finish(each.fence) for each in first), Finish(63)])
    assert claimed.lost == {63}
    assert queue.finish([Finish(each.fence) for each in [*first[:1], *rest]]) == {first[0].fence}
    assert queue.depth("q", running=True) == 0


def test_leases_are_renewed_released_and_rejected(queue: FairQueue) -> None:
    """Each on its shard."""
    fill(queue, 1)
    leases = {lease.job.workspace: lease for lease in queue.claim(["q"], 100).leases}
    progress = [(lease.fence, 1.0) for lease in leases.values()]
    assert queue.renew([*progress, (63, 1.0)]).lost == {63}
    queue.release(leases["w0"])
    queue.reject(leases["w1"], reason="broken")
    with pytest.raises(LeaseLost):
        queue.release(leases["w0"])
    assert queue.depth("q", running=True) == len(WORKSPACES) - 1
    assert [letter.reason for letter in queue.dead.page("w1")] == ["broken"]


def test_many_are_published_with_an_outcome_for_each(queue: FairQueue) -> None:
    """In their order, wherever each lives."""
    queue.limits.set(Scope.workspace("w3"), capacity=1)
    jobs = [NewJob(b"x", "q", name, job_id=f"{name}-{n}") for n in (0, 1) for name in WORKSPACES]
    outcomes = queue.publish_many(jobs)
    refused = [type(each) is CapacityExceeded for each in outcomes]
    assert refused == [job.job_id == "w3-1" for job in jobs]
    assert queue.depth("q") == len(jobs) - 1


def test_a_child_is_published_on_another_shard_only_by_a_lease(queue: FairQueue) -> None:
    """A parent that has lost its lease publishes nothing anywhere."""
    parent, child = of_shard(0), of_shard(1)
    queue.publish(b"x", queue="q", workspace=parent)
    [lease] = queue.claim(["q"]).leases
    queue.publish(b"y", queue="other", workspace=child, parent_fence=lease.fence)
    queue.ack(lease)
    with pytest.raises(LeaseLost):
        queue.publish(b"z", queue="other", workspace=child, parent_fence=lease.fence)
    [outcome] = queue.publish_many([NewJob(b"z", "q", child, parent_fence=lease.fence)])
    assert isinstance(outcome, LeaseLost)
    assert queue.depth("other") == 1


def test_a_waiter_can_be_watched_and_used_again(queue: FairQueue) -> None:
    """By one descriptor; a wait that ends on one shard has ended on all."""
    queue.connect()
    waiter = queue.waiter(["q"])
    for number in (0, 2, 1, 1):
        waiter.arm(20.0)
        queue.publish(b"x", queue="q", workspace=of_shard(number))
        assert waiter.wait(20.0)
        [lease] = queue.claim(["q"]).leases
        queue.ack(lease)
    waiter.close()
    for shard in queue.store.shards:  # no token was left or lost
        assert not shard.engine.command("EXISTS", shard.engine.keys.key("token", "q"))


def test_a_shard_that_is_away_holds_up_no_other(
    queue: FairQueue, away: Away, caplog: pytest.LogCaptureFixture
) -> None:
    """Jobs of the others run; of this one, when it is back."""
    fill(queue)
    away(1)
    with caplog.at_level(logging.WARNING, "fairqueue.claimer"):
        leases = queue.claim(["q"], 100).leases
    assert {shard_of_fence(lease.fence) for lease in leases} == {0, 2}
    assert "shard 1 of 3 does not answer" in caplog.text
    assert queue.claim(["q"], 100, wait_seconds=0.05).leases == ()
    away.back()
    more = queue.claim(["q"], 100).leases
    assert {shard_of_fence(lease.fence) for lease in more} == {1}


def test_the_keeper_says_why_leases_of_a_shard_were_not_renewed(
    queue: FairQueue, away: Away, caplog: pytest.LogCaptureFixture
) -> None:
    """Its shard is away: nothing is damaged, so nothing is set aside that could be looked at."""
    fill(queue, 1)
    keeper = LeaseKeeper(queue, on_lost=lambda _: None)
    for lease in queue.claim(["q"], 100).leases:
        keeper.hold(lease)
    away(1)
    with caplog.at_level(logging.WARNING, "fairqueue.keeper"):
        assert not keeper._try_to_renew(queue)
    keeper.stop()
    held = sum(home == 1 for home in HOMES.values())
    assert f"could not renew {held} leases, will retry: away" in caplog.text


def test_an_old_lease_of_a_shard_that_is_away_holds_up_no_other(
    queue: FairQueue, away: Away
) -> None:
    """A call was interrupted before its caller had the lease; it is renewed with a later claim."""
    fill(queue, 4)
    leases = {lease.fence: lease for lease in queue.claim(["q"], 100).leases}
    old = next(lease for fence, lease in leases.items() if shard_of_fence(fence) == 1)
    queue._claimer._results.old = (old,)
    away(1)
    finishes = [Finish(fence) for fence in leases if shard_of_fence(fence) != 1]
    found = queue.claim(["q"], 100, finishes=finishes).leases
    assert {shard_of_fence(lease.fence) for lease in found} == {0, 2}
    away.back()
    assert old.fence in {lease.fence for lease in queue.claim(["q"], 100).leases}


@pytest.mark.parametrize("how", ["claim", "flush", "finish", "close"])
def test_what_is_owed_is_sent_by_whatever_comes_first(
    queue: FairQueue, away: Away, how: str
) -> None:
    """A busy worker may claim nothing for long, and one that stops claims no more."""
    fill(queue, 1)
    leases = queue.claim(["q"], 100).leases
    away(1)
    queue.claim(["q"], 1, finishes=[Finish(each.fence) for each in leases])
    queue.endings.flush()  # not back yet
    assert len(queue.endings.pending()) == sum(home == 1 for home in HOMES.values())
    away.back()
    given: dict[str, Any] = {"claim": (["q"], 1), "finish": ([],)}
    getattr(queue.endings if how == "flush" else queue, how)(*given.get(how, ()))
    assert queue.endings.pending() == []
    assert queue.depth("q", running=True) == 0


def test_what_is_given_back_while_its_shard_is_away_is_kept(queue: FairQueue, away: Away) -> None:
    """A worker that gives back what it claimed ahead goes on with the other shards."""
    name = of_shard(1)
    for how in ("back", "dead"):
        queue.publish(b"x", queue="q", workspace=name, job_id=how)
    leases = {lease.job.id: lease for lease in queue.claim(["q"], 2).leases}
    away(1)
    queue.release(leases["back"])
    queue.reject(leases["dead"], reason="failed", seconds=2.0)
    assert queue.endings.are_pending
    assert {fence for fence, _ in queue.endings.pending()} == {
        each.fence for each in leases.values()
    }
    queue.endings.flush()
    away.back()
    queue.endings.flush()
    assert queue.endings.pending() == []
    assert [lease.job.id for lease in queue.claim(["q"], 2).leases] == ["back"]
    assert [letter.job.id for letter in queue.dead.page(name)] == ["dead"]


def test_what_an_interrupt_left_holds_up_no_other_shard(
    queue: FairQueue, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its leases wait until their shard answers again, and are lost if that is too late."""
    for number in (1, 0):
        queue.publish(b"x", queue="q", workspace=of_shard(number), job_id=f"of {number}")
    queue.claim(["q"], 0)
    first = queue.store.shards[0].engine

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def second_first(_queues: object, left: Collection[int], _called: object) -> int:
        return 1 if 1 in left else min(left)

    with monkeypatch.context() as patch:
        patch.setattr(queue._claimer._order, "first", second_first)
        patch.setattr(first, "_run", interrupt)
        with pytest.raises(KeyboardInterrupt):
            queue.claim(["q"], 2)
    away(1)
    assert [lease.job.id for lease in queue.claim(["q"], 2).leases] == ["of 0"]
    away.back()
    assert [lease.job.id for lease in queue.claim(["q"], 2).leases] == ["of 1"]


def test_one_that_has_failed_is_asked_where_no_other_answers(queue: FairQueue, away: Away) -> None:
    """So a short trouble of one is no outage while another that was away has come back."""
    queue.publish(b"x", queue="q", workspace=of_shard(1))
    queue.store.shards[1].engine.breaker.failed()
    away(0, 2)
    assert len(queue.claim(["q"]).leases) == 1


def test_the_lease_of_what_is_owed_lives(queue: FairQueue, away: Away) -> None:
    """Else the job, which has ended, would run again."""
    fill(queue, 1)
    leases = queue.claim(["q"], 100).leases
    away(1)
    queue.claim(["q"], 1, finishes=[Finish(each.fence) for each in leases])
    away.back()
    renewed: list[int] = []
    keeper, shard = LeaseKeeper(queue), queue.store.shards[1]
    with pytest.MonkeyPatch.context() as patch:
        renew = shard.renew

        def watched(progress: Sequence[tuple[int, float]], **how: Any) -> Renewed:
            renewed.extend(fence for fence, _ in progress)
            return renew(progress, **how)

        patch.setattr(shard, "renew", watched)
        assert keeper._try_to_renew(queue)
    assert {shard_of_fence(fence) for fence in renewed} == {1}
    assert len(renewed) == sum(home == 1 for home in HOMES.values())


def test_an_interrupt_between_two_shards_loses_nothing(queue: FairQueue) -> None:
    """The next call returns what the first shard gave, and finishes what is left."""
    fill(queue)
    first = queue.claim(["q"], len(WORKSPACES)).leases
    finishes = [Finish(lease.fence) for lease in first]
    with pytest.MonkeyPatch.context() as patch:

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(queue.store.shards[2].engine, "_run", interrupt)
        with pytest.raises(KeyboardInterrupt):
            queue.claim(["q"], 100, finishes=finishes)
    claimed = queue.claim(["q"], 100, finishes=finishes)
    assert claimed.lost == set()
    assert len({lease.job.id for lease in [*first, *claimed.leases]}) == 2 * len(WORKSPACES)
    assert queue.depth("q", running=True) == len(claimed.leases)


def test_a_wakeup_that_one_process_cannot_use_wakes_another(queue: FairQueue) -> None:
    """Tokens of two shards end one wait: what is left is passed on, also by a claim of nothing."""
    queue.connect()
    waiter = queue.waiter(["q"])
    waiter.arm(20.0)
    for number in (0, 1):
        queue.publish(b"x", queue="q", workspace=of_shard(number))
    assert waiter.wait(20.0)
    queue.claim(["q"], 0)
    other = queue.clone()
    assert len(other.claim(["q"], 2, wait_seconds=10.0).leases) == 2
    for shard in queue.store.shards[:2]:
        assert not shard.engine.command("EXISTS", shard.engine.keys.key("token", "q"))
    waiter.close()
    other.close()


@pytest.mark.parametrize("numbers", [(1,), (0, 1, 2)], ids=["a finish, one", "a claim, all"])
def test_a_call_that_has_no_shard_to_go_on_with_raises(
    queue: FairQueue, away: Away, numbers: tuple[int, ...]
) -> None:
    """A finish alone, or a claim without any shard: all is reported again, and counts once."""
    fill(queue, 1)
    finishes = [Finish(lease.fence) for lease in queue.claim(["q"], 100).leases]

    def call() -> Collection[int]:
        if len(numbers) == 1:
            return queue.finish(finishes)
        return queue.claim(["q"], 1, finishes=finishes).lost

    away(*numbers)
    with pytest.raises(StoreUnavailable):
        call()
    away.back()
    assert call() == set()
    assert queue.depth("q", running=True) == 0


def test_leases_of_other_shards_are_renewed(queue: FairQueue, away: Away) -> None:
    """Those of the shard that is away are to be renewed again."""
    fill(queue, 1)
    leases = queue.claim(["q"], 100).leases
    away(2)
    renewed = queue.renew([(lease.fence, 0.1) for lease in leases])
    assert renewed.lost == set()
    assert {shard_of_fence(fence) for fence in renewed.failed} == {2}
    away(0, 1)
    with pytest.raises(StoreUnavailable):
        queue.renew([(lease.fence, 0.1) for lease in leases])


def test_many_publishes_say_what_is_known(queue: FairQueue, away: Away) -> None:
    """A shard goes away in the middle: the outcomes of the first jobs are there."""
    queue.connect()
    away(1)
    names = [of_shard(0), of_shard(2), of_shard(1), of_shard(0)]
    jobs = [NewJob(b"x", "q", name, job_id=f"j{n}") for n, name in enumerate(names)]
    with pytest.raises(PublishInterrupted) as caught:
        queue.publish_many(jobs)
    assert list(caught.value.outcomes) == ["j0", "j1"]
    away.back()
    assert queue.publish_many(jobs) == ["j0", "j1", "j2", "j3"]
    assert queue.depth("q") == 4


# How it is opened


def test_fewer_shards_than_servers_are_refused() -> None:
    """Each server has one at least."""
    with pytest.raises(ConfigurationError, match="names 3 servers"):
        FairQueue("redis://a,b,c/0", shards=2)


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("redis://a:1,b,c:3/2", ["a:1/2", "b:6379/2", "c:3/2"]),
        ("redis://user:p%2Cw@a:1,b:2/0?socket_timeout=3", ["a:1/0", "b:2/0"]),
        ("rediss://[::1]:1,b:2", ["::1:1/0", "b:2/0"]),
    ],
)
def test_a_url_with_several_hosts(url: str, hosts: Sequence[str]) -> None:
    """Each has the same user, password, database and options."""
    store = FairQueue(url).store
    assert isinstance(store, ShardedStore)
    clients: list[Any] = [shard.engine.client for shard in store.shards]  # type: ignore[attr-defined]
    kwargs = [client.connection_pool.connection_kwargs for client in clients]
    assert [
        f"{each['host']}:{each.get('port', 6379)}/{each.get('db', 0)}" for each in kwargs
    ] == hosts
    if "user" in url:
        assert {(each["username"], each["password"]) for each in kwargs} == {("user", "p,w")}


def test_an_idle_worker_asks_no_shard_that_had_no_job(queue: FairQueue) -> None:
    """Where it waits for wake-ups afterwards: it polls each in its turn, and a job wakes it."""
    calls: list[str] = []
    for shard in queue.store.shards:
        engine: Any = shard.engine
        engine._run = partial(noted, calls, engine._run)
    assert queue.claim(["q"], has_waiter=True).leases == ()
    assert calls.count("claim") == len(queue.store.shards)
    calls.clear()
    queue.publish(b"x", queue="q", workspace=of_shard(1))
    assert queue.claim(["q"], has_waiter=True).leases == ()
    assert calls == ["publish"]
    waiter = queue.waiter(["q"])
    assert waiter.wait(20.0)
    [lease] = queue.claim(["q"], 2, has_waiter=True).leases
    waiter.close()
    assert calls == ["publish", "claim"]
    queue.claim(["q"], finishes=[Finish(lease.fence, Ending.ACK)], has_waiter=True)
    assert calls == ["publish", "claim", "claim"]


def test_a_worker_without_a_free_slot_soon_asks_a_shard_that_had_no_job(
    queue: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for no wake-up, while other shards have jobs enough for all its slots."""
    now = time.monotonic()
    monkeypatch.setattr(order, "monotonic", lambda: now)
    assert queue.claim(["q"], has_waiter=True).leases == ()
    for n in range(3):
        queue.publish(b"%d" % n, queue="q", workspace=of_shard(1))
    waiter = queue.waiter(["q"])
    assert waiter.wait(20.0)
    [lease] = queue.claim(["q"], has_waiter=True).leases
    waiter.close()
    queue.publish(b"x", queue="q", workspace=of_shard(2))
    for shard in (1, 2):
        now += order.OLD_SECONDS / 2
        finishes = [Finish(lease.fence, Ending.ACK)]
        [lease] = queue.claim(["q"], finishes=finishes, has_waiter=True).leases
        assert lease.job.workspace == of_shard(shard)


def noted(calls: list[str], run: Any, operation: str, values: Any) -> Any:
    """Note a call, if it is about jobs, and make it."""
    if operation in {"claim", "publish"}:
        calls.append(operation)
    return run(operation, values)
