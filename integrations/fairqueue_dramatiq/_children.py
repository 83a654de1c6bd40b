"""Sends the children of a running actor as messages, and reads their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dramatiq import Message
from dramatiq.broker import Broker
from dramatiq.common import q_name
from dramatiq.results import ResultFailure, ResultMissing, Results

import fairqueue
from fairqueue.adapters import PARENT, Child, Ended
from fairqueue_dramatiq._options import exempt_workspace, merged_options
from fairqueue_dramatiq.errors import ConfigurationError


@dataclass(frozen=True)
class Children:
    """The children of one run of an actor."""

    broker: Broker
    core: fairqueue.FairQueue

    def call(self, task: Any, args: Any, kwargs: Any) -> tuple[Any, str, str]:
        """Make a message of it."""
        if not (isinstance(task, Message) or hasattr(task, "message")):  # a class may be an actor
            raise ConfigurationError(f"a child is an actor or a message, not {task!r:.80}")
        message = task if isinstance(task, Message) else task.message()
        message = message.copy(args=(*message.args, *args), kwargs={**message.kwargs, **kwargs})
        return message, q_name(message.queue_name), message.actor_name

    def send(self, call: Any, child: Child, parent: list[str]) -> Child:
        """Publish it; its job has the id of the message."""
        message = call.copy(message_id=child.id, options={PARENT: parent})
        workspace = exempt_workspace(self.broker, message, self.core)
        self.broker.enqueue(message)
        return child._replace(workspace=workspace or self.core.settings.default_workspace)

    def ended(self, child: Child) -> Ended | None:
        """Ask the backend of ``Results``; raises ConfigurationError if it will have no result."""
        message = Message(child.queue, child.task, (), {}, {}, message_id=child.id)
        results = next((m for m in self.broker.middleware if isinstance(m, Results)), None)
        of_all = {"store_results": results is not None and results.store_results}
        stores = {**of_all, **merged_options(self.broker, message)}["store_results"]
        if results is None or (child.task in self.broker.actors and not stores):
            raise ConfigurationError(
                f"actor {child.task} stores no result that another process can read: add the "
                "middleware Results to the broker, and set store_results=True on the actor"
            )
        try:
            return Ended(message.get_result(backend=results.backend))
        except ResultMissing:
            return None
        except ResultFailure as error:
            return Ended(error=error)
