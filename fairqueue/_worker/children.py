"""Children of a running task: what ``fairqueue.step`` needs of a framework to send and await them.

A task that waits for a child is suspended: its run ends, and its job is given back, so it holds no
slot, no process and no delivery. It runs again from the top once the child has ended.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, NamedTuple

from fairqueue._types import JobState
from fairqueue.errors import FairQueueError

log = logging.getLogger("fairqueue.step")

POLL_SECONDS = 30.0
"""A suspended task looks again after so long, should the word of its child's end be lost."""


class Child(NamedTuple):
    """A child that was sent, as its parent notes it."""

    id: str
    workspace: str
    queue: str
    task: str


class Ended(NamedTuple):
    """The end of a child."""

    value: Any = None
    error: BaseException | None = None


class InPlace:
    """Runs children where they are sent: in eager mode, and where a test calls a task.

    An adapter has a class of these methods, for the process that runs their parent.
    """

    def __init__(self) -> None:
        self._ended: dict[str, Ended] = {}

    def call(self, task: Any, args: Any, kwargs: Any) -> tuple[Any, str, str]:
        """Return what is sent of a task, signature or message, its queue if known, and its task."""
        return partial(task, *args, **kwargs), "", getattr(task, "__name__", "a task")

    def send(self, call: Any, child: Child, _parent: list[str]) -> Child:
        """Run it; its error is raised by ``step.result``.

        An adapter publishes it, exempt from capacity, unless its id is there already, and returns
        where it is.
        """
        try:
            self._ended[child.id] = Ended(call())
        except Exception as error:  # noqa: BLE001 - as another task would have it
            self._ended[child.id] = Ended(error=error)
        return child

    def ended(self, child: Child) -> Ended | None:
        """Return the end of a child; None: it has not ended.

        An adapter raises ConfigurationError if there will be no result.
        """
        return self._ended.get(child.id)


def is_over(store: Any, child: Child) -> bool:
    """Whether a child without a result has ended, and none will come.

    A worker stores the error of a killed child some seconds after its death.
    """
    found = store.why(workspace=child.workspace, job_id=child.id, queue=None)
    just_died = found.state is JobState.DEAD and found.now < found.since + POLL_SECONDS
    return found.state in {JobState.ENDED, JobState.DEAD, JobState.UNKNOWN} and not just_died


def wake_parent(store: Any, parent: Any) -> None:
    """Tell the parent of a child that the child has ended (for adapters).

    ``parent`` is what the child carries. A parent that is not told looks again by itself.
    """
    try:
        store.wake_parent(*map(str, parent))
    except (FairQueueError, TypeError, ValueError) as error:
        log.warning("the end of a child did not reach its parent, which looks again: %s", error)
