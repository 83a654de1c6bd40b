"""Dead letters of all workspaces: find those that match, and replay or delete each of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from fairqueue._keys import decode, encode
from fairqueue._stores import replies
from fairqueue._stores.repairs import RepairStore
from fairqueue._types import DeadLetter
from fairqueue.lists import DeadFilter

WORKSPACES_AT_ONCE = 200
LETTERS_AT_ONCE = 100


class DeadStore(RepairStore):
    """The part of the store for the dead letters of many workspaces."""

    def dead_workspaces(self) -> Iterator[tuple[float, str]]:
        """Give the workspaces with dead letters, each with the time of its oldest; some twice."""
        cursor = b""
        while cursor != b"0":
            cursor, *found = self._call(
                "dead_workspaces", cursor=cursor or b"0", count=WORKSPACES_AT_ONCE
            )
            for name, oldest in zip(found[::2], found[1::2], strict=True):
                yield float(oldest), decode(name)

    def choose_dead(self, choice: DeadFilter) -> Iterator[DeadLetter]:
        """Give the dead letters that match, without payloads: by workspace, the oldest first.

        Each step looks at a bounded number of letters. While they are given, others may come.
        """
        names = [choice.workspace]
        if not choice.workspace:
            names = list(dict.fromkeys(name for _, name in sorted(self.dead_workspaces())))
        for name in names:
            yield from self._chosen_of(name, choice)

    def _chosen_of(self, workspace: str, choice: DeadFilter) -> Iterator[DeadLetter]:
        named: dict[str, Any] = {
            "workspace": encode(workspace),
            "id": encode(choice.job_id),
            "queue": encode(choice.queue),
            "task": encode(choice.task),
            "reason": encode(choice.reason),
            "text": choice.text,
            "since": choice.since,
            "until_then": "+inf" if choice.until == float("inf") else choice.until,
        }
        for skip in count(step=LETTERS_AT_ONCE):
            looked_at, *found = self._call("choose_dead", skip=skip, count=LETTERS_AT_ONCE, **named)
            for job_id, letter in zip(found[::2], found[1::2], strict=True):
                yield replies.dead_letter(job_id, letter, decode)
            if looked_at < LETTERS_AT_ONCE:
                break
