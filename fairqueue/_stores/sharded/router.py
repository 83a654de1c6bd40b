"""Sends an operation to the shards that its header names, and joins their answers.

``ROUTE`` says which shards are asked. A sharded store refuses an operation without it: only a
claimer, an auditor or a move calls it, on one shard.

- ``workspace``: the shard of the workspace that the call names; all shards if it names none
- ``ticket``: the shard of the workspace of a request
- ``fence``: the shard that has issued it
- ``scope``: the shard of a workspace; all shards for every other scope
- ``all``: all shards
- ``first``: the first shard, which keeps something for all
- ``there``: all shards that have answered since this process connected; the others are asked once
  they answer
- ``turns``: all shards, from another one on each time

A single shard is asked directly.

``MERGE`` says how the answers join, see ``merges.py``. With ``own`` the sharded store has a method
of several steps. Without it the first of these shards is asked.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from typing import Any

from fairqueue._stores.library import operations, route_of
from fairqueue._stores.replies import workspace_of_ticket
from fairqueue._stores.sharded.merges import MERGES
from fairqueue._stores.sharded.shards import Shards
from fairqueue._stores.store import Store, StoreBase


class Router(Shards):
    """Has a method for each routed operation; see below."""

    def _ask(self, operation: str, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        route, merge, fields = route_of(operation)
        if route and len(self.every) == 1:
            return getattr(self.shards[0], operation)(*args, **named)
        if not route:
            raise TypeError(f"{operation} concerns one shard: ask each of store.shards by itself")
        given = _signature(operation).bind(self, *args, **named).arguments

        def call(shard: Store, **changed: Any) -> Any:
            return getattr(shard, operation)(*args, **{**named, **changed})

        shards = self._shards_of(route, given)
        if route == "there" and merge == "told":
            self.later(call)
        return MERGES[merge](shards, call, given, *fields)

    def _shards_of(self, route: str, given: Mapping[str, Any]) -> tuple[Store, ...]:
        workspace = None
        match route:
            case "first":
                return self.shards[:1]
            case "there":
                return self.there
            case "turns":
                return self.in_turn
            case "workspace":
                workspace = given.get("workspace")
            case "fence":
                shard = self.of_fence(given["fence"])
                return self.shards[:1] if shard is None else (shard,)
            case "ticket":
                workspace = workspace_of_ticket(given["ticket"])
            case "scope" if given["scope"] == "workspace":
                workspace = given["name"]
        return (self.home(workspace),) if workspace else self.every


@cache
def _signature(operation: str) -> inspect.Signature:
    return inspect.signature(getattr(StoreBase, operation))


def _method(operation: str) -> Callable[..., Any]:
    @wraps(getattr(StoreBase, operation))
    def ask(self: Router, /, *args: Any, **named: Any) -> Any:
        return self._ask(operation, args, named)

    return ask


for name in operations():
    if hasattr(StoreBase, name):
        setattr(Router, name, _method(name))
