"""The shards of a store, and which of them is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairqueue._shards import shard_of, shard_of_fence
from fairqueue._stores.sharded.quotas import Quotas
from fairqueue._stores.store import Store


class Shards:
    """The parts of a sharded store ask its shards by these."""

    def __init__(self, shards: Sequence[Store]) -> None:
        self._all = tuple(shards)
        for shard in self._all:
            shard.is_spread = len(self._all) > 1
        self.quotas = Quotas(self._all)
        """What moves the parts of limits that are wider than a shard."""

    @property
    def shards(self) -> tuple[Store, ...]:
        """Each shard as a store of its own, in their order."""
        return self._all

    @property
    def there(self) -> tuple[Store, ...]:
        """Those that have answered since this process connected."""
        return tuple(shard for shard in self._all if shard.engine.late_check is None)

    def later(self, call: Callable[[Store], object]) -> None:
        """Make a call to each of the others once it answers, before any other call to it."""
        for shard in self._all:
            if shard.engine.late_check is not None:
                shard.engine.late_check.then(call)

    def home(self, workspace: str) -> Store:
        """Return the shard on which a workspace lives."""
        return self._all[shard_of(workspace, len(self._all))]

    def of_fence(self, fence: int) -> Store | None:
        """Return the shard that has issued a fence; None: it is of no shard here."""
        number = shard_of_fence(fence)
        return self._all[number] if number < len(self._all) else None
