"""Open the queue of a URL or an app for a command, and turn errors into exit codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

import click
import redis

from fairqueue import ConfigurationError, FairQueue, FairQueueError, Settings, StoreUnavailable
from fairqueue.adapters import BROKER_SCHEMES, mask_password
from fairqueue.cli._typed import CONNECTION, as_typed, is_given
from fairqueue.errors import AlreadyRunning
from fairqueue.plain import printable

Command = TypeVar("Command", bound=Callable[..., Any])


APP = "fairqueue.cli.app"
"""Key under which click's context keeps the app whose queue the commands use."""

_STOCK_SCHEMES = {
    "redis+socket": "unix",
    "redis": "redis",
    "rediss": "rediss",
    "sentinel": "redis+sentinel",
    "unix": "unix",
}

_CLIENT_OPTIONS = frozenset(
    {
        "client_name",
        "credential_provider",
        "db",
        "health_check_interval",
        "master_name",
        "min_other_sentinels",
        "password",
        "username",
    }
)
_CLIENT_PREFIXES = ("socket_", "ssl_", "sentinel_")


@dataclass(frozen=True)
class AppQueue:
    """The queue of an app, for commands that are given neither a URL nor a namespace."""

    name: str
    """Its address, without a password."""
    find: Callable[[], FairQueue]


class Problem(click.ClickException):
    """Ends a command with a message that is safe to print."""

    def __init__(self, message: str) -> None:
        super().__init__("\n".join(printable(line) for line in as_typed(message).splitlines()))


class BadUsage(Problem):
    """The command cannot do what it was asked to do."""

    exit_code = 2


class NoConnection(Problem):
    """Redis cannot be reached, or refuses."""

    exit_code = 3


class Busy(Problem):
    """Another process holds the lock of this command."""

    exit_code = 4


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
def opened_queue(
    url: str, namespace: str | None, *, connects: bool = True, **settings: Any
) -> Iterator[FairQueue]:
    """Open the queue at this URL. An error inside ends the command with its exit code.

    The server is checked, at once or with the first call if not ``connects``. No limits are stored:
    a command must not configure the queue.
    """
    with _exit_codes(shown_url(url)):
        queue = _open(url, namespace, settings)
        try:
            if connects:
                queue.connect()
            yield queue
        finally:
            queue.close()


def shown_url(url: str) -> str:
    """Return the address of a command with this URL, without a password."""
    app = _app()
    return mask_password(url) if app is None else app.name


def _app() -> AppQueue | None:
    """Return the app whose queue the command uses; None: the URL's queue."""
    context = click.get_current_context()
    app = context.meta.get(APP)
    given = {name for name in CONNECTION if is_given(context, name)}
    if app is not None and given == {"namespace"}:
        raise click.UsageError("an app has its own namespace: pass --namespace with --url only")
    return None if given else app


def _open(url: str, namespace: str | None, settings: Mapping[str, Any]) -> FairQueue:
    app = _app()
    if app is not None:
        core = app.find()
        return FairQueue(settings=core.settings, store=core.store, brings_limits=False)
    options = {**settings, "namespace": namespace} if namespace is not None else settings
    return FairQueue(core_url(url), brings_limits=False, **options)


@contextmanager
def _exit_codes(shown: str) -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        is_refused = isinstance(error.__cause__, redis.RedisError)
        raise (NoConnection if is_refused else BadUsage)(str(error)) from None
    except StoreUnavailable as error:
        raise NoConnection(f"{shown}: {error}") from None
    except AlreadyRunning as error:
        raise Busy(str(error)) from None
    except FairQueueError as error:
        raise Problem(str(error)) from None


def core_url(url: str) -> str:
    """Convert a fairqueue broker URL into a core URL; return any other URL unchanged.

    Options that only kombu understands are dropped, because the app itself checks them.
    """
    return _convert(url, BROKER_SCHEMES)


def stock_url(url: str) -> str:
    """Convert a broker URL of kombu's own Redis transport in the same way."""
    return _convert(url, _STOCK_SCHEMES)


def _convert(url: str, schemes: Mapping[str, str]) -> str:
    scheme, mark, rest = url.partition("://")
    if scheme not in schemes:
        return url
    head, question, query = rest.partition("?")
    options = dict(parse_qsl(query)) if "@" not in query else {}  # a "?" in a password
    kept = _kept(query, options) if options else query
    return f"{schemes[scheme]}{mark}{head}{question if kept else ''}{kept}"


def _kept(query: str, options: dict[str, str]) -> str:
    parts = [part for part in query.split("&") if _is_core_option(part)]
    if "virtual_host" in options:  # the database, because the path is a socket's
        parts.append(urlencode({"db": options["virtual_host"].strip("/")}))
    if "global_keyprefix" in options:
        own = options.get("namespace", Settings.model_fields["namespace"].default)
        parts = [part for part in parts if not part.startswith("namespace=")]
        parts.append(urlencode({"namespace": options["global_keyprefix"] + own}))
    return "&".join(parts)


def _is_core_option(part: str) -> bool:
    name = part.partition("=")[0]
    return (
        name in Settings.model_fields
        or name in _CLIENT_OPTIONS
        or name.startswith(_CLIENT_PREFIXES)
    )
