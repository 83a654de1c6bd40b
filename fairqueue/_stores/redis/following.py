"""Connections of redis-py's own pools that do not stay with a server that has stepped down."""

from __future__ import annotations

from typing import Any

import redis
from redis.exceptions import ResponseError

from fairqueue._settings import servers_of
from fairqueue._stores.redis.address import client_at
from fairqueue._stores.redis.errors import is_from_wrong_server, remedy_of


def following_primary(connection_class: Any) -> Any:
    """The same connections; what says that another server may have taken over closes them.

    The caller gets a ``redis.ConnectionError``, as for a link that broke, and the next call
    connects to what the address leads to by then. redis-py would keep them, and be refused by a
    primary that has become a replica for as long as that one runs.
    """

    class Following(connection_class):  # type: ignore[misc]
        def read_response(self, *args: Any, **options: Any) -> Any:
            try:
                return super().read_response(*args, **options)
            except ResponseError as error:
                if not is_from_wrong_server(error):
                    raise
                self.disconnect()
                raise redis.ConnectionError(remedy_of(error)) from error

    return Following


def following_client(url: str, tag: str = "") -> redis.Redis:
    """A client of redis-py at a core URL, over such connections; it is not connected yet.

    Of several servers it is the first, which has kombu's own queues and lists, and in a Cluster the
    node that has the slot of this hash tag.
    """
    client = client_at(servers_of(url)[0], tag)
    pool = client.connection_pool
    pool.connection_class = following_primary(pool.connection_class)
    return client
