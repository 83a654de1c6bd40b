"""The role of a request: by a token, or by a hook, such as the one for this host."""

from __future__ import annotations

import hashlib
import hmac
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import ip_address

from starlette.requests import Request

from fairqueue.errors import ConfigurationError

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


Authorize = Callable[[Request], Role | str | Awaitable[Role | str | None] | None]
"""Returns the role of a request; None: it has none, and is refused."""


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

    token: str | None = field(default=None, repr=False)
    read_token: str | None = field(default=None, repr=False)
    authorize: Authorize | None = None
    read_only: bool = False
    allow_anyone: bool = False

    def __post_init__(self) -> None:
        """Refuse missing rules, tokens that can be guessed, and one token for two roles."""
        is_guarded = self.has_tokens or self.authorize is not None
        if is_guarded == self.allow_anyone:
            raise ConfigurationError(TWO_ANSWERS if is_guarded else UNGUARDED)
        for name in ("token", "read_token"):
            value = getattr(self, name)
            if value is not None and len(value) < LEAST_TOKEN_LENGTH:
                raise ConfigurationError(
                    f"{name} of the dashboard has {len(value)} characters: take at least "
                    f"{LEAST_TOKEN_LENGTH}, as from: python -c "
                    "'import secrets; print(secrets.token_urlsafe(24))'"
                )
        if self.token is not None and self.token == self.read_token:
            raise ConfigurationError("token and read_token of the dashboard must differ")

    @property
    def has_tokens(self) -> bool:
        """Whether a visitor can sign in."""
        return self.token is not None or self.read_token is not None

    async def role_of(self, request: Request) -> Role | None:
        """Return the role of a request; None: it is refused."""
        role = await self._granted(request)
        return Role.READER if role is Role.OPERATOR and self.read_only else role

    async def _granted(self, request: Request) -> Role | None:
        by_token = self._by_token(request)
        if by_token is not None:
            return by_token
        if self.authorize is not None:
            found = self.authorize(request)
            role = await found if inspect.isawaitable(found) else found
            return None if role is None else Role(role)
        return Role.OPERATOR if self.allow_anyone else None

    def _tokens(self) -> Iterator[tuple[str, Role]]:
        if self.token is not None:
            yield self.token, Role.OPERATOR
        if self.read_token is not None:
            yield self.read_token, Role.READER

    def _by_token(self, request: Request) -> Role | None:
        session = request.cookies.get(SESSION, "")
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        bearer = bearer if scheme.lower() == "bearer" else ""
        for token, role in self._tokens():
            if _is_session(session, token, role) or _is_same(bearer, token):
                return role
        return None

    def sign_in(self, given: str) -> str | None:
        """Return the cookie for a token; None: it is neither token."""
        for token, role in self._tokens():
            if _is_same(given, token):
                return _session_of(token, role, int(time.time()) + SESSION_SECONDS)
        return None
