"""FairQueueMiddleware: what a user adds to a broker."""

from __future__ import annotations

import os
import secrets
from typing import Any

from dramatiq.broker import Broker
from dramatiq.middleware import Middleware

import fairqueue
from fairqueue_dramatiq import brokers
from fairqueue_dramatiq.errors import ConfigurationError
from fairqueue_dramatiq.front import Front
from fairqueue_dramatiq.options import OPTIONS, check_actor
from fairqueue_dramatiq.workspace import OPTION


class FairQueueMiddleware(Middleware):
    """Gives every actor of a broker fair order, limits per workspace, leases and typed refusals.

    ``url`` is the core's: ``redis://``, ``rediss://``, ``unix://``, ``memory://``. Without one,
    ``FAIRQUEUE_URL`` counts; a StubBroker then takes a memory store of its own. Settings are those
    of :class:`fairqueue.Settings`, as keyword arguments, in the URL's query, or as ``FAIRQUEUE_*``
    variables. Raises ConfigurationError (or, for a resolver that cannot be loaded,
    WorkspaceUnresolved) for what is unknown or impossible.

    Actors that use ``workspace=``, ``unique_key=``, ``unique_for=`` or ``expires=`` are declared
    after it was added.
    """

    def __init__(self, *, url: str | None = None, **settings: Any) -> None:
        self._url = url or os.environ.get("FAIRQUEUE_URL")
        rest, in_url = fairqueue.split_settings(self._url) if self._url else (None, {})
        self._rest = rest
        self._settings = fairqueue.Settings.load({**in_url, **settings})
        fairqueue.check_sources(self._settings.workspace_from)
        self._front: Front | None = None

    @property
    def actor_options(self) -> set[str]:
        """Options that an actor may have."""
        return {OPTION, *OPTIONS}

    def bind(self, broker: Broker) -> Front:
        """Put the core before this broker; once done, it stays so."""
        if self._front is None:
            self._check_alone(broker)
            url = self._rest or self._default_url(broker)
            self._front = Front(broker, fairqueue.FairQueue(url, settings=self._settings))
        elif self._front.broker is not broker:
            raise ConfigurationError(
                "one FairQueueMiddleware serves one broker: make another for the other broker"
            )
        return self._front

    @staticmethod
    def _check_alone(broker: Broker) -> None:
        if Front.is_before(broker):
            raise ConfigurationError("this broker has a FairQueueMiddleware already: add it once")

    @staticmethod
    def _default_url(broker: Broker) -> str:
        if brokers.is_stub(broker):
            return f"memory://stub-{secrets.token_hex(8)}"
        raise ConfigurationError(
            f"FairQueueMiddleware on a {type(broker).__name__} needs the URL of the core's Redis: "
            "FairQueueMiddleware(url='redis://…'), or the variable FAIRQUEUE_URL"
        )

    # Hooks, each of which may be the first that knows the broker

    def before_declare_queue(self, broker: Broker, queue_name: str) -> None:
        """Bind before a worker can start a consumer for it."""
        self.bind(broker)

    def after_declare_queue(self, broker: Broker, queue_name: str) -> None:
        """Bind to a broker that had this queue already."""
        self.bind(broker)

    def before_declare_actor(self, broker: Broker, actor: Any) -> None:
        """Bind, and refuse options that cannot be."""
        self.bind(broker)
        check_actor(actor.options)

    def after_declare_actor(self, broker: Broker, actor: Any) -> None:
        """Bind, and mark the actor's function.

        Before Dramatiq 2 an actor that was there already is told by name; binding has marked it.
        """
        front = self.bind(broker)
        if not isinstance(actor, str):
            front.mark(actor)

    def before_enqueue(self, broker: Broker, message: Any, delay: int | None) -> None:
        """Bind, for the next one: this first message goes by the user's broker, and is adopted."""
        self.bind(broker)

    def before_worker_boot(self, broker: Broker, worker: Any) -> None:
        """A worker begins."""
        self.bind(broker).boot(worker)

    def before_worker_shutdown(self, broker: Broker, worker: Any) -> None:
        """A worker is about to stop."""
        self.bind(broker).drain()

    def after_worker_shutdown(self, broker: Broker, worker: Any) -> None:
        """A worker has stopped."""
        self.bind(broker).shut_down()


def install(broker: Broker, *, url: str | None = None, **settings: Any) -> FairQueueMiddleware:
    """Add the middleware to a broker and bind it at once.

    For a producer that declares no actor: a middleware that was only added learns of its broker
    with the first message, which then still goes by the user's own broker.
    """
    middleware = FairQueueMiddleware(url=url, **settings)
    broker.add_middleware(middleware)
    middleware.bind(broker)
    return middleware


def queue_of(broker: Broker) -> fairqueue.FairQueue:
    """The core queue behind a broker: to pause, cancel, ask why, set limits and so on.

    With the middleware's own settings, over the connections that its publishes use: leave it
    open. Raises ConfigurationError for a broker without the middleware.
    """
    for middleware in broker.middleware:
        if isinstance(middleware, FairQueueMiddleware):
            return middleware.bind(broker).core
    raise ConfigurationError(
        "this broker has no FairQueueMiddleware: broker.add_middleware(FairQueueMiddleware(…))"
    )
