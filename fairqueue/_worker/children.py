"""Children of a running task: what ``fairqueue.step`` needs of a framework to send and await them.

A task that waits for a child is suspended: its run ends, and its job is given back, so it holds no
slot, no process and no delivery. It runs again from the top once the child has ended.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol
from uuid import NAMESPACE_URL, uuid5

from fairqueue._types import JobState
from fairqueue.errors import FairQueueError

log = logging.getLogger("fairqueue.step")

POLL_SECONDS = 30.0
"""A suspended task looks again after so long, should the word of its child's end be lost."""
SETTLES_SECONDS = 1.0
"""A framework may store the result of a child a moment after its job has ended."""
FAILED = "failed "
"""Before a child's number: the next attempt of its parent sends another, under another id."""

OVER = {JobState.ENDED, JobState.DEAD, JobState.UNKNOWN}


@dataclass(frozen=True)
class Child:
    """A child that was sent, as its parent notes it."""

    id: str
    workspace: str
    queue: str
    task: str


class Framework(Protocol):
    """What an adapter does with children, in the process that runs their parent."""

    def call(self, task: Any, args: Any, kwargs: Any) -> tuple[Any, str, str]:
        """Make what is sent of a task with arguments, or of a signature or message.

        Returns its queue, if that is known, and the name of its task, too.
        """

    def send(self, call: Any, child: Child, parent: list[str]) -> Child:
        """Publish it, exempt from capacity, unless its id is there already; say where it is."""

    def ended(self, child: Child) -> Ended | None:
        """Look for its result: None, it has not ended. Or raise ConfigurationError."""


class Ended(NamedTuple):
    """The end of a child."""

    value: Any = None
    error: BaseException | None = None


class InPlace:
    """Runs children where they are sent: in eager mode, and where a test calls a task."""

    def __init__(self) -> None:
        self._ended: dict[str, Ended] = {}

    def call(self, task: Any, args: Any, kwargs: Any) -> tuple[Any, str, str]:
        """Tasks, actors and signatures can be called."""
        return partial(task, *args, **kwargs), "", getattr(task, "__name__", "a task")

    def send(self, call: Any, child: Child, _parent: list[str]) -> Child:
        """Run it; its error is raised by ``step.result``."""
        try:
            self._ended[child.id] = Ended(call())
        except Exception as error:  # noqa: BLE001 - as another task would have it
            self._ended[child.id] = Ended(error=error)
        return child

    def ended(self, child: Child) -> Ended | None:
        """Return the end of a child: one that runs in place has ended once it was sent."""
        return self._ended.get(child.id)


def id_of(workspace: str, task_id: str, name: str, number: int) -> str:
    """Return the id of a child: the same in all runs of its parent."""
    return str(uuid5(NAMESPACE_URL, json.dumps([workspace, task_id, name, number])))


def key_of(name: str, number: int | str) -> str:
    """Return the key under which a child is noted among the steps; a name has no line break."""
    return f"{name}\n{number}"


def number_of(name: str, kept: Iterable[str]) -> int:
    """Return which child of this name is the present one."""
    return sum(key.startswith(key_of(name, FAILED)) for key in kept)


def is_over(store: Any, child: Child) -> bool:
    """Whether a child that has no result is alive no more."""
    found = store.why(workspace=child.workspace, job_id=child.id, queue=None)
    return found.state in OVER


def wake_parent(store: Any, parent: Any) -> None:
    """Tell the parent of a child that the child has ended (for adapters).

    ``parent`` is what the child carries. A parent that is not told looks again by itself.
    """
    try:
        workspace, task_id = map(str, parent)
        store.wake_parent(workspace, task_id)
    except (FairQueueError, TypeError, ValueError) as error:
        log.warning("the end of a child did not reach its parent, which looks again: %s", error)
