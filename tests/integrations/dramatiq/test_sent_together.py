"""Groups and ``with fairqueue_dramatiq.batch(broker):`` are sent in few calls."""

from __future__ import annotations

from collections import Counter
from typing import Any

import dramatiq
import pytest
from dramatiq import Middleware, group, pipeline
from dramatiq.brokers.stub import StubBroker

import fairqueue_dramatiq
from fairqueue import ConfigurationError, FairQueue, StoreUnavailable
from tests.integrations.counted_calls import calls_of
from tests.integrations.dramatiq.conftest import Play

SETTINGS: dict[str, Any] = {"on_missing_workspace": "default"}


class Seen(Middleware):
    """Notes the hooks around each enqueue, with how many jobs wait."""

    def __init__(self) -> None:
        self.hooks: list[tuple[str, str, int]] = []

    def _note(self, hook: str, broker: StubBroker, message: Any) -> None:
        self.hooks.append((hook, message.message_id, queue(broker).depth("default")))

    def before_enqueue(self, broker: Any, message: Any, delay: int | None) -> None:
        self._note("before", broker, message)

    def after_enqueue(self, broker: Any, message: Any, delay: int | None) -> None:
        self._note("after", broker, message)


def queue(broker: StubBroker) -> FairQueue:
    return fairqueue_dramatiq.queue_of(broker)


@pytest.fixture
def ran() -> list[int]:
    """What the actor was called with."""
    return []


@pytest.fixture
def work(broker: StubBroker, ran: list[int]) -> Any:
    """An actor that notes its argument."""

    def work(n: int = 0) -> None:
        ran.append(n)

    return dramatiq.actor(work, broker=broker)


def message(work: Any, n: int = 0, workspace: str = "ada", **options: Any) -> Any:
    return work.message_with_options(args=(n,), workspace=workspace, **options)


@pytest.mark.parametrize("size", [1, 250])
def test_a_group_takes_a_call_for_every_hundred(
    broker: StubBroker, work: Any, ran: list[int], play: Play, size: int
) -> None:
    """Each of its messages is run once."""
    with calls_of(queue(broker)) as calls:
        group([message(work, n) for n in range(size)]).run()
    assert (calls["publish"], calls["publish_many"]) == (0, -(-size // 100))
    play(broker)
    assert Counter(ran) == Counter(range(size))


def test_a_batch_is_one_call(broker: StubBroker, work: Any, ran: list[int], play: Play) -> None:
    """Also where groups, pipelines and delayed messages are in it."""
    with calls_of(queue(broker)) as calls, fairqueue_dramatiq.batch(broker):
        for n in range(3):
            work.send_with_options(args=(n,), workspace="ada")
        line = pipeline([message(work, 4), message(work, 5, pipe_ignore=True)])
        group([message(work, 3), line]).run()
        work.send_with_options(args=(6,), workspace="ada", delay=20)
        assert not calls
    assert calls["publish"] == 0
    assert calls["publish_many"] == 1
    play(broker, threads=1)
    assert sorted(ran) == list(range(7))


@pytest.mark.parametrize("broker", [{"workspace_capacity": 5}], indirect=True)
def test_a_group_is_accepted_exactly(broker: StubBroker, work: Any) -> None:
    """Six messages are refused whole where five may wait; a pipeline is one of them."""
    six = [message(work, n) for n in range(6)]
    line = pipeline([six[5], message(work, 6)])
    for refused in (group(six), group([*six[:3], group(six[3:])]), group([*six[:5], line])):
        with pytest.raises(fairqueue_dramatiq.CapacityExceeded) as caught:
            refused.run()
        assert (caught.value.jobs, caught.value.limit) == (6, 5)
    assert queue(broker).depth("default") == 0
    group(six[:5]).run()
    assert queue(broker).depth("default") == 5


@pytest.mark.parametrize("broker", [{"workspace_capacity": 2}], indirect=True)
def test_a_batch_tells_what_was_refused(broker: StubBroker, work: Any) -> None:
    """Each message by itself, a group as one; hooks follow what is stored."""
    seen = Seen()
    broker.add_middleware(seen)
    one, *two, three, four = [message(work, n) for n in range(5)]
    other = message(work, 5, workspace="bea")

    def publish() -> None:
        broker.enqueue(one)
        group(two).run()
        for each in (three, four, other):
            broker.enqueue(each)

    with pytest.raises(fairqueue_dramatiq.BatchRefused) as caught:  # noqa: SIM117
        with fairqueue_dramatiq.batch(broker):
            publish()
    error = caught.value
    assert isinstance(error, fairqueue_dramatiq.CapacityExceeded)
    stored = [each.message_id for each in (one, three, other)]
    assert list(error.stored) == stored
    assert list(error.refused) == [each.message_id for each in (*two, four)]
    everything = [one, *two, three, four, other]
    assert seen.hooks == [
        *(("before", each.message_id, 0) for each in everything),
        *(("after", message_id, 3) for message_id in stored),
    ]


def test_an_outage_tells_what_was_stored(
    broker: StubBroker, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ids of the messages that are stored, and of those that may not be."""
    engine, calls = queue(broker).store.shards[0].engine, Counter[str]()
    run = engine._run

    def failing(operation: str, values: Any) -> Any:
        calls[operation] += 1
        if operation == "publish_many" and calls[operation] == 2:
            raise StoreUnavailable("gone")
        return run(operation, values)

    monkeypatch.setattr(engine, "_run", failing)
    messages = [message(work, n) for n in range(150)]
    with pytest.raises(fairqueue_dramatiq.BatchInterrupted, match="100 of 150") as caught:
        group(messages).run()
    ids = [each.message_id for each in messages]
    error = caught.value
    assert isinstance(error, fairqueue_dramatiq.StoreUnavailable)
    assert (list(error.stored), list(error.unknown)) == (ids[:100], ids[100:])


def test_a_batch_needs_the_middleware() -> None:
    """On a broker without it nothing would be sent together."""
    with pytest.raises(ConfigurationError, match="has no FairQueueMiddleware"):
        fairqueue_dramatiq.batch(StubBroker())


def test_a_group_on_another_broker_is_run_as_before(work: Any) -> None:
    """Its messages go to that broker."""
    plain = StubBroker()
    plain.declare_queue("default")
    group([message(work, n) for n in range(3)], broker=plain).run()
    assert plain.queues["default"].qsize() == 3
    plain.close()
