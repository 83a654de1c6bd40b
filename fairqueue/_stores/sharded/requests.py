"""Web requests in flight, of a sharded store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from fairqueue._stores import replies
from fairqueue._stores.engine import WorkspaceMoves
from fairqueue._stores.sharded.asking import each
from fairqueue._stores.sharded.quotas import MOVES
from fairqueue._stores.sharded.shards import Shards
from fairqueue._stores.store import Store
from fairqueue._types import AdmittedRequest

TOTAL = "requests:total:"


class ShardedRequests(Shards):
    """A ticket names its workspace, so it is of that workspace's shard."""

    def _of_ticket(self, ticket: str) -> Store:
        return self.home(replies.workspace_of_ticket(ticket))

    def admit_request(
        self, ticket: str, *, lease_seconds: float, waiting_most: int
    ) -> AdmittedRequest:
        """Admit a request, or let it wait; where others have room, its shard gets some of it."""
        home = self._of_ticket(ticket)

        def admit() -> AdmittedRequest:
            return home.admit_request(
                ticket, lease_seconds=lease_seconds, waiting_most=waiting_most
            )

        reply = admit()
        for _ in range(MOVES):
            if reply.scope != "total" or len(self.shards) == 1:
                return reply
            if not self.quotas.make_room(TOTAL, home):
                used = self.quotas.used_when_full(TOTAL)
                return reply if used is None else replace(reply, in_flight=used)
            reply = admit()
        return reply

    def end_request(self, ticket: str) -> bool:
        """End a request; False: it is over."""
        return self._of_ticket(ticket).end_request(ticket)

    def renew_requests(
        self, owner: str, *, lease_seconds: float, tickets: Sequence[str] = ()
    ) -> int:
        """Renew all tickets of an owner, on every shard; return how many it has in all."""
        of_shard = defaultdict[Store, list[str]](list)
        for ticket in tickets:
            with suppress(WorkspaceMoves):  # what moves takes them along
                of_shard[self._of_ticket(ticket)].append(ticket)

        def renew(shard: Store) -> int:
            some = of_shard.get(shard, ())
            return shard.renew_requests(owner, lease_seconds=lease_seconds, tickets=some)

        return sum(each(self.shards, renew))

    def count_requests(self, workspace: str) -> tuple[int, int, int]:
        """Count the requests in flight in all, and those of a workspace."""
        home = self.home(workspace)
        counts = {shard: shard.count_requests(workspace) for shard in self.every}
        in_all = sum(in_flight for in_flight, *_ in counts.values())
        return in_all, *counts[home][1:]
