"""Puts a function in front of redis-py's methods, as the libraries that trace Redis do."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import redis
from redis.commands.core import FunctionCommands, ScriptCommands

Seen = list[tuple[str, Any]]


class _Proxied:
    """A function as wrapt puts one in front of a method: it says of itself what the method says."""

    def __init__(self, method: Any, seen: Seen) -> None:
        self.__wrapped__ = method
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __get__(self, client: Any, _: Any) -> Any:
        return self if client is None else functools.partial(self._call, client)

    def _call(self, client: Any, *arguments: Any, **options: Any) -> Any:
        self._seen.append((arguments[0], client.connection_pool.connection_kwargs.get("path")))
        return self.__wrapped__(client, *arguments, **options)


def _as_wrapt_does(method: Any, seen: Seen) -> Any:
    """OpenTelemetry's and Datadog's way."""
    return _Proxied(method, seen)


def _as_a_function(method: Any, seen: Seen) -> Any:
    """Sentry's way."""

    def traced(client: Any, name: str, *arguments: Any, **options: Any) -> Any:
        seen.append((name, client.connection_pool.connection_kwargs.get("path")))
        return method(client, name, *arguments, **options)

    return traced


def _as_functools_does(method: Any, seen: Seen) -> Any:
    """The way of a home-made one."""
    return functools.wraps(method)(_as_a_function(method, seen))


def _trace_commands(patch: pytest.MonkeyPatch, seen: Seen) -> None:
    """New Relic's way: each method of a command by itself."""

    def trace(of: type, name: str) -> None:
        method = getattr(of, name)

        def traced(client: Any, *arguments: Any) -> Any:
            seen.append((name.upper(), client.connection_pool.connection_kwargs.get("path")))
            return method(client, *arguments)

        patch.setattr(of, name, traced)

    trace(FunctionCommands, "fcall")
    trace(ScriptCommands, "evalsha")


def _trace(patch: pytest.MonkeyPatch, seen: Seen, way: Callable[[Any, Seen], Any]) -> None:
    patch.setattr(redis.Redis, "execute_command", way(redis.Redis.execute_command, seen))


WAYS: dict[str, Callable[[pytest.MonkeyPatch, Seen], None]] = {
    "wrapt": functools.partial(_trace, way=_as_wrapt_does),
    "function": functools.partial(_trace, way=_as_a_function),
    "functools": functools.partial(_trace, way=_as_functools_does),
    "commands": _trace_commands,
}
