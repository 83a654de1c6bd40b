"""What a worker's process tells operators about itself: its name, versions, queues and slots."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property

from fairqueue._background import recent_failures
from fairqueue._settings import Settings
from fairqueue._stores.limits_text import digest
from fairqueue._stores.sharded.asking import Errors, answers
from fairqueue._stores.store import Store
from fairqueue._types import INTRODUCED_EVERY_SECONDS, App
from fairqueue._utils import Throttle
from fairqueue.errors import FairQueueError, StoreUnavailable

log = logging.getLogger("fairqueue.claimer")

MOST_NAMED = 100  # queues of which a new one is told at once

Queues = Callable[[], Sequence[str]]
Number = Callable[[], int | None]
Names = Callable[[], Iterable[str]]


@cache  # it is read from a file
def _own_version() -> str:
    # It imports the package email, and most programs only publish.
    from importlib.metadata import version  # noqa: PLC0415

    return f"fairqueue/{version('fairqueue')}"


class Presence:
    """Announces an owner with its first claim, every half minute, and when its queues change.

    An owner whose leases are shorter is announced once in each; at last, that it has stopped.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known = ""
        """The owner whose presence is known, and that did not stop."""
        self._takes: Sequence[str] = ()
        """The queues that were told: at its end a worker consumes none any more."""
        self.node = ""
        """The name that the framework gives this worker."""
        self._framework = ""
        self._queues: Queues | None = None
        self._slots: Number | None = None
        self._app = settings.app or ""
        self._tasks: Names | None = None
        self.restart()

    def describe(
        self,
        node: str,
        *,
        software: str = "",
        queues: Queues | None = None,
        slots: Number | None = None,
        app: str = "",
        tasks: Names | None = None,
    ) -> None:
        """Set the name of this worker's node, such as ``celery@host``, and what else is told.

        ``software`` is the framework's version, such as ``celery/5.4``, ``queues`` those that the
        worker takes jobs from (default: those that it has claimed from), and
        ``slots`` how many jobs it can run at once, and ``tasks`` those that it knows. These are
        asked each time, from any thread. ``app``: its name, if no setting gives one.
        """
        self.node, self._framework = node, f" {software}"
        self._queues, self._slots, self._tasks = queues, slots, tasks
        self._app = self._settings.app or app
        self.restart()

    def restart(self) -> None:
        """Tell it with the next claim or renewal: this is another owner, or takes other queues."""
        self._throttle = Throttle(min(INTRODUCED_EVERY_SECONDS, self._settings.lease_seconds))
        self._named: set[str] = set()  # what was told, or is about to be

    def before_claim(self, queues: Sequence[str], shards: Sequence[Store], owner: str) -> None:
        """Announce the owner if that is due.

        A refused announcement does not stop the claim; a store that is unreachable does.
        """
        new = not self._named.issuperset(queues) and len(self._named) < MOST_NAMED
        self._named.update(queues)
        if not self._throttle.passes() and not new:
            return
        try:
            self._give(shards, owner)
        except StoreUnavailable:
            self.restart()
            raise  # so would the claim, and nothing is claimed yet
        except FairQueueError as error:
            log.warning("'fairqueue workers' does not list owner %s: %s", owner, error)

    def with_renewal(self, shards: Sequence[Store], owner: str) -> None:
        """Tell it if it is time, while a worker whose slots are all taken does not claim."""
        if owner != self._known or not self._throttle.passes():
            return
        try:
            self._give(shards, owner)
        except Exception as error:  # noqa: BLE001 - the renewal counts, and a later one tells it
            self.restart()
            log.info("'fairqueue workers' is not up to date about owner %s: %s", owner, error)

    def end(self, shards: Sequence[Store], owner: str) -> None:
        """Tell that this owner has stopped, if it is known; the next claim is a heartbeat again."""
        if owner != self._known:
            return
        self._known = ""
        try:
            self._tell(shards, owner, lease_seconds=0.0)
        except FairQueueError as error:
            log.info("'fairqueue workers' does not know that owner %s stopped: %s", owner, error)
        self.restart()

    def _give(self, shards: Sequence[Store], owner: str) -> None:
        self._takes = sorted(self._named) if self._queues is None else self._queues()
        self._tell(shards, owner, lease_seconds=self._settings.lease_seconds)
        self._known = owner
        for shard in shards:
            shard.engine.watch()

    @cached_property
    def _limits(self) -> str:
        return digest(self._settings.stored_limits())

    def _tell(self, shards: Sequence[Store], owner: str, *, lease_seconds: float) -> None:
        """Tell all that answer; raise if none does."""
        errors = Errors()
        app = None if self._tasks is None else App(self._app, tuple(self._tasks()))
        failing = recent_failures()
        told = {"failing": failing} if failing else {}  # releases before 0.1.0 refuse the field

        def tell(shard: Store) -> bool:
            shard.heartbeat(
                owner,
                self.node,
                _own_version() + self._framework,
                queues=self._takes,
                slots=self._slots() if self._slots is not None else None,
                lease_seconds=lease_seconds,
                limits=self._limits,
                app=app,
                **told,
            )
            return True

        if not any([*answers(shards, tell, errors)]):
            errors.raise_first()
