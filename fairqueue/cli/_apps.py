"""Use the queue of a Celery app, or of a Dramatiq broker, instead of a URL."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import click

from fairqueue import FairQueue
from fairqueue.adapters import mask_password, needs_extra
from fairqueue.cli._connect import APP, AppQueue, BadUsage
from fairqueue.cli._typed import PREFIX, words_before

Command = Callable[..., None]


def use_celery_app(group: Command) -> Command:
    """Let the commands of a group of Celery's program use the queue of its app."""

    @wraps(group)
    def using(**_preload_options: Any) -> None:
        context = click.get_current_context()
        app = context.obj.app
        context.meta[APP] = AppQueue(_shown_app(app), lambda: _queue_of_app(app))
        context.meta[PREFIX] = words_before(context)
        group()

    return using


def _shown_app(app: Any) -> str:
    urls = app.conf.broker_write_url or app.conf.broker_url or "no broker URL"
    url = urls if isinstance(urls, str) else ";".join(urls)
    return f"{mask_password(url)} (app {app.main})"


def _queue_of_app(app: Any) -> FairQueue:
    from fairqueue_celery import queue_of  # noqa: PLC0415 - Celery is an extra

    return queue_of(app)


def broker_option(group: Command) -> Command:
    """Add ``--broker``, whose queue the commands use then."""

    @click.option(
        "--broker",
        metavar="MODULE[:NAME]",
        help="Use the queue of this Dramatiq broker, else of the module's global one.",
    )
    @wraps(group)
    def using(broker: str | None) -> None:
        if broker is not None:
            context = click.get_current_context()
            if "://" in broker:  # it may have a password
                raise BadUsage("--broker takes MODULE[:NAME], such as shop.tasks:broker, no URL")
            found = AppQueue(f"broker {broker}", lambda: _queue_of_broker(broker))
            context.meta[APP] = found
            context.meta[PREFIX] = f"{context.info_name} --broker {shlex.quote(broker)}"
        group()

    return using


def _queue_of_broker(reference: str) -> FairQueue:
    with needs_extra("--broker", "dramatiq", BadUsage):
        from dramatiq import Broker, get_broker  # noqa: PLC0415 - an extra

        from fairqueue_dramatiq import queue_of  # noqa: PLC0415 - needs it
    named = _imported(reference)
    broker = get_broker() if named is None else named
    if not isinstance(broker, Broker):
        kind = type(broker).__name__
        raise BadUsage(f"--broker {reference!r} is of type {kind}, not a Dramatiq broker")
    return queue_of(broker)


def _imported(reference: str) -> Any:
    """Import ``module:name`` and return it; None, if only the module is named."""
    module, _, name = reference.partition(":")
    sys.path.insert(0, "")  # as Dramatiq's own program does
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part) if part else None
    except Exception as error:  # noqa: BLE001 - the user's module may raise anything
        raise BadUsage(f"cannot import --broker {reference!r}: {error!r}") from None
    finally:
        sys.path.remove("")
    return found
