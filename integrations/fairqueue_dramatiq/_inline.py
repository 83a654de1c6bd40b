"""Runs an actor in the process that would have sent its message, while Redis is away."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from inspect import iscoroutinefunction, unwrap
from typing import Any

from dramatiq.asyncio import get_event_loop_thread
from dramatiq.broker import Broker, MessageProxy
from dramatiq.middleware import SkipMessage

import fairqueue
from fairqueue import adapters
from fairqueue_dramatiq._options import merged_options, workspace_of_call

NOT_INLINE = frozenset(
    {"eta", "expires", "group_completion_uuid", "on_failure", "on_success", "pipe_target"}
)
"""Options of a message that does more than to run an actor once, now."""


def may_run_inline(
    broker: Broker, message: Any, core: fairqueue.FairQueue, error: fairqueue.StoreUnavailable
) -> bool:
    """Whether a message that could not be sent is to run here, and is surely not stored."""
    options = merged_options(broker, message)
    return (
        options.get("on_unavailable", core.settings.on_unavailable) == "inline"
        and not error.may_be_stored
        and adapters.running_job() is None
        and message.actor_name in broker.actors
        and NOT_INLINE.isdisjoint(options)
    )


def run_inline(broker: Broker, message: Any, core: fairqueue.FairQueue) -> None:
    """Run it once, with the hooks of a run; what it raises is raised, and not tried again."""
    core.outages.ran_inline()
    actor = broker.get_actor(message.actor_name)
    run = MessageProxy(message.copy(options={"throws": BaseException}))  # so nothing is a retry
    workspace = partial(workspace_of_call, broker, message, core)
    try:
        broker.emit_before("process_message", run)
        with adapters.run_stand_in(message.message_id, workspace):
            result = _call(actor, *message.args, **message.kwargs)
    except SkipMessage:
        broker.emit_after("skip_message", run)
    except BaseException as error:
        broker.emit_after("process_message", run, exception=error)
        raise
    else:
        broker.emit_after("process_message", run, result=result)


def _call(actor: Any, *args: Any, **kwargs: Any) -> Any:
    """Call an actor; an async one in an event loop of its own, unless a worker's is here."""
    function: Any = unwrap(actor.fn, stop=iscoroutinefunction)
    if not iscoroutinefunction(function) or get_event_loop_thread() is not None:
        return actor(*args, **kwargs)
    with ThreadPoolExecutor(1) as thread:  # a loop may run in this one
        return thread.submit(copy_context().run, asyncio.run, function(*args, **kwargs)).result()
