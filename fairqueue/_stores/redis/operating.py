"""What operators ask of the Redis store: cancel, purge and dead letters, page by page."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from fairqueue._keys import decode, encode
from fairqueue._store import Store
from fairqueue._stores.limits_text import limits_in, text_of
from fairqueue._stores.redis import reasons, replies
from fairqueue._types import Cancelled, DeadLetter, Job, Limits, Pause, Why
from fairqueue._wire import Value

PAGE = 100
MOST_DROPPED = 500  # jobs in one call: a few milliseconds


class Operating(Store):
    """The operators' half of the store."""

    @abstractmethod
    def _call(self, name: str, /, **values: Value) -> Any:
        """Run one operation."""

    @abstractmethod
    def _task(self, number: bytes) -> str:
        """Name a task."""

    def get_limits(self, scope: str, name: str) -> list[tuple[str, Limits]]:
        """Read what is stored."""
        found = self._call("get_limits", scope=scope, name=encode(name))
        pairs = zip(found[::2], found[1::2], strict=True)
        read = [(source.decode(), limits_in(text.decode())) for source, text in pairs]
        return [(source, limits) for source, limits in read if limits != Limits()]

    def give_limits(
        self, workspace: str, limits: Limits | None, *, age_seconds: float = 0.0
    ) -> bool:
        """Keep what a provider says."""
        text = "" if limits is None else text_of(limits) or "named=1"
        where = encode(workspace)
        return bool(self._call("give_limits", workspace=where, text=text, age_seconds=age_seconds))

    def to_ask(self, *, n: int, older_seconds: float, forget_seconds: float) -> list[str]:
        """Take who is due."""
        names = self._call(
            "to_ask", n=n, older_seconds=older_seconds, forget_seconds=forget_seconds
        )
        return [decode(name) for name in names]

    def ask_again(self, workspace: str) -> bool:
        """Make one due."""
        return bool(self._call("ask_again", workspace=encode(workspace)))

    def why(self, *, workspace: str | None, job_id: str | None, queue: str | None) -> Why:
        """Look why something waits."""
        where = {"workspace": workspace, "queue": queue, "id": job_id}
        named = {argument: encode(name or "") for argument, name in where.items()}
        return reasons.why(self._call("why", **named), job_id, self._task)

    def purge(
        self, queue: str | None = None, workspace: str | None = None, task: str | None = None
    ) -> Iterator[int]:
        """Drop what waits, page by page."""
        named = {"queue": queue, "workspace": workspace, "task": task}
        where = {kind: encode(name or "") for kind, name in named.items()}
        cursor = b"0"
        while cursor:
            cursor, dropped = self._call(
                "purge", cursor=cursor, count=PAGE, most=MOST_DROPPED, **where
            )
            yield int(dropped)

    def cancel(self, job_id: str, queue: str | None = None) -> Cancelled:
        """Cancel one job."""
        found = self._call("cancel", queue=encode(queue or ""), id=encode(job_id))
        return Cancelled(found.decode())

    def withdraw(self, job_id: str, queue: str) -> Job | None:
        """Take one job out of where it waits."""
        found = self._call("withdraw", queue=encode(queue), id=encode(job_id))
        return replies.job(job_id, queue, found[0], self._task) if found else None

    def find(self, queue: str, text: bytes, words: Collection[bytes] = ()) -> Iterator[list[str]]:
        """Look for a text, page by page."""
        cursor = b""
        while cursor != b"0":
            cursor, *found = self._call(
                "find",
                queue=encode(queue),
                cursor=cursor or b"0",
                count=PAGE,
                text=text,
                words=b"\n".join(words),
            )
            yield [decode(job_id) for job_id in found]

    def cancel_running(self, workspace: str) -> Iterator[int]:
        """Cancel what runs, page by page."""
        cursor = b""
        while cursor != b"0":
            cursor, told = self._call(
                "cancel_running", workspace=encode(workspace), cursor=cursor or b"0", count=PAGE
            )
            yield int(told)

    def dead_letters(
        self, workspace: str, *, job_id: str | None = None, start: int = 0, count: int = 100
    ) -> list[DeadLetter]:
        """Read a page of them."""
        found = self._call(
            "dead_letters",
            workspace=encode(workspace),
            id=encode(job_id or ""),
            start=start,
            count=count,
        )
        pairs = zip(found[::2], found[1::2], strict=True)
        return [replies.dead_letter(*pair, self._task) for pair in pairs]

    def replay(
        self, workspace: str, *, job_id: str | None = None, spacing_seconds: float = 0.0
    ) -> Iterator[int]:
        """Publish them again, page by page."""
        until: Value = ""
        replayed, skipped, moved = 0, 0, PAGE
        while moved == PAGE:
            until, some, living = self._call(
                "replay",
                workspace=encode(workspace),
                id=encode(job_id or ""),
                until_then=until,
                skip=skipped,
                count=PAGE,
                delay=replayed * spacing_seconds,
                spacing=spacing_seconds,
            )
            yield int(some)
            replayed, skipped, moved = replayed + some, skipped + living, some + living

    def drop_dead(self, workspace: str, *, job_id: str | None = None) -> Iterator[int]:
        """Drop them, page by page."""
        until: Value = ""
        dropped = PAGE
        while dropped == PAGE:
            until, dropped = self._call(
                "drop_dead",
                workspace=encode(workspace),
                id=encode(job_id or ""),
                until_then=until,
                count=PAGE,
            )
            yield int(dropped)

    def take_notices(
        self, queues: Sequence[str], *, n: int, hold_seconds: float
    ) -> list[DeadLetter]:
        """Take some for a while."""
        found = self._call(
            "take_notices", queues=" ".join(map(encode, queues)), n=n, hold_seconds=hold_seconds
        )
        pairs = zip(found[1::3], found[2::3], strict=True)
        return [replies.dead_letter(*pair, self._task) for pair in pairs]

    def drop_notices(self, letters: Sequence[DeadLetter]) -> int:
        """They have been told."""
        names = ((each.job.queue, each.job.workspace, each.job.id) for each in letters)
        text = " ".join(":".join(map(encode, triple)) for triple in names)
        return int(self._call("drop_notices", notices=text))

    def pause(self, scope: str, name: str, how: Pause | None) -> Pause | None:
        """Pause, drain or resume."""
        before = self._call("pause", scope=scope, name=encode(name), how=how.value if how else "")
        return Pause(before.decode()) if before else None

    def pauses(self) -> dict[tuple[str, str], Pause]:
        """Read what is held."""
        found = self._call("pauses")
        triples = zip(found[::3], found[1::3], found[2::3], strict=True)
        return {(of.decode(), decode(name)): Pause(how.decode()) for of, name, how in triples}
