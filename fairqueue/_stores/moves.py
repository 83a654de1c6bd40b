"""The operations on one shard while workspaces move to another number of shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fairqueue._keys import decode, encode
from fairqueue._stores.layout import Mark
from fairqueue._stores.lists import ListStore
from fairqueue._types import StoredLimits
from fairqueue.errors import FairQueueError

Settings = dict[tuple[str, bytes], bytes]
"""Texts by their kind of hash and field."""
SETTINGS_AT_ONCE = 200
BEGIN, UNIQUE_KEYS = b"0", b"unique 0"
"""Cursors: of all that a workspace has, and after its jobs and dead letters."""


class Forwarding(NamedTuple):
    """Where a workspace has gone from a shard; None: it is still there."""

    to: int | None
    moves: bool
    """It is still moving: the other shard does not have all of it yet."""


def read_forwarding(text: bytes) -> Forwarding:
    if not text or text[:1] == b"|":
        return Forwarding(None, moves=False)
    return Forwarding(int(text.split()[0].lstrip(b"<>")), not text.isdigit())


def _late(workspace: str) -> FairQueueError:
    return FairQueueError(f"workspace {workspace!r} is moved by another process")


class MovesStore(ListStore):
    """The steps of a move; each is atomic and may be repeated."""

    def whereabouts(self, workspace: str, to: int | None = None) -> Forwarding:
        """Return whether a workspace has left this shard, and where to.

        ``to``: its shard after the change of their number. A workspace that is not known here
        counts as moved from now on.
        """
        name = encode(workspace)
        if to is None:
            text = self._moved("HGET", name)
        else:
            text = self._call("whereabouts", workspace=name, to=to)
        return read_forwarding(text or b"")

    def keep_forwarding(self, workspace: str, to: int | None) -> None:
        """Record that a workspace is on another shard than its name says; None: on this one.

        Once the change has ended, publishes ask for that.
        """
        name = encode(workspace)
        fields = (f"+{name}", 1) if to is None else (name, to)
        self._moved("HSET", *fields)
        if to is not None:
            self._moved("HDEL", f"+{name}")
        self.engine.command("HSET", self.engine.keys.key("limits"), "forwards", 1)

    def _moved(self, command: str, *arguments: str | int) -> Any:
        return self.engine.command(command, self.engine.keys.key("moved"), *arguments)

    def forget_forwardings(self, stays: Callable[[str, int], bool]) -> None:
        """Forget where workspaces have gone, and old parents, except those that ``stays`` keeps."""
        for field, text in list(self._scan("moved")):
            if field[:1] in {b"", b"+"}:
                continue
            to = self.engine.shard if field[:1] == b"@" else read_forwarding(text).to
            if to is None or not stays(decode(field.lstrip(b"@")), to):
                self._moved("HDEL", field.decode())

    def moving(self) -> Iterator[str]:
        """Yield the workspaces that are held here."""
        marks = (b"|", b">")
        yield from (decode(field) for field, text in self._scan("moved") if text[:1] in marks)

    def _scan(self, kind: str) -> Iterator[tuple[bytes, bytes]]:
        for _, page in self.entries(kind):
            yield from page.items()

    def names_parents(self) -> bool:
        """Whether a workspace has a parent, or lives elsewhere than its name says."""
        return any(
            field == b"forwards" or b"parent=" in text for field, text in self._scan("limits")
        )

    def is_parent(self, workspace: str) -> bool:
        """Whether a workspace was named as a parent, and so stays on this shard."""
        return bool(self._moved("HEXISTS", f"@{encode(workspace)}"))

    def keep_parent(self, workspace: str, *, is_parent: bool = True) -> None:
        """Keep a parent on this shard for good; or no longer, if it cannot be a parent."""
        field = f"@{encode(workspace)}"
        self._moved("HSET", field, 1) if is_parent else self._moved("HDEL", field)

    def would_store(self, limits: StoredLimits, *, authoritative: bool) -> bool:
        """Whether ``configure`` would store these limits."""
        mark = self.engine.command("HGET", self.engine.keys.key("limits"), "configured")
        stored: bytes = (mark or b"").strip(b"-")
        if not authoritative and stored:
            return False
        return stored != self._configured(limits)[1].encode()

    def set_moves(self, change: Mark | None, *, is_over: bool = False) -> None:
        """Let publishes ask whether their workspace has moved; None: end that.

        ``is_over``: all have moved, also those that are not known here.
        """
        self._call("set_moves", shards="!" if is_over else change.version if change else "")

    def hold_moves(self, owner: str, seconds: float) -> bool:
        """Acquire or extend the migration lock for so long; False: another process has it."""
        return bool(self._call("hold_moves", owner=encode(owner), seconds=seconds))

    def hold_workspace(self, workspace: str, to: int | None) -> int:
        """Pause a workspace; return how many of its jobs run. With 0 it is moving from now on.

        ``to`` None: its jobs may start here again, unless it is moving; this shard: it is expected.
        """
        name = encode(workspace)
        running = int(self._call("hold_workspace", workspace=name, to="" if to is None else to))
        if running < 0:
            raise _late(workspace)
        return running

    def pages(self, workspace: str, *, begin: bytes = BEGIN) -> Iterator[bytes]:
        """Yield a workspace's data, page by page; its limits are on the last one.

        Jobs come again until the caller has dropped them.
        """
        name = encode(workspace)
        for (items,) in self._steps("pages", begin, b"end", workspace=name):
            if items:
                yield items

    def take_in(self, workspace: str, items: bytes) -> bytes:
        """Store a page; return which of its items are here now. Jobs start after the last page."""
        found = self._call("take_in", workspace=encode(workspace), items=items)
        if found == 0:
            raise _late(workspace)
        return bytes(found)

    def drop_moved(self, workspace: str, items: bytes) -> bool:
        """Remove items that the other shard has taken in; False: the workspace does not move."""
        return bool(self._call("drop_moved", workspace=encode(workspace), items=items))

    def leave_shard(self, workspace: str, to: int, replaces: str = "moves") -> bool:
        """Record that a workspace lives elsewhere, since it has moved there, or for its parent.

        False, for its parent: it is a parent, or something of it is here but limits of the source
        that the caller ``replaces``. Raises WorkspaceMoves if it has left already.
        """
        name = encode(workspace)
        left = int(self._call("leave_shard", workspace=name, to=to, replaces=replaces))
        if left < 0:
            raise _late(workspace)
        return bool(left)

    def shard_settings(self) -> Settings:
        """Return the limits that concern all shards, and what is stored with them."""
        key = self.engine.keys.key("shard")
        found = {("shard", b"retention"): self.engine.command("HGET", key, "retention") or b""}
        for kind in ("limits", "stored_by"):
            for field, text in self._scan(kind):
                source, mark, scope = field.partition(b":")
                is_shared = mark and not scope.startswith(b"workspace:")
                if source == b"configured" or is_shared:
                    found[kind, field] = text
        return found

    def put_shard_settings(self, settings: Settings) -> None:
        """Store some of them; those without a text go."""
        rows = (
            b"%s %s %s\n" % (kind.encode(), *of, text) for (kind, *of), text in settings.items()
        )
        self._call("put_shard_settings", rows=b"".join(rows))
