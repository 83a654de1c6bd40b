"""The role of a request: by a token, or by a hook, such as the one for this host."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import ip_address
from typing import NamedTuple

from starlette.requests import Request

from fairqueue.errors import ConfigurationError
from fairqueue.plain import printable

SESSION = "fairqueue_session"
SESSION_SECONDS = 12 * 3600
MOST_DIGITS = 12
"""Digits of the time at which a session ends."""
LEAST_TOKEN_LENGTH = 16
BY_PROXIES = frozenset({"forwarded", "via", "x-real-ip"})
UNGUARDED = (
    "anyone could see and change everything in this dashboard: give it a token, a read_token or an "
    "authorize hook, such as fairqueue.dashboard.only_this_host; or say allow_anyone=True, if the "
    "application around it lets only operators through"
)
TWO_ANSWERS = "a dashboard with a token or an authorize hook does not allow anyone: leave one out"


class Role(str, Enum):
    """What a visitor may do."""

    OPERATOR = "operator"
    """See everything, and change it."""
    READER = "reader"
    """See everything, and change nothing."""


NAMELESS = {Role.OPERATOR: "token", Role.READER: "read_token"}
"""The names of tokens that were given none."""
Granted = Role | str | tuple[Role | str, str] | None
Authorize = Callable[[Request], Granted | Awaitable[Granted]]
"""Returns the role of a request, or the role and the user's name, which its acts are noted with;
None: it has none, and is refused."""
Tokens = str | Mapping[str, str] | None
"""A token, or several by the names of their visitors."""
WRONG_SECONDS = 0.5
"""Attempts with a wrong token are answered one after another, this far apart."""
log = logging.getLogger("fairqueue.dashboard")


class Visitor(NamedTuple):
    """A visitor: what it may do, and its name."""

    role: Role
    name: str


def is_loopback(host: str | None) -> bool:
    """Whether a name or address means this host."""
    if host in {"localhost", "localhost."}:
        return True
    try:
        return ip_address((host or "").strip("[]")).is_loopback
    except ValueError:
        return False


def only_this_host(request: Request) -> Role | None:
    """Make a browser on this host an operator: an ``authorize`` hook in place of tokens.

    The name that was asked for must be this host's, too: a page of another site may have a name
    that leads to a loopback address. A request that a proxy has passed on is refused, since its
    client may be anywhere: it has a proxy's header, no peer address (a unix socket), or speaks
    HTTP/1.0, as nginx does. Other proxies cannot be recognized.
    """
    if request.client is None or request.scope.get("http_version") == "1.0":
        return None
    if any(name.startswith("x-forwarded-") or name in BY_PROXIES for name in request.headers):
        return None
    is_here = is_loopback(request.client.host) and is_loopback(request.url.hostname)
    return Role.OPERATOR if is_here else None


def _session_of(token: str, role: Role, end: int) -> str:
    """Return a session cookie for this token: it has its end, and not the token."""
    text = f"fairqueue dashboard {role.value} {end}"
    return f"{end}.{hmac.new(token.encode(), text.encode(), hashlib.sha256).hexdigest()}"


def _is_session(given: str, token: str, role: Role) -> bool:
    end = given.partition(".")[0]
    if not end.isdecimal() or len(end) > MOST_DIGITS or int(end) < time.time():
        return False
    return _is_same(given, _session_of(token, role, int(end)))


def _is_same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one dashboard."""

    token: Tokens = field(default=None, repr=False)
    read_token: Tokens = field(default=None, repr=False)
    authorize: Authorize | None = None
    read_only: bool = False
    allow_anyone: bool = False
    _slow: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse missing rules, tokens that can be guessed, and one token for two roles."""
        is_guarded = self.has_tokens or self.authorize is not None
        if is_guarded == self.allow_anyone:
            raise ConfigurationError(TWO_ANSWERS if is_guarded else UNGUARDED)
        for name, value, role in self._tokens():
            if len(value) < LEAST_TOKEN_LENGTH:
                which = NAMELESS[role] + f" {name!r}" * (name != NAMELESS[role])
                raise ConfigurationError(
                    f"{which} of the dashboard has {len(value)} characters: take at least "
                    f"{LEAST_TOKEN_LENGTH}, as from: python -c "
                    "'import secrets; print(secrets.token_urlsafe(24))'"
                )
        values = [value for _, value, _ in self._tokens()]
        if len(set(values)) < len(values):
            raise ConfigurationError(
                "token and read_token of the dashboard must differ, and each name has its own"
            )

    @property
    def has_tokens(self) -> bool:
        """Whether a visitor can sign in."""
        return any(True for _ in self._tokens())

    async def visitor_of(self, request: Request) -> Visitor | None:
        """Return the visitor; None: it is refused."""
        found = await self._granted(request)
        is_less = found is not None and self.read_only
        return Visitor(Role.READER, found.name) if found and is_less else found

    async def _granted(self, request: Request) -> Visitor | None:
        by_token = self._by_token(request)
        if by_token is not None:
            return by_token
        if self.authorize is not None:
            found = self.authorize(request)
            granted = await found if inspect.isawaitable(found) else found
            role, name = granted if isinstance(granted, tuple) else (granted, "")
            return None if role is None else Visitor(Role(role), name)
        return Visitor(Role.OPERATOR, "") if self.allow_anyone else None

    def _tokens(self) -> Iterator[tuple[str, str, Role]]:
        """Yield each token with its name and role."""
        for tokens, role in ((self.token, Role.OPERATOR), (self.read_token, Role.READER)):
            named = {NAMELESS[role]: tokens} if isinstance(tokens, str) else tokens or {}
            yield from ((name, value, role) for name, value in named.items())

    def _by_token(self, request: Request) -> Visitor | None:
        session = request.cookies.get(SESSION, "")
        bearer = bearer_of(request)
        for name, token, role in self._tokens():
            if _is_session(session, token, role) or _is_same(bearer, token):
                return Visitor(role, name)
        return None

    def sign_in(self, given: str) -> str | None:
        """Return the cookie for a token; None: it is none of them."""
        for _, token, role in self._tokens():
            if _is_same(given, token):
                return _session_of(token, role, int(time.time()) + SESSION_SECONDS)
        return None

    async def refuse(self, request: Request) -> None:
        """Log an attempt with a wrong token, and let it and the next ones wait."""
        host = request.client.host if request.client else "a socket"
        log.warning("a wrong token was sent to the dashboard from %s", printable(host))
        async with self._slow:
            await asyncio.sleep(WRONG_SECONDS)


def bearer_of(request: Request) -> str:
    """Return the token that a request brings in its header; empty: none."""
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    return bearer if scheme.lower() == "bearer" else ""
