"""What operators do to a queue: a part for each kind of thing, such as ``queue.limits``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from fairqueue._settings import Settings
from fairqueue._stores.store import StoreBase
from fairqueue.operate.activity import Activities
from fairqueue.operate.acts import Acts
from fairqueue.operate.history import History
from fairqueue.operate.jobs import Jobs
from fairqueue.operate.limits import LiveLimits
from fairqueue.operate.pauses import Pauses
from fairqueue.operate.registry import Registry
from fairqueue.operate.statuses import Statuses

if TYPE_CHECKING:
    from fairqueue.operate.dead import DeadLetters
    from fairqueue.operate.doctor import Doctor
    from fairqueue.operate.views import Views

__all__ = [
    "Activities",
    "Acts",
    "History",
    "Jobs",
    "LiveLimits",
    "Operators",
    "Pauses",
    "Registry",
    "Statuses",
]


class Operators:
    """All parts of a :class:`fairqueue.FairQueue`.

    Every call applies to waiting jobs at once. It raises ConfigurationError for a name, id or value
    that is not allowed, and StoreUnavailable if the store cannot be reached.
    """

    def __init__(self, connected: Callable[[], StoreBase], settings: Settings) -> None:
        self.limits = LiveLimits(connected)
        self.pauses = Pauses(connected)
        self.jobs = Jobs(connected, settings)
        self.statuses = Statuses(connected)
        self.history = History(connected, settings)
        self.activity, self.acts = Activities(connected), Acts(connected)
        for part in ("pauses", "limits", "jobs"):
            self.acts.watch(getattr(self, part), part)
        self.registry = Registry(connected, settings)
        self._reached, self.settings = connected, settings

    # What follows imports the rows of all lists, which no worker needs.

    @cached_property
    def dead(self) -> DeadLetters:
        """Lists, replays and removes dead letters."""
        from fairqueue.operate.dead import DeadLetters  # noqa: PLC0415

        return self.acts.watch(DeadLetters(self._reached), "dead")

    @cached_property
    def views(self) -> Views:
        """Lists jobs, queues, workers and reasons."""
        from fairqueue.operate.views import Views  # noqa: PLC0415

        return Views(self._reached, self.settings)

    @cached_property
    def doctor(self) -> Doctor:
        """Checks and rebuilds keys, and changes the number of shards."""
        from fairqueue.operate.doctor import Doctor  # noqa: PLC0415

        return self.acts.watch(Doctor(self._reached, self.settings), "doctor")
