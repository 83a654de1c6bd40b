"""Tells shards of live limits that they have missed, since they were away when these were set.

The call that set them has failed, and left a note on a shard that has them. A process that claims
copies them from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

from fairqueue._stores.permits import Missed
from fairqueue._stores.sharded.asking import Answers, each
from fairqueue._stores.store import Store
from fairqueue._types import Limits
from fairqueue.errors import FairQueueError, StoreUnavailable

log = logging.getLogger("fairqueue")


def on_all(
    shards: Sequence[Store],
    scope: str,
    name: str,
    set_limits: Callable[[Store], object],
    *,
    home: int | None,
) -> None:
    """Set live limits on every shard; where one is away, leave a note on another one.

    ``home``: change nothing where this one is away. It gives the permits of the limit.
    """
    told: list[Store] = []

    def tell(shard: Store) -> None:
        set_limits(shard)
        told.append(shard)

    try:
        if home is not None:
            tell(shards[home])
        each([shard for shard in shards if shard not in told], tell)
    except StoreUnavailable:
        missed = [Missed(scope, name, n) for n, shard in enumerate(shards) if shard not in told]
        _note(told, missed)
        raise


def _note(told: Sequence[Store], missed: Sequence[Missed]) -> None:
    for shard in told:
        try:
            shard.missed_limits(noted=missed)
        except FairQueueError as error:
            log.warning("could not note that shards have missed limits: %s", error)
        else:
            return


def tell_missed(shards: Sequence[Store], asked: Answers) -> None:
    """Set what was noted on the shards that have missed it, as it stands where it was noted.

    A shard that has missed something itself is no source of it. What fails is tried again with the
    next call.
    """
    noted = asked.all(lambda shard: shard.missed_limits())
    behind = set(chain.from_iterable(noted.values()))
    for source, found in noted.items():
        for missed in found:
            is_source = missed._replace(shard=source) not in behind
            asked.ask(missed.shard, partial(_tell, shards[source], missed, is_source=is_source))


def _tell(source: Store, missed: Missed, shard: Store, *, is_source: bool) -> None:
    before = _live(source, missed)
    if is_source:
        shard.set_limits(missed.scope, missed.name, before, replaces=True)
    if _live(source, missed) == before:
        source.missed_limits(forgotten=[missed])
        if is_source:
            log.warning(
                "shard %d has missed limits of %s %r, and has them now",
                missed.shard,
                missed.scope,
                missed.name,
            )


def _live(shard: Store, missed: Missed) -> Limits | None:
    found = shard.get_limits(missed.scope, missed.name)
    return next((each.limits for each in found if each.source == "live"), None)
