"""Schedules of Dramatiq's messages: put at run time, and declared by actors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dramatiq.broker import Broker
from dramatiq.message import Message

from fairqueue import ConfigurationError, FairQueue, Schedule
from fairqueue.adapters import Due, Placed, Runner
from fairqueue_dramatiq._options import SCHEDULE, WORKSPACE, workspace_of_call
from fairqueue_dramatiq._publish import batches

KEPT = ("queue_name", "actor_name", "args", "kwargs", "options")


class DramatiqRunner(Runner):
    """Publishes ticks as the broker's other messages, with the hooks of its middleware."""

    kind = "dramatiq"

    def __init__(self, broker: Broker, queue: FairQueue) -> None:
        super().__init__(queue.schedules.core, queue.settings.app or "dramatiq")
        self._broker, self._fair_queue = broker, queue

    def call_of(self, what: Any) -> tuple[str, dict[str, Any], Any]:
        """Keep a message but for its id; its workspace is found as for a publish."""
        if not isinstance(what, Message):
            raise ConfigurationError("a schedule publishes a message, such as report.message(7)")
        call = {name: getattr(what, name) for name in KEPT}
        return what.actor_name, call, workspace_of_call(self._broker, what, self._fair_queue)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Publish many in one call."""
        with batches.collect(lambda collected: collected.send(lambda _: 0.0), whole=False):
            yield

    def publish(self, due: Due) -> None:
        """Publish one message."""
        options = {**due.call["options"], WORKSPACE: due.workspace}
        if due.unique_key is not None:
            options["unique_key"] = due.unique_key
        call = {**due.call, "options": options, "message_id": due.message_id}
        self._broker.enqueue(Message(**call))

    def declared(self) -> Iterator[tuple[Placed, Schedule]]:
        """Give those of actors with the option ``schedule``."""
        for actor in list(self._broker.actors.values()):
            when = actor.options.get(SCHEDULE)
            if when is not None:
                yield self.placed(actor.actor_name, *self.call_of(actor.message())), when
