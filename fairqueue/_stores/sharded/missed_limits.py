"""Tells shards of live limits that they have missed, since they were away when these were set.

The call that set them has failed, and left a note on a shard that has them. The process that moves
quotas copies them from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial

from fairqueue._stores.quotas import Missed
from fairqueue._stores.sharded.asking import Errors, each
from fairqueue._stores.store import Store
from fairqueue._types import Limits
from fairqueue.errors import FairQueueError, StoreUnavailable

log = logging.getLogger("fairqueue.quotas")


def on_all(
    shards: Sequence[Store],
    scope: str,
    name: str,
    set_limits: Callable[[Store], object],
    *,
    need_first: bool,
) -> None:
    """Set live limits on every shard; where one is away, leave a note on another one.

    ``need_first``: change nothing where the first one is away. Without it quotas do not move, and
    the others would have none of the limit.
    """
    told: list[Store] = []

    def tell(shard: Store) -> None:
        set_limits(shard)
        told.append(shard)

    try:
        if need_first:
            tell(shards[0])
        each(shards[need_first:], tell)
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


def tell_missed(shards: Sequence[Store], errors: Errors) -> None:
    """Set what was noted on the shards that have missed it, as it stands where it was noted.

    A shard that has missed something itself is no source of it. What fails is added to the errors,
    and tried again with the next call.
    """
    noted: dict[Store, list[Missed]] = {}
    for shard in shards:
        _try(errors, shard, partial(_read, noted, shard))
    behind = {missed for found in noted.values() for missed in found}
    for source, found in noted.items():
        for missed in found:
            _try(errors, shards[missed.shard], partial(_tell, shards, source, missed, behind))


def _read(noted: dict[Store, list[Missed]], shard: Store) -> None:
    noted[shard] = shard.missed_limits()[1]


def _try(errors: Errors, shard: Store, ask: Callable[[], object]) -> None:
    if errors.are_of(shard):
        return
    try:
        ask()
    except Exception as error:  # noqa: BLE001 - the first one is raised when all were asked
        errors.add(shard, error)


def _tell(
    shards: Sequence[Store], source: Store, missed: Missed, behind: Collection[Missed]
) -> None:
    scope, name, number = missed
    is_source = Missed(scope, name, shards.index(source)) not in behind
    before = _live(source, scope, name)
    if is_source:
        shards[number].set_limits(scope, name, before, replaces=True)
    if _live(source, scope, name) == before:
        source.missed_limits(forgotten=[missed])
        if is_source:
            log.warning(
                "shard %d has missed limits of %s %r, and has them now", number, scope, name
            )


def _live(shard: Store, scope: str, name: str) -> Limits | None:
    found = shard.get_limits(scope, name)
    return next((each.limits for each in found if each.source == "live"), None)
