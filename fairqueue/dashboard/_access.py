"""Which role a request has: by a token, by the caller's own hook, or by coming from this host."""

from __future__ import annotations

import hashlib
import hmac
import inspect
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address

from starlette.requests import Request

from fairqueue.errors import ConfigurationError

SESSION = "fairqueue_session"
LEAST_TOKEN_LENGTH = 16


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


def _is_from_here(request: Request) -> bool:
    """Whether the client is on this host, and asked for this host by name.

    The second keeps a page of another site from reading the dashboard under a name of its own that
    leads to a loopback address.
    """
    client = request.client
    return (client is None or is_loopback(client.host)) and is_loopback(request.url.hostname)


def _session_of(token: str, role: Role) -> str:
    """What the cookie of a visitor with this token has: not the token."""
    text = f"fairqueue dashboard {role.value}"
    return hmac.new(token.encode(), text.encode(), hashlib.sha256).hexdigest()


def _is_same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one dashboard."""

    token: str | None = None
    read_token: str | None = None
    authorize: Authorize | None = None
    read_only: bool = False

    def __post_init__(self) -> None:
        """Refuse tokens that can be guessed, and one token for two roles."""
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

    @property
    def is_guarded(self) -> bool:
        """Whether it may be reached from other hosts."""
        return self.has_tokens or self.authorize is not None

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
        return None if self.has_tokens or not _is_from_here(request) else Role.OPERATOR

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
            if _is_same(session, _session_of(token, role)) or _is_same(bearer, token):
                return role
        return None

    def sign_in(self, given: str) -> str | None:
        """Return the cookie for a token; None: it is none of the two."""
        for token, role in self._tokens():
            if _is_same(given, token):
                return _session_of(token, role)
        return None
