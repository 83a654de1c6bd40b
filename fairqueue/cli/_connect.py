"""Opens the store for a command, and turns errors into exit codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from fairqueue import (
    ConfigurationError,
    FairQueue,
    FairQueueError,
    Store,
    StoreUnavailable,
    mask_password,
)
from fairqueue.cli._broker_url import core_url
from fairqueue.cli._text import printable

Command = TypeVar("Command", bound=Callable[..., Any])


class Problem(click.ClickException):
    """Ends a command with a message that is safe to print."""

    def __init__(self, message: str) -> None:
        super().__init__("\n".join(printable(line) for line in message.splitlines()))


class BadUsage(Problem):
    """What was asked for cannot be."""

    exit_code = 2


class NoConnection(Problem):
    """The store cannot be reached."""

    exit_code = 3


def connection_options(command: Command) -> Command:
    """Add ``--url`` and ``--namespace`` to a command."""
    url = click.option(
        "--url",
        envvar="FAIRQUEUE_URL",
        default="redis://localhost:6379/0",
        show_default=True,
        show_envvar=True,
        help="The Redis that the workers use; a fairqueue:// broker URL will do too.",
    )
    namespace = click.option(
        "--namespace",
        envvar="FAIRQUEUE_NAMESPACE",
        default=None,
        show_envvar=True,
        help="Key prefix, if the app sets one.",
    )
    return url(namespace(command))


@contextmanager
def opened_queue(url: str, namespace: str | None, **settings: Any) -> Iterator[FairQueue]:
    """The queue at this URL; what goes wrong inside ends the command with its exit code.

    It is checked, but no limits are brought: an onlooker must not be the first to store some.
    """
    options = {**settings, "namespace": namespace} if namespace else settings
    with _exit_codes(url):
        queue = FairQueue(core_url(url), brings_limits=False, **options)
        try:
            queue.connect()
            yield queue
        finally:
            queue.close()


@contextmanager
def opened(url: str, namespace: str | None) -> Iterator[Store]:
    """The store at this URL, in the same way."""
    with opened_queue(url, namespace) as queue:
        yield queue.store


@contextmanager
def _exit_codes(url: str) -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        raise BadUsage(str(error)) from None
    except StoreUnavailable as error:
        raise NoConnection(f"no connection to {mask_password(url)}: {error}") from None
    except FairQueueError as error:
        raise Problem(str(error)) from None
