"""The permits that a process holds for jobs under limits wider than a shard.

A job is leased on its shard first; then permits are taken at the homes of its limits. If one is
refused, the job goes back uncounted. A permit whose job has ended serves the next job, unless
others wait for it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from random import uniform
from time import monotonic
from typing import NamedTuple

from fairqueue._background import BackgroundLoop
from fairqueue._keys import encode
from fairqueue._shards.placement import shard_of_fence
from fairqueue._stores.permits import UNUSED, Change, Told, adopted, home_of
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.store import Store, StoreBase
from fairqueue._types import Lease, Renewed
from fairqueue.errors import FairQueueError

log = logging.getLogger("fairqueue.claimer")

KEEP_SECONDS = 0.25
"""How long after its home said that none waits a permit is used again without asking."""
REFUSED_SECONDS = 0.5
"""A refused owner asks again after this time, if nothing wakes it."""
LIFE = 1.5
"""In leases: a permit outlives its job's lease, even if that was renewed just before it."""
AT_ONCE = 500  # permits that one call renews
TOTAL = "total:"


class _Refusal(NamedTuple):
    until: float
    limits: tuple[str, ...]


class Permits:
    """The permits of one owner of leases; taken in one thread, renewed in any."""

    def __init__(self, store: ShardedStore, owner: str, lease_seconds: float) -> None:
        self._store, self._owner = store, encode(owner)
        self._seconds = LIFE * lease_seconds
        self._names = count(1)
        self._held: dict[int, dict[str, str]] = {}
        """By fence and limit."""
        self._renewals: dict[int, set[int]] = {}
        """The jobs of each renewal that is under way."""
        self._adopted: set[int] = set()
        """Fences of jobs that ran before their limit came."""
        self._spare: defaultdict[str, list[str]] = defaultdict(list)
        """Of jobs that have ended."""
        self._fresh: defaultdict[str, list[str]] = defaultdict(list)
        """Taken for jobs that have not started."""
        self._doubtful: list[tuple[str, str]] = []
        """Limits and permits that their homes may have given, but no job uses: freed with the next
        call. Any thread adds to it, at any time."""
        self._freed: list[tuple[str, str]] = []
        """Those freed during a renewal, which may have put them back: they are freed again."""
        self._alone_until: dict[str, float] = {}
        """By limit: until when no other owner is believed to wait for it."""
        self._refusals: dict[str, _Refusal] = {}
        """By queue."""
        store.refused.clear()
        self._loop = BackgroundLoop("permits", log)

    def open_queues(
        self, queues: Sequence[str], n: int, *, is_woken: bool
    ) -> tuple[list[str], int]:
        """Return the queues whose jobs may start, and how many jobs, as far as is known.

        For refused queues, permits for up to ``n`` jobs are taken first, if it is time to ask
        again.
        """
        if not self._refusals:
            return list(queues), n
        wanted, now = dict[str, tuple[str, ...]](), monotonic()
        for queue in queues if n > 0 else ():
            known = self._refusals.get(queue)
            if known and (
                is_woken or known.until <= now or any(self._spare[each] for each in known.limits)
            ):
                wanted[queue] = known.limits
        taken = self._ask(wanted, n) if wanted else {}
        found = [each for each in queues if each not in self._refusals or taken.get(each)]
        return found, min(n, sum(taken.values())) if taken.keys() >= set(found) else n

    def _ask(self, wanted: Mapping[str, tuple[str, ...]], n: int) -> dict[str, int]:
        """Take permits ahead of the claim; return for how many jobs of each queue."""
        asked = [(queue, limit) for queue, limits in wanted.items() for limit in limits]
        told = self._take([(limit, _turn(limit, queue), n) for queue, limit in asked])
        found = dict.fromkeys(wanted, n)
        for (queue, _), one in zip(asked, told, strict=True):
            found[queue] = min(found[queue], one.taken if one else 0)
        for queue, taken in found.items():
            if taken == n:
                self._refusals.pop(queue, None)
                self._store.refused.discard(queue)
            else:
                self._refuse(queue, wanted[queue])
        return found

    def _refuse(self, queue: str, limits: tuple[str, ...]) -> None:
        seconds = REFUSED_SECONDS * uniform(0.75, 1.25)  # noqa: S311 - no secret
        self._refusals[queue] = _Refusal(monotonic() + seconds, limits)
        self._store.refused.add(queue)

    def waits(self, queues: Iterable[str]) -> list[float]:
        """Return for how long some of these queues are refused."""
        found = (self._refusals.get(queue) for queue in queues)
        return [max(0.0, each.until - monotonic()) for each in found if each]

    def start(self, leases: Sequence[Lease]) -> dict[Lease, float]:
        """Take the permits that these jobs need, and free those that no job needs.

        Return the jobs that have to go back, and for how long their tasks close on their shards.
        """
        refused: dict[Lease, float] = {}
        limited = [lease for lease in leases if lease.wide_limits]
        for is_task in (True, False):  # a job that its task holds back takes no other permit
            left = [lease for lease in limited if lease not in refused]
            refused |= self._give(left, is_task=is_task)
        for lease in refused:
            for limit, permit in self._held.pop(lease.fence, {}).items():
                self._fresh[limit].append(permit)
        self.give_back()
        return refused

    def _give(self, leases: Iterable[Lease], *, is_task: bool) -> dict[Lease, float]:
        missing: dict[tuple[str, str], list[Lease]] = defaultdict(list)
        for lease in leases:
            held = self._held.get(lease.fence, {})
            for limit in lease.wide_limits:
                if limit.startswith("task:") is is_task and limit not in held:
                    permit = self._at_hand(limit)
                    if permit:
                        self._hold(lease, limit, permit)
                    else:
                        missing[limit, _turn(limit, lease.job.queue, lease.fence)].append(lease)
        refused: dict[Lease, float] = {}
        told = self._take([(*of, len(some)) for of, some in missing.items()])
        for ((limit, _), some), one in zip(missing.items(), told, strict=True):
            n = one.taken if one else 0
            for lease in some[:n]:
                self._hold(lease, limit, self._fresh[limit].pop())
            for lease in some[n:]:
                if is_task:
                    refused[lease] = one.wait_seconds if one else 2 * REFUSED_SECONDS
                else:
                    limits = tuple(one for one in lease.wide_limits if not one.startswith("task:"))
                    self._refuse(lease.job.queue, limits)
                    refused[lease] = 0.0
        return refused

    def _at_hand(self, limit: str) -> str | None:
        if self._fresh[limit]:
            return self._fresh[limit].pop()
        is_alone = monotonic() < self._alone_until.get(limit, 0.0)
        return self._spare[limit].pop() if self._spare[limit] and is_alone else None

    def _hold(self, lease: Lease, limit: str, permit: str) -> None:
        self._held.setdefault(lease.fence, {})[limit] = permit

    def ended(self, fences: Iterable[int]) -> None:
        """Keep the permits of jobs that have ended as spare ones."""
        for fence in fences:
            for running in list(self._renewals.values()):
                running.discard(fence)
            self._adopted.discard(fence)
            for limit, permit in self._held.pop(fence, {}).items():
                self._spare[limit].append(permit)

    def give_back(self) -> None:
        """Free the permits that no job uses."""
        held = (self._spare, self._fresh)
        limits = {limit for of in held for limit, permits in [*of.items()] if permits}
        limits.update(limit for limit, _ in [*self._doubtful])
        if limits:
            self._take([(limit, "-", 0) for limit in limits])

    def _take(self, wanted: Iterable[tuple[str, str, int]]) -> list[Told | None]:
        """Take permits for each ``(limit, turn, n)``, and free the spare ones of these limits.

        None: the home has not answered.
        """
        changes = []
        for limit, turn, n in wanted:
            spare = self._spare.pop(limit, [])
            if n == 0:
                spare += [f"{UNUSED}{permit}" for permit in self._fresh.pop(limit, [])]
            taken = [f"{self._owner}/{next(self._names)}" for _ in range(n)]
            changes.append(Change(limit, turn, spare, taken))
        told: list[Told | None] = [None] * len(changes)
        for home in {home_of(change.limit) for change in changes}:
            places = [at for at, change in enumerate(changes) if home_of(change.limit) == home]
            found = self._send(home, [changes[at] for at in places])
            for at, one in zip(places, found, strict=False):
                told[at] = one
        return told

    def _send(self, home: int, changes: Sequence[Change]) -> list[Told]:
        doubtful = [pair for pair in [*self._doubtful] if home_of(pair[0]) == home]
        late = defaultdict[str, list[str]](list)
        for limit, permit in doubtful:
            late[limit].append(permit)
        sent = [*(Change(limit, freed=permits) for limit, permits in late.items()), *changes]
        freed = [(of.limit, permit) for of in changes for permit in of.freed]
        taken = [(of.limit, permit) for of in changes for permit in of.taken]
        self._doubtful += freed + taken
        is_renewing = bool(self._renewals)
        try:
            told = self._store.shards[home].permits(sent, seconds=self._seconds)
        except Exception as error:  # noqa: BLE001 - jobs without such a limit go on
            self._failed(error)
            if not getattr(error, "may_be_stored", False):  # it gave none
                self._settle(taken)
            return []
        self._settle(doubtful + freed + taken)
        if is_renewing:
            self._freed += [(limit, each.removeprefix(UNUSED)) for limit, each in doubtful + freed]
            if not self._renewals:
                self._free_again()
        now = monotonic()
        for change, one in zip(sent, told, strict=True):
            self._fresh[change.limit] += change.taken[: one.taken]
            if change.turn != "-" or not change.limit.startswith("task:"):
                alone = 0.0 if one.has_others else now + KEEP_SECONDS
                self._alone_until[change.limit] = alone
            self._open(change.limit, one.opened)
            self._doubtful += [(change.limit, permit) for permit in self._ended(one.adopted)]
        return told[len(late) :]

    def _settle(self, pairs: Iterable[tuple[str, str]]) -> None:
        for pair in pairs:  # one of each: a renewal may have added it again
            self._doubtful.remove(pair)

    def _open(self, limit: str, shards: Iterable[int]) -> None:
        for number in shards:
            with suppress(FairQueueError):  # the task opens by itself before long
                self._store.shards[number].open_task(limit.partition(":")[2])

    def _ended(self, permits: Iterable[str]) -> Iterator[str]:
        """Give the adopted permits whose jobs have ended: their owners do not know them."""
        of_shard = defaultdict[Store | None, list[str]](list)
        for permit in permits:
            of_shard[self._store.of_fence(int(permit.rpartition(":")[2]))].append(permit)
        for shard, some in of_shard.items():
            with suppress(FairQueueError):  # they end by themselves before long
                yield from some if shard is None else shard.ended_permits(some)

    def _failed(self, error: Exception) -> None:
        self._loop.failed(
            "the home of a limit over all shards does not answer: no job starts under that limit, "
            "and those that run go on: %s",
            error,
        )

    @contextmanager
    def renewing(self, fences: Iterable[int]) -> Iterator[set[int]]:
        """Give the jobs of a renewal, without those that end while it is under way."""
        running = set(fences)
        self._renewals[id(running)] = running
        try:
            yield running
        finally:
            del self._renewals[id(running)]
            self._free_again()

    def _free_again(self) -> None:
        with suppress(IndexError):  # both threads may do it
            while True:
                self._doubtful.append(self._freed.pop())

    def renewed(self, store: StoreBase, running: set[int], renewed: Renewed) -> None:
        """Renew the permits of running jobs whose leases were; failures are retried next time.

        A job that started before its limit was set counts from now on.
        """
        running = running - renewed.lost
        self.ended({*renewed.lost, *(self._adopted - running)})
        for fence in running & renewed.wide.keys():
            limits, held = renewed.wide[fence], self._held.get(fence, {})
            if new := {limit: adopted(self._owner, fence) for limit in limits if limit not in held}:
                self._adopted.add(fence)
                self._held.setdefault(fence, {}).update(new)
        pairs = [pair for fence in running for pair in [*self._held.get(fence, {}).items()]]
        for home in {home_of(limit) for limit, _ in pairs}:
            here = [pair for pair in pairs if home_of(pair[0]) == home]
            for at in range(0, len(here), AT_ONCE):
                self._put(store.shards[home], here[at : at + AT_ONCE])

    def _put(self, home: Store, pairs: Iterable[tuple[str, str]]) -> None:
        permits = defaultdict[str, list[str]](list)
        for limit, permit in pairs:
            permits[limit].append(permit)
        try:
            home.permits(seconds=self._seconds, renewed=permits)
        except Exception as error:  # noqa: BLE001 - the leases are renewed
            self._failed(error)


def _turn(limit: str, queue: str, fence: int = 0) -> str:
    """Return in whose turn permits are given: a queue's, a shard's, or none."""
    if limit == TOTAL:
        return encode(queue)
    return str(shard_of_fence(fence)) if limit.startswith("task:") else "-"
