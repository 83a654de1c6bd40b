"""FairQueueMiddleware: what a user adds to a broker."""

from __future__ import annotations

import os
import secrets
from typing import Any

from dramatiq.broker import Broker
from dramatiq.middleware import Middleware

import fairqueue
from fairqueue import adapters
from fairqueue_dramatiq import _broker_kinds
from fairqueue_dramatiq._broker_proxy import BrokerProxy
from fairqueue_dramatiq._options import OPTIONS, check_actor_options
from fairqueue_dramatiq._schedules import DramatiqRunner
from fairqueue_dramatiq.errors import ConfigurationError


class FairQueueMiddleware(Middleware):
    """Gives every actor of a broker fair order, limits per workspace, leases and typed errors.

    ``url`` is the core's: ``redis://``, ``rediss://``, ``unix://``, ``redis+sentinel://``,
    ``memory://``, or the URL of a Celery app, ``fairqueue://``; several servers are
    ``redis://h1:6379,h2:6379/0``, a Cluster is ``redis+cluster://h1:6379,h2:6379/0``. Nothing is
    connected yet. The default is the variable ``FAIRQUEUE_URL``, and on a StubBroker a memory store
    of its own.
    Settings are those of :class:`fairqueue.Settings`, as keyword arguments, in the URL's query, or
    as ``FAIRQUEUE_*`` variables. Raises ConfigurationError (or WorkspaceUnresolved, for a resolver
    that cannot be loaded) for what is unknown or impossible.

    Declare actors that use ``workspace=``, ``unique_key=``, ``unique_for=``, ``expires=`` or
    ``schedule=`` after adding the middleware.
    """

    def __init__(self, *, url: str | None = None, **settings: Any) -> None:
        url = url or os.environ.get("FAIRQUEUE_URL")
        rest, in_url = adapters.split_settings(url) if url else ("", {})
        self._settings = fairqueue.Settings.load({**in_url, **settings})
        adapters.check_sources(self._settings.workspace_from)
        self._core = fairqueue.FairQueue(rest, settings=self._settings) if rest else None
        self._proxy: BrokerProxy | None = None

    @property
    def actor_options(self) -> set[str]:
        """Options that an actor may have."""
        return set(OPTIONS)

    def bind(self, broker: Broker) -> BrokerProxy:
        """Replace this broker's methods; that is never undone."""
        if self._proxy is None:
            if BrokerProxy.is_installed(broker):
                raise ConfigurationError(
                    "this broker has a FairQueueMiddleware already: add it once"
                )
            self._proxy = BrokerProxy(broker, self._core or self._default_core(broker))
        elif self._proxy.broker is not broker:
            raise ConfigurationError(
                "a FairQueueMiddleware serves one broker: create another for the other broker"
            )
        return self._proxy

    def _default_core(self, broker: Broker) -> fairqueue.FairQueue:
        if _broker_kinds.kind_of(broker) == _broker_kinds.STUB:
            url = f"memory://stub-{secrets.token_hex(8)}"
            return fairqueue.FairQueue(url, settings=self._settings)
        raise ConfigurationError(
            f"FairQueueMiddleware on a {type(broker).__name__} needs the URL of the core's Redis: "
            "FairQueueMiddleware(url='redis://…'), or the variable FAIRQUEUE_URL"
        )

    # Hooks, each of which may be the first that knows the broker

    def before_declare_queue(self, broker: Broker, queue_name: str) -> None:
        """Bind before a worker can start a consumer for the queue."""
        self.bind(broker)

    def after_declare_queue(self, broker: Broker, queue_name: str) -> None:
        """Bind to a broker that had this queue already."""
        self.bind(broker)

    def before_declare_actor(self, broker: Broker, actor: Any) -> None:
        """Bind, and refuse invalid options."""
        self.bind(broker)
        check_actor_options(actor.options, self._settings)

    def after_declare_actor(self, broker: Broker, actor: Any) -> None:
        """Bind, and mark the actor's function.

        Before Dramatiq 2, this hook gets the name of an actor that was declared earlier; binding
        has marked that one.
        """
        proxy = self.bind(broker)
        if not isinstance(actor, str):
            proxy.mark(actor)

    def before_enqueue(self, broker: Broker, message: Any, delay: int | None) -> None:
        """Bind for the next message; this first one goes to the user's broker, and is adopted."""
        self.bind(broker)

    def before_worker_boot(self, broker: Broker, worker: Any) -> None:
        """A worker starts."""
        self.bind(broker).start_worker(worker)

    def after_worker_thread_boot(self, broker: Broker, thread: Any) -> None:
        """A thread of a worker has started, and takes its first message next."""
        self.bind(broker).guard(thread)

    def before_worker_shutdown(self, broker: Broker, worker: Any) -> None:
        """A worker is about to stop."""
        self.bind(broker).drain()

    def after_worker_shutdown(self, broker: Broker, worker: Any) -> None:
        """A worker has stopped."""
        self.bind(broker).stop_worker()


def install(broker: Broker, *, url: str | None = None, **settings: Any) -> FairQueueMiddleware:
    """Add the middleware to a broker and bind it at once.

    Use it in a producer that declares no actor: a middleware that is only added gets its broker
    with the first message, and that message still goes to the user's own broker.
    """
    middleware = FairQueueMiddleware(url=url, **settings)
    broker.add_middleware(middleware)
    middleware.bind(broker)
    return middleware


def queue_of(broker: Broker) -> fairqueue.FairQueue:
    """The core queue behind a broker: to pause, cancel, ask why, set limits and so on.

    It has the middleware's settings and shares its connections: do not close it. Raises
    ConfigurationError for a broker without the middleware.
    """
    return proxy_of(broker).core


def schedules_of(broker: Broker) -> adapters.Schedules:
    """Return the schedules of a broker's namespace: to put, list, pause and remove them.

    ``put`` takes a message, such as ``report.message(7)``. Raises ConfigurationError for a broker
    without the middleware.
    """
    queue = queue_of(broker)
    return adapters.Schedules(queue.schedules.core, DramatiqRunner(broker, queue))


def proxy_of(broker: Broker) -> BrokerProxy:
    """What stands between a broker and its core; ConfigurationError as for :func:`queue_of`."""
    for middleware in broker.middleware:
        if isinstance(middleware, FairQueueMiddleware):
            return middleware.bind(broker)
    raise ConfigurationError(
        "this broker has no FairQueueMiddleware: broker.add_middleware(FairQueueMiddleware(…))"
    )
