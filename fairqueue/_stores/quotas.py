"""Quotas: what each shard has of a limit that is wider than itself; the operations on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from fairqueue._keys import decode, encode
from fairqueue._stores.operators import OperatorStore

PAGE = 20
"""Limits whose needs are looked at in one call: each has flows, and these lanes."""


QUEUES = 50
"""Queues that one call passes while they are idle."""
LEDGER_PAGE = 100
"""Limits of the ledger that one call looks through."""
PLACES = ("limits", "kinds", "nodes")


class Place(NamedTuple):
    """Where a list of limits goes on."""

    part: int = 0
    cursor: str = "0"
    has_default: bool = False
    """Queues are under a default, so each that is known has a limit."""


class Need(NamedTuple):
    """What a shard has of one limit, and what it needs."""

    limit: str
    """``what:scope:name``, with the name as in keys."""
    whole: int
    """The limit itself, as this shard has it stored."""
    quota: int
    epoch: int
    used: int
    demand: float
    """Jobs or requests that could start but for this limit."""
    weight: float
    """Of the flows of these jobs."""
    departures: int = 0
    """How often something has left the shard and taken its part of the quota along."""
    fills: float = 0.0
    """Of a rate: seconds after which a unit of its burst has a token again."""
    tokens: float = 0.0
    """Of a rate: as many could start now."""
    has_started: bool = False
    """Of a rate: a job has, since the shard was given its units."""


class Granted(NamedTuple):
    """What the ledger has of one shard; ``quota`` is None until it has told what it uses."""

    quota: int | None
    epoch: int


class Change(NamedTuple):
    """One quota to be changed."""

    limit: str
    shard: int
    quota: int = 0
    """-1, in a note: not known any more."""
    epoch: int = 0
    whole: int = 0
    """The limit, as the process that moves quotas has seen it."""
    departures: int = 0
    """As many as that process has seen there: if there are more, nothing is raised."""
    tokens: float = 0.0
    """Of a rate: those in the units that are taken or given."""


class Tenure(NamedTuple):
    """Whether an owner is to move quotas."""

    is_mine: bool
    seconds: float
    """For how long nothing changes about it."""
    is_needed: bool = True
    """False: the shard has no limit that is wider than itself."""


class Missed(NamedTuple):
    """Live limits that a shard did not get, since it was away when they were set or removed."""

    scope: str
    name: str
    shard: int

    def line(self) -> str:
        """Write it as it is stored."""
        return f"{self.scope}:{encode(self.name)} {self.shard}\n"

    @classmethod
    def read(cls, words: str) -> Missed:
        """Read it back."""
        limit, _, number = words.partition(" ")
        scope, _, name = limit.partition(":")
        return cls(scope, decode(name), int(number))


def scope_of(limit: str) -> tuple[str, str]:
    """Return the scope of a limit, and the name as people know it."""
    _, scope, name = limit.split(":", 2)
    return scope, decode(name)


def _lines(changes: Iterable[Change], *words: str) -> str:
    return "".join(
        " ".join(str(getattr(change, word)) for word in ("limit", *words)) + "\n"
        for change in changes
    )


class QuotaStore(OperatorStore):
    """The operations on quotas; the ledger is on the first shard."""

    def quota_needs(self, scopes: Sequence[tuple[str, str]] = (), *, what: str = "") -> list[Need]:
        """Say what this shard needs of each limit, or of those of some ``(scope, name)``.

        ``what``: of "concurrency", "capacity", "requests" or "rate" only.
        """
        if scopes:
            return list(self._needs_of(scopes, what))
        needs, _ = self.quota_needs_from(Place())
        return needs

    def quota_needs_from(
        self, place: Place, *, pages: int | None = None
    ) -> tuple[list[Need], Place]:
        """Say what this shard needs of the limits on some pages, and where to go on.

        It ends where the list does. Queues under a default are left out while they are idle and
        have a part of it.
        """
        found: dict[str, Need] = {}
        for _ in range(pages) if pages else count():
            needs, place = self._needs_at(place)
            found.update({need.limit: need for need in needs})
            if place == Place():
                break
        return list(found.values()), place

    def _needs_at(self, at: Place) -> tuple[list[Need], Place]:
        cursor, has_default, needs = self._needs_page(
            place=PLACES[at.part], cursor=at.cursor, n=PAGE if at.part == 0 else QUEUES
        )
        at = at._replace(cursor=cursor, has_default=at.has_default or has_default)
        if cursor != "0":
            return needs, at
        is_last = not at.has_default or at.part + 1 == len(PLACES)
        return needs, Place() if is_last else at._replace(part=at.part + 1)

    def _needs_of(self, scopes: Sequence[tuple[str, str]], what: str) -> Iterator[Need]:
        for at in range(0, len(scopes), PAGE):
            page = scopes[at : at + PAGE]
            names = " ".join(f"{scope}:{encode(name)}" for scope, name in page)
            yield from self._needs_page(names=names, what=what)[2]

    def _needs_page(
        self, *, names: str = "", what: str = "", place: str = "", cursor: str = "0", n: int = PAGE
    ) -> tuple[str, bool, list[Need]]:
        following, has_default, *rows = self._call(
            "quota_needs", names=names, what=what, place=place, cursor=cursor, count=n
        )
        return following.decode(), bool(has_default), [_need(row.decode()) for row in rows]

    def set_quotas(self, changes: Sequence[Change]) -> list[Change]:
        """Set quotas here, each only if its epoch is newer; return what is to be noted of these.

        That is the quota or what is used, whichever is more, and the tokens that were taken.
        """
        text = _lines(changes, "quota", "epoch", "whole", "tokens", "departures")
        reply = map(_pair, self._call("set_quotas", changes=text))
        return [
            change._replace(quota=now, tokens=tokens)
            for change, (now, tokens) in zip(changes, reply, strict=True)
            if now >= 0
        ]

    def tend_quotas(
        self, owner: str, *, seconds: float, has_moved: bool = False, is_needed: bool = False
    ) -> Tenure:
        """Ask whether this owner is to move quotas, and for how long that stays so.

        ``has_moved``: it has moved them since it last asked, and so the doctor is content.
        ``is_needed``: also where this shard has no limit that is wider than itself.
        """
        whose, left = self._call(
            "tend_quotas",
            owner=encode(owner),
            seconds=seconds,
            moved=int(has_moved),
            needed=int(is_needed),
        )
        return Tenure(whose == 1, float(left), is_needed=whose >= 0)

    def missed_limits(
        self, *, noted: Iterable[Missed] = (), forgotten: Iterable[Missed] = ()
    ) -> tuple[bool, list[Missed]]:
        """Note live limits that other shards have missed, or forget that.

        Return whether this shard has a limit that is wider than itself, and what is noted now.
        """
        has_wide, *words = self._call(
            "missed_limits",
            noted="".join(map(Missed.line, noted)),
            forgotten="".join(map(Missed.line, forgotten)),
        )
        return bool(has_wide), [Missed.read(each.decode()) for each in words]

    def old_quotas(self, cursor: str) -> tuple[list[str], str]:
        """Return limits of a page of the ledger that none needs any more, as far as is known here.

        And where the next page begins; "0" is the first one.
        """
        following, *limits = self._call("old_quotas", cursor=cursor, count=LEDGER_PAGE)
        return [limit.decode() for limit in limits], following.decode()

    def quota_ledger(self, limits: Sequence[str], *, shards: int) -> list[list[Granted]]:
        """Return for each limit what is granted to each shard."""
        lines = self._call("quota_ledger", shards=shards, limits=" ".join(limits))
        return [[_granted(text) for text in line.decode().split()] for line in lines]

    def open_quotas(self, changes: Sequence[Change], *, shards: int) -> list[Change]:
        """Give quotas that are to be lowered a new epoch; each is never above what is granted."""
        reply = self._call("open_quotas", shards=shards, changes=_lines(changes, "shard"))
        pairs = (map(int, words.split()) for words in reply)
        return [
            change._replace(quota=min(change.quota, most), epoch=epoch)
            for change, (epoch, most) in zip(changes, pairs, strict=True)
            if epoch
        ]

    def note_quotas(self, changes: Sequence[Change], *, shards: int) -> int:
        """Note what shards have now, each only if its epoch is still that one; how many were."""
        text = _lines(changes, "shard", "epoch", "quota", "tokens")
        return int(self._call("note_quotas", shards=shards, changes=text))

    def grant_quotas(self, changes: Sequence[Change], *, shards: int) -> list[Change]:
        """Grant more, each only while the sum stays within the limit; return those granted."""
        text = _lines(changes, "shard", "quota", "whole")
        reply = self._call("grant_quotas", shards=shards, changes=text)
        return [
            change._replace(epoch=epoch, tokens=tokens)
            for change, (epoch, tokens) in zip(changes, map(_pair, reply), strict=True)
            if epoch
        ]


def _need(row: str) -> Need:
    limit, whole, quota, epoch, used, demand, weight, departures, *of_rate = row.split()
    numbers = int(float(whole)), int(quota), int(epoch), int(used)
    need = Need(limit, *numbers, float(demand), float(weight), int(departures))
    if not of_rate:
        return need
    fills, tokens, has_started = of_rate
    return need._replace(fills=float(fills), tokens=float(tokens), has_started=has_started == "1")


def _pair(words: bytes) -> tuple[int, float]:
    n, tokens = words.split()
    return int(n), float(tokens)


def _granted(text: str) -> Granted:
    quota, epoch = text.split(":")
    return Granted(None if quota == "-" else int(quota), int(epoch))
