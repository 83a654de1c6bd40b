"""on_unavailable of Dramatiq's messages: while Redis is away they raise, are kept or run inline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import AsyncIO, CurrentMessage, Middleware

import fairqueue
import fairqueue_dramatiq
from fairqueue import FairQueue, StoreUnavailable
from fairqueue.testing import EmbeddedServer
from fairqueue_dramatiq import FairQueueMiddleware, queue_of
from fairqueue_dramatiq.errors import ConfigurationError
from tests.system.ledger import wait_for

pytestmark = pytest.mark.system

SOON_SECONDS = 0.25


class Seen(Middleware):
    """Notes hooks of runs and the message that runs."""

    def __init__(self) -> None:
        self.hooks: list[str] = []

    def before_process_message(self, broker: Any, message: Any) -> None:
        self.hooks.append("before")

    def after_process_message(self, broker: Any, message: Any, **_: Any) -> None:
        self.hooks.append("after")


@pytest.fixture
def broker(server: EmbeddedServer, namespace: str, tmp_path: Path) -> Iterator[RedisBroker]:
    """The broker of a producer."""
    broker: Any = RedisBroker(url=server.url, namespace=namespace)
    broker.add_middleware(CurrentMessage())
    broker.add_middleware(
        FairQueueMiddleware(
            url=server.url,
            namespace=namespace,
            on_unavailable="buffer",
            buffer_path=tmp_path,
            on_missing_workspace="default",
        )
    )
    yield broker
    broker.close()


def _work(text: str = "") -> None:
    ran.append((text, fairqueue.current().workspace, CurrentMessage.get_current_message()))  # type: ignore[union-attr]
    if text == "fails":
        raise ValueError(text)


ran: list[tuple[str, str, Any]] = []


@pytest.fixture
def work(broker: RedisBroker) -> Any:
    """An actor whose messages are buffered."""
    return dramatiq.actor(_work, actor_name="work", broker=broker)


@pytest.fixture
def inline(broker: RedisBroker) -> Any:
    """An actor that runs where it is sent while Redis is away."""
    ran.clear()
    return dramatiq.actor(_work, actor_name="inline", broker=broker, on_unavailable="inline")


@pytest.fixture
def core(broker: RedisBroker) -> FairQueue:
    return queue_of(broker)


def test_messages_are_buffered_while_redis_is_away(
    work: Any, core: FairQueue, server: EmbeddedServer, broker: RedisBroker
) -> None:
    """Single ones, a group and a batch; they are sent when it answers."""
    server.kill()
    work.send()
    began = time.monotonic()
    work.send_with_options(args=("x",), workspace="ada", delay=10)
    dramatiq.group([work.message(), work.message()], broker=broker).run()
    with fairqueue_dramatiq.batch(broker):
        work.send()
    assert time.monotonic() - began < SOON_SECONDS
    server.start()
    wait_for(lambda: not core.buffered)
    assert core.depth("default") == 5


def test_an_actor_runs_inline_with_the_hooks_of_a_run(
    inline: Any, server: EmbeddedServer, broker: RedisBroker
) -> None:
    """What it raises is raised; no middleware sends a retry."""
    seen = Seen()
    broker.add_middleware(seen)
    server.kill()
    message = inline.send_with_options(args=("x",), workspace="ada")
    with pytest.raises(ValueError, match="fails"):
        inline.send("fails")
    assert [(text, name) for text, name, _ in ran] == [("x", "ada"), ("fails", "default")]
    assert ran[0][2].message_id == message.message_id
    assert seen.hooks == ["before", "after"] * 2
    assert CurrentMessage.get_current_message() is None


def test_an_async_actor_runs_inline(server: EmbeddedServer, broker: RedisBroker) -> None:
    """Without a worker's event loop, also where the caller is in one."""
    ran.clear()

    async def _later(text: str) -> None:
        await asyncio.sleep(0)
        _work(text)

    broker.add_middleware(AsyncIO())
    work = dramatiq.actor(_later, actor_name="later", broker=broker, on_unavailable="inline")
    server.kill()
    work.send_with_options(args=("x",), workspace="ada")

    async def send() -> None:
        work.send_with_options(args=("y",), workspace="bea")

    asyncio.run(send())
    with pytest.raises(ValueError, match="fails"):
        work.send("fails")
    assert [(text, name) for text, name, _ in ran[:2]] == [("x", "ada"), ("y", "bea")]


@pytest.mark.parametrize(
    "options",
    [
        {"delay": 10},
        {"expires": 10},
        {"on_success": "work"},
        {"pipe_target": {}},
        {"on_unavailable": "raise"},
    ],
)
def test_what_cannot_run_inline_raises(
    inline: Any, work: Any, server: EmbeddedServer, options: dict[str, Any]
) -> None:
    """As with on_unavailable='raise'."""
    server.kill()
    with pytest.raises(StoreUnavailable):
        inline.send_with_options(**options)
    assert not ran


def test_a_message_that_may_be_stored_is_not_run_inline(
    inline: Any, server: EmbeddedServer
) -> None:
    """Its reply was lost, so it raises; the next one is not sent, and runs."""
    inline.send()
    server.freeze()
    with pytest.raises(StoreUnavailable):
        inline.send("lost reply")
    inline.send("not sent")
    assert [text for text, *_ in ran] == ["not sent"]


def test_a_bad_option_of_an_actor_is_refused(broker: RedisBroker, work: Any) -> None:
    """Where it is declared, and for a message where it is sent."""
    with pytest.raises(ConfigurationError, match="'raise', 'buffer', 'inline'"):
        dramatiq.actor(_work, actor_name="bad", broker=broker, on_unavailable="bufer")
    with pytest.raises(fairqueue.ConfigurationError, match="'raise', 'buffer', 'inline'"):
        work.send_with_options(on_unavailable="bufer")
