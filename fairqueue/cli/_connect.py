"""Open the queue for a command, and turn errors into exit codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from fairqueue import ConfigurationError, FairQueue, FairQueueError, StoreUnavailable
from fairqueue.adapters import mask_password
from fairqueue.cli._broker_url import core_url
from fairqueue.cli._format import printable

Command = TypeVar("Command", bound=Callable[..., Any])


class Problem(click.ClickException):
    """Ends a command with a message that is safe to print."""

    def __init__(self, message: str) -> None:
        super().__init__("\n".join(printable(line) for line in message.splitlines()))


class BadUsage(Problem):
    """The command cannot do what it was asked to do."""

    exit_code = 2


class NoConnection(Problem):
    """Redis cannot be reached."""

    exit_code = 3


def connection_options(command: Command) -> Command:
    """Add ``--url`` and ``--namespace`` to a command."""
    url = click.option(
        "--url",
        envvar="FAIRQUEUE_URL",
        default="redis://localhost:6379/0",
        show_default=True,
        show_envvar=True,
        help="The Redis that the workers use. A fairqueue:// broker URL works too.",
    )
    namespace = click.option(
        "--namespace",
        envvar="FAIRQUEUE_NAMESPACE",
        default=None,
        show_envvar=True,
        help="The app's key prefix, if it sets one.",
    )
    return url(namespace(command))


@contextmanager
def opened_queue(url: str, namespace: str | None, **settings: Any) -> Iterator[FairQueue]:
    """Open the queue at this URL. An error inside ends the command with its exit code.

    The server is checked, but no limits are stored: a command must not configure the queue.
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
def _exit_codes(url: str) -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        raise BadUsage(str(error)) from None
    except StoreUnavailable as error:
        raise NoConnection(f"{mask_password(url)}: {error}") from None
    except FairQueueError as error:
        raise Problem(str(error)) from None
