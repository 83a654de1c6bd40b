"""See whether everything is sound, and mend it: the part of ``queue.admin`` for ``doctor``."""

from __future__ import annotations

from itertools import chain

from fairqueue._lists import Lists
from fairqueue._stores.store import AnyStore
from fairqueue.audit import Audit, Checkup, Finding, Mended, certain_findings, checkup, mend
from fairqueue.audit.shards import named, of_layout, of_servers


class Upkeep(Lists):
    """Check the keys, the server and the workers."""

    def audit(self) -> list[Finding]:
        """Check every key against the invariants; return what does not hold.

        Every key of the namespace is read, page by page. That is no atomic step, so a finding
        counts only if further looks find it again. On a large namespace it takes memory and time.
        If there are several shards, each text says on which one it was found.
        """
        return list(named([found for _, found in _looks(self._connected())]))

    def mend(self) -> Mended:
        """Mend what :meth:`audit` finds; return each repair, and what does not hold still.

        It may run beside workers: each step mends one thing, looks again before, and changes
        nothing that is sound. No job whose record can be read is lost. Keys of others, what was set
        aside, and a limit that is exceeded until it has drained are only named.
        """
        return mend(self._connected())

    def checkup(self, *, repair: bool = False) -> Checkup:
        """Check the keys, the server and the workers; with ``repair`` mend the keys first."""
        store = self._connected()
        mended = mend(store) if repair else Mended()
        seen = _looks(store)
        told = chain(
            of_servers(store),
            of_layout(store),
            checkup.remarks([look for look, _ in seen], self.list_workers()),
            checkup.limits_remark(self.list_limits()),
        )
        found = named([of_shard for _, of_shard in seen])
        return Checkup(self._settings.namespace, tuple(told), tuple(found), mended.repairs)

    def drop_set_aside(self) -> int:
        """Forget what was set aside because it could not be read; return how many records it was.

        An audit names each of them until then.
        """
        return self._connected().drop_set_aside()


def _looks(store: AnyStore) -> list[tuple[Audit, list[Finding]]]:
    return [certain_findings(shard.engine) for shard in store.shards]
