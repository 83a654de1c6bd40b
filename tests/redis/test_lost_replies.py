"""Calls whose connection breaks before the reply, on a real server, take effect once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairqueue import FairQueue, Lease, NewJob, Outcome, Scope, StoreUnavailable
from fairqueue.adapters import Finish
from fairqueue.errors import PublishInterrupted
from tests.redis.proxy import Proxy


@pytest.fixture(params=[0, 3], ids=["the caller repeats", "the client repeats"])
def queue(request: pytest.FixtureRequest, proxy: Proxy, namespace: str) -> Iterator[FairQueue]:
    """A queue through the proxy, with a client that retries by itself or does not."""
    client = redis.Redis(port=proxy.port, retry=Retry(NoBackoff(), request.param))
    with FairQueue(client=client, namespace=namespace) as queue:
        for name in "abc":
            queue.publish(b"x", queue="q", workspace="w", job_id=name)
        queue.depth("q")
        yield queue


def _again(call: Callable[[], object]) -> object:
    """Repeat the call if its reply was lost and the client does not retry by itself."""
    try:
        return call()
    except StoreUnavailable:
        return call()


def _running(queue: FairQueue) -> int:
    return sum(w.running for w in queue.views.stats().workspaces)


def test_a_repeated_publish_of_many_stores_each_once(queue: FairQueue, proxy: Proxy) -> None:
    """Its reply was lost; repeated with its ids, also all or none where no more would fit."""
    queue.limits.set(Scope.workspace("w"), capacity=6)
    jobs = [NewJob(b"x", "q", workspace="w", job_id=f"new{n}") for n in range(3)]
    proxy.lose_reply_to_operation()
    _again(lambda: queue.publish_many(jobs, all_or_none=True))
    assert proxy.lost == 1
    assert queue.depth("q") == 6


def test_a_publish_of_many_that_is_interrupted_tells_how_far_it_came(
    proxy: Proxy, namespace: str
) -> None:
    """The first hundred are stored; to publish all of them again stores none twice."""
    client = redis.Redis(port=proxy.port, retry=Retry(NoBackoff(), 0))
    jobs = [NewJob(b"x", "q", workspace="w", job_id=f"new{n}") for n in range(150)]
    with FairQueue(client=client, namespace=namespace) as queue:
        queue.publish_many(jobs[:1])
        proxy.lose_reply_to(b"new149")
        with pytest.raises(PublishInterrupted) as caught:
            queue.publish_many(jobs)
        assert [str(job_id) for job_id in caught.value.outcomes] == [f"new{n}" for n in range(100)]
        outcomes = [job_id.outcome for job_id in queue.publish_many(jobs)]  # type: ignore[union-attr]
        assert outcomes == [Outcome.REPEATED] * 150
        assert queue.depth("q") == 150


def test_a_repeated_finish_and_claim_acts_once(queue: FairQueue, proxy: Proxy) -> None:
    """A finish-and-claim whose reply was lost finishes once and claims once."""
    (lease,) = queue.claim(["q"]).leases
    found: list[Lease] = []
    proxy.lose_reply_to_operation()

    def claim() -> None:
        claimed = queue.claim(["q"], finishes=[Finish(lease.fence, seconds=0.1)])
        assert not claimed.lost
        found.extend(claimed.leases)

    _again(claim)
    assert proxy.lost == 1
    assert [lease.job.id for lease in found] == ["b"]
    assert _running(queue) == 1


@pytest.mark.usefixtures("_traced_or_not")
def test_a_flushed_library_is_loaded_again(
    redis_url: str, redis_client: redis.Redis, namespace: str
) -> None:
    """After a FUNCTION FLUSH (Redis 6.2: SCRIPT FLUSH) any call brings the operations again."""

    def forget() -> None:
        redis_client.script_flush()
        with contextlib.suppress(redis.ResponseError):
            redis_client.function_flush()

    with FairQueue(redis_url, namespace=namespace) as queue:
        forget()
        queue.publish(b"x", queue="q")
        forget()
        (lease,) = queue.claim(["q"]).leases
        forget()
        assert not queue.renew([(lease.fence, 0.1)]).lost
        forget()
        queue.ack(lease)
        assert queue.depth("q") == 0


@pytest.mark.parametrize("shared", [True, False])
def test_many_threads_share_one_backlog(redis_url: str, namespace: str, shared: bool) -> None:
    """Threads claim each job once, whether they share a queue or each has its own clone."""
    with FairQueue(redis_url, namespace=namespace) as queue:
        jobs = [queue.publish(b"x", queue="q", workspace=f"w{i % 7}") for i in range(200)]
        got: list[str] = []

        def take() -> None:
            mine = queue if shared else queue.clone()
            while leases := mine.claim(["q"], 3).leases:
                for lease in leases:
                    mine.ack(lease)
                    got.append(lease.job.id)
            if not shared:
                mine.close()

        threads = [threading.Thread(target=take) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(got) == sorted(jobs)


def test_a_wake_up_that_stops_halfway_is_given_up(proxy: Proxy, namespace: str) -> None:
    """The link stays open and brings no more; the next wait has a link of its own."""
    url = f"redis://127.0.0.1:{proxy.port}/0?socket_timeout=0.3"
    with (
        FairQueue(url, namespace=namespace) as queue,
        contextlib.closing(queue.waiter(["q"])) as waiter,
    ):
        proxy.holding = b"token"
        queue.publish(b"x", queue="q", workspace="w")
        with pytest.raises(StoreUnavailable):
            waiter.wait(30.0)
        proxy.holding = None
        queue.publish(b"x", queue="q", workspace="v")
        assert waiter.wait(30.0)
