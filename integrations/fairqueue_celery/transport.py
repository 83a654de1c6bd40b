"""The kombu transport behind ``fairqueue://``, ``fairqueues://`` and their kin."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from kombu.transport import redis as stock

from fairqueue import StoreUnavailable
from fairqueue.adapters import mask_password
from fairqueue_celery._channel import memory
from fairqueue_celery._channel.broker import shared_broker
from fairqueue_celery._channel.redis import Channel
from fairqueue_celery._config.address import (
    ParsedClient,
    check_failover_urls,
    collect_failover_settings,
    hide_login,
    join_sentinels,
    read_address,
)
from fairqueue_celery._config.options import client_options, sentinel_options, split_options
from fairqueue_celery._config.redbeat import warn_without_url
from fairqueue_celery._consume.claims import Claims
from fairqueue_celery._consume.hub import HubDriver
from fairqueue_celery._consume.poller import Poller
from fairqueue_celery._consume.sparing_loop import SparingLoop
from fairqueue_celery._worker import signals


class Transport(stock.Transport):
    """Stock Redis for sockets, TLS and fanout; the core for task queues."""

    Channel = Channel
    can_parse_url = True
    driver_name = "fairqueue"
    connection_errors = (*stock.Transport.connection_errors, StoreUnavailable)
    implements = stock.Transport.implements.extend(batch_publish=False)

    def __new__(cls, client: Any, **kwargs: Any) -> Any:
        """Make one; kombu takes the same class for ``fairqueue+memory://``, which has its own."""
        signals.connect()
        check_failover_urls(client)
        if read_address(client).scheme == "memory":
            return memory.Transport(client, **kwargs)
        return super().__new__(cls)

    def __init__(self, client: Any, **kwargs: Any) -> None:
        warn_without_url()
        collect_failover_settings(client)
        join_sentinels(client)
        address = self._address = read_address(client)
        hide_login(client, address)
        of_sentinels = address.scheme == "redis+sentinel"
        settings, stock_options = split_options(
            client.transport_options or {}, address.query, of_sentinels=of_sentinels
        )
        super().__init__(ParsedClient(client, address, stock_options), **kwargs)
        core_options = client_options(stock_options, tcp=address.scheme != "unix")
        asked = sentinel_options(stock_options) if of_sentinels else {}
        self.broker = shared_broker(address.core_url({**core_options, **asked}), settings)
        self.cycle = Poller(self)
        self.driver: HubDriver | None = None

    def establish_connection(self) -> Any:
        """Check the server, then open the first channel.

        kombu's own queues and replies need memory, so at a full Redis a worker waits here, as for
        one that is away.
        """
        self.broker.reaches(self._check)
        return super().establish_connection()

    def _check(self) -> None:
        self.broker.connect()
        self.broker.core.refuse_if_full()

    def driver_version(self) -> str:
        """Ours, as ``celery report`` shows it behind our name."""
        return version("fairqueue")

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:  # noqa: ARG002, FBT001, FBT002
        """Several hosts in a URL, which kombu cannot read; other URLs it shows itself."""
        address = self._address
        if not address.is_resolved and len(address.hosts) < 2:  # noqa: PLR2004
            raise NotImplementedError
        shown = address.core_url({}).partition("?")[0].replace("redis", "fairqueue", 1)
        return shown if include_password else mask_password(shown)

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """Let the worker's event loop drive the claims."""
        super().register_with_event_loop(connection, SparingLoop(loop, self.cycle))
        self.driver = HubDriver(loop)
        for channel in self.channels:
            if channel.claims.queues:  # it began before there was a loop
                self.driver.drive(channel.claims)

    def claims_changed(self, claims: Claims) -> None:
        """These claims take jobs from other queues than before."""
        if self.driver is not None:
            self.driver.drive(claims)

    def close_connection(self, connection: Any) -> None:
        """Close, and let go of the event loop."""
        super().close_connection(connection)
        if self.driver is not None:
            self.driver.stop()
            self.driver = None


signals.connect()
