"""The auditor's operations: read heads of records, and rebuild what it has found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairqueue._stores.views import ListStore

HEADS_AT_ONCE = 200


class RepairStore(ListStore):
    """The auditor's part of the store."""

    def heads(self, kind: str, name: str, cursor: bytes) -> list[bytes]:
        """Return a page of the jobs of a queue (``jobs``) or of ``dead_letters``, without payloads.

        The next cursor comes first, then ids and first lines in turn; names are encoded.
        """
        found: Any = self._call("heads", kind=kind, name=name, cursor=cursor, count=HEADS_AT_ONCE)
        return list(found)

    def rebuild(self, what: str, names: Sequence[str], extra: str = "") -> str:
        """Rebuild one thing that the auditor has found; return what was done, in a word, or ''.

        One atomic step, which looks again and changes nothing that is sound. Names are encoded.
        """
        word: bytes = self._call("rebuild", what=what, names="\n".join(names), extra=extra)
        return word.decode()
