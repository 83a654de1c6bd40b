"""The kombu transport behind ``fairqueue+memory://``: one process, for tests and demos.

The core runs the task queues in memory; control, events and rpc results use kombu's own queues in
memory.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty
from typing import Any, ClassVar

from kombu.transport import memory as stock
from kombu.transport import virtual

from fairqueue_celery._channel.broker import shared_broker
from fairqueue_celery._channel.task_queues import TaskQueues
from fairqueue_celery._config import options
from fairqueue_celery._config.address import read_address
from fairqueue_celery._consume.poller import Poller

LOOK_EVERY_SECONDS = 0.02
"""At plain queues, which cannot wake a consumer."""


class Channel(TaskQueues, stock.Channel):
    """Exchanges and plain queues are inherited."""

    queues: ClassVar[dict[str, Any]] = {}
    """Of this process, and apart from those of kombu's ``memory://``."""

    active_fanout_queues = active_queues = ()
    """None is polled on a socket."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.connection.cycle.add(self)

    def close(self) -> None:
        """Leave the poller; other channels keep the queues."""
        if self.connection is not None:
            self.connection.cycle.discard(self)
        super().close()
        self.__dict__.pop("queues", None)


class MemoryPoller(Poller):
    """Waits for jobs like the other poller, and looks at the plain queues in between."""

    def poll_plain(self, callback: Callable[..., None], timeout: float | None) -> None:
        """Handle one plain message, or what the wait brings."""
        for channel in list(self._channels):
            try:
                channel.drain_events(callback=callback)
            except Empty:
                continue
            return
        wait = LOOK_EVERY_SECONDS if timeout is None else min(timeout, LOOK_EVERY_SECONDS)
        for fileno, event in self.poller.poll(wait) or ():
            self.handle_event(fileno, event)
        raise Empty


class Transport(virtual.Transport):
    """No server: connections of this process that name the same URL share its queues."""

    Channel = Channel
    can_parse_url = True
    driver_type = "memory"
    driver_name = "fairqueue"
    global_state = virtual.BrokerState()
    implements = virtual.Transport.implements.extend(
        exchange_type=frozenset(["direct", "topic", "fanout"])
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        address = read_address(client)
        settings, _ = options.split_options(client.transport_options or {}, address.query)
        super().__init__(client, **kwargs)
        self.polling_interval = None
        self.state = self.global_state
        self.broker = shared_broker(address.core_url({}), settings)
        self.cycle = MemoryPoller(self)

    def establish_connection(self) -> Any:
        """Open the first channel."""
        self.broker.connect()
        return super().establish_connection()

    def claims_changed(self, claims: Any) -> None:
        """These claims take jobs from other queues than before: the next poll sees it."""
