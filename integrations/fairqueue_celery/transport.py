"""The kombu transport behind ``fairqueue://``, ``fairqueues://`` and ``fairqueue+socket://``."""

from __future__ import annotations

from typing import Any

from kombu.transport import redis as stock

from fairqueue import StoreUnavailable
from fairqueue_celery import boot, memory, options
from fairqueue_celery.address import ParsedClient, read_address
from fairqueue_celery.broker import shared_broker
from fairqueue_celery.channel import Channel
from fairqueue_celery.driving import HubDriver
from fairqueue_celery.polling import Poller
from fairqueue_celery.showing import hide_login, part_alternates


class Transport(stock.Transport):
    """Stock Redis for sockets, TLS and fanout; the core for task queues."""

    Channel = Channel
    can_parse_url = True
    driver_name = "fairqueue"
    connection_errors = (*stock.Transport.connection_errors, StoreUnavailable)
    implements = stock.Transport.implements.extend(batch_publish=False)
    supports_batch_publish = False

    def __new__(cls, client: Any, **kwargs: Any) -> Any:
        """Make one; kombu takes the same class for ``fairqueue+memory://``, which has its own."""
        boot.connect()
        if read_address(client).memory:
            return memory.Transport(client, **kwargs)
        return super().__new__(cls)

    def __init__(self, client: Any, **kwargs: Any) -> None:
        part_alternates(client)
        address = read_address(client)
        hide_login(client, address)
        settings, of_kombu = options.part(client.transport_options or {}, address.query)
        super().__init__(ParsedClient(client, address, of_kombu), **kwargs)
        tcp = address.path is None
        client_options = {**options.client_options(of_kombu, tcp=tcp), **address.client_db}
        self.broker = shared_broker(address.core_url(client_options), settings)
        self.cycle = Poller(self)
        self.driver: HubDriver | None = None

    def establish_connection(self) -> Any:
        """Open the first channel, and see that the server can keep the promises."""
        self.broker.connect()
        return super().establish_connection()

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """Let the worker's event loop drive the claims."""
        super().register_with_event_loop(connection, loop)
        self.driver = HubDriver(self, loop)
        for channel in self.channels:
            if channel.claims.queues:  # begun before there was a loop
                self.driver.follow(channel)

    def claims_changed(self, channel: Any) -> None:
        """A channel has begun to take jobs from a queue, or ceased to."""
        if self.driver is not None:
            self.driver.follow(channel)

    def close_connection(self, connection: Any) -> None:
        """Close, and let go of the event loop."""
        super().close_connection(connection)
        if self.driver is not None:
            self.driver.stop()
            self.driver = None


boot.connect()
