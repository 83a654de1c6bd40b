"""Connections of redis-py's own pools that do not stay with a server that has stepped down."""

from __future__ import annotations

from typing import Any

import redis
from redis.exceptions import ResponseError

from fairqueue._settings import servers_of
from fairqueue._stores.redis.address import client_at
from fairqueue._stores.redis.errors import is_from_wrong_server, remedy_of


def following_primary(connection_class: Any) -> Any:
    """Return such connections, which close once the server may no longer be the primary.

    The caller gets a ``redis.ConnectionError``, as for a broken link, and the next call connects
    again. redis-py would keep the connection, and be refused by a deposed primary for as long as it
    runs.
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
    """Return redis-py's client for a core URL, over such connections; not connected yet.

    It connects to the first of several servers, which has kombu's own queues and lists, or in a
    Cluster to the node with the slot of this hash tag.
    """
    client = client_at(servers_of(url)[0], tag)
    pool = client.connection_pool
    pool.connection_class = following_primary(pool.connection_class)
    return client
