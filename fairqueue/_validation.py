"""Checks of names, ids and durations that callers pass in."""

from __future__ import annotations

import math
import os
from binascii import b2a_base64
from collections.abc import Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

from fairqueue._types import Scope
from fairqueue.errors import ConfigurationError

MAX_BYTES = {"workspace": 200, "queue": 255, "task": 255, "unique key": 255}
MAX_BYTES |= {"schedule": 200, "namespace": 100, "app": 100}
EMPTY_ALLOWED = frozenset({"task"})
LEAST_URGENT = 2**24 - 1  # fits the two priorities of a Dramatiq job in one number
MOST_DELAY_SECONDS = 100 * 365.25 * 86_400.0
ID_BYTES = 12  # 96 random bits in 16 characters
ID_LETTERS = bytes.maketrans(b"+/", b"__")


def new_job_id() -> str:
    """Return a random id. It never starts with ``-``, which a command line takes for an option."""
    return b2a_base64(os.urandom(ID_BYTES), newline=False).translate(ID_LETTERS).decode()


def check_name(kind: str, name: object) -> str:
    """Return the name if it is allowed for this kind, else raise ConfigurationError.

    Any UTF-8 text of at most ``MAX_BYTES[kind]`` bytes is allowed: names are percent-encoded
    before they become part of a Redis key. A workspace may also be an int or a UUID.
    """
    if kind == "workspace" and not isinstance(name, str):
        name = text_of_id(name)
    if not isinstance(name, str):
        allowed = "a str, an int or a UUID" if kind == "workspace" else "a str"
        raise ConfigurationError(
            f"a {kind} name must be {allowed}, not {type(name).__name__}: convert it"
        )
    if not name and kind not in EMPTY_ALLOWED:
        raise ConfigurationError(f"a {kind} name must not be empty")
    size = len(name) if name.isascii() else _size(f"{kind} name", name)
    if size > MAX_BYTES[kind]:
        raise ConfigurationError(
            f"the {kind} name {name[:40]!r}… is {size} bytes long, "
            f"at most {MAX_BYTES[kind]} are allowed; shorten or hash it"
        )
    return str.__str__(name)  # of a member of an Enum its value


def name_or_none(kind: str, name: object) -> str | None:
    """Return a name that may be left out, checked."""
    return None if name is None else check_name(kind, name)


def checked_scope(scope: Scope) -> tuple[str, str]:
    """Return the kind and the name of a scope, if both are possible."""
    kind = getattr(scope, "kind", scope)
    if kind not in Scope.KINDS:
        kinds = ", ".join(Scope.KINDS)
        raise ConfigurationError(f"a scope is one of {kinds}, as Scope.total(), not {kind!r}")
    return scope.kind, check_name(scope.kind, scope.name) if scope.is_named else ""


def text_of_id(value: object) -> object:
    """Return an int or a UUID, common as ids, as text; anything else as it is."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    return str(value) if isinstance(value, UUID) else value


def check_text(kind: str, text: object) -> str:
    """Return an id or similar text, of any length, if it can be stored as UTF-8."""
    if not isinstance(text, str):
        raise ConfigurationError(f"a {kind} must be a str, not {type(text).__name__}")
    if not text.isascii():
        _size(kind, text)
    return str.__str__(text)


def plain_str(value: object) -> str:
    """Return a value as text; of a member of an Enum that is a str its value, not its name."""
    return str.__str__(value) if isinstance(value, str) else str(text_of_id(value))


def _size(kind: str, text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"the {kind} {ascii(text)[:80]} is not valid UTF-8 (it contains a lone surrogate)"
        ) from None


def check_namespace(name: object) -> str:
    """Return the key prefix if it is printable and has no braces (Redis's hash tags)."""
    text = check_name("namespace", name)
    if not text.isprintable() or "{" in text or "}" in text:
        raise ConfigurationError(
            f"the namespace {text!r} must be printable and must not contain '{{' or '}}'"
        )
    return text


def check_app(name: object) -> str | None:
    """Return the name of an app, if it is given."""
    if isinstance(name, str) and not name.strip():
        raise ConfigurationError("the name of an app must not be blank")
    return name_or_none("app", name)


def seconds_from_zero(name: str, value: Any) -> float:
    """Return the value as seconds, a negative one as 0.

    Raises ConfigurationError, with ``name``, unless it is a finite number.
    """
    try:
        number = math.nan if isinstance(value, bool | str | bytes) else float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ConfigurationError(f"{name} must be a finite number of seconds, not {value!r:.40}")
    return max(0.0, number)


def seconds_of_delay(value: Any, *, must_take: bool = False) -> float:
    """Return a delay as seconds, a negative one as 0.

    Raises ConfigurationError if it is no number, or above ``MOST_DELAY_SECONDS``. A publish that
    must be accepted, such as a retry, is delayed by that at most.
    """
    seconds = seconds_from_zero("delay_seconds", value)
    if seconds > MOST_DELAY_SECONDS and not must_take:
        raise ConfigurationError(
            f"a delay must be at most 100 years ({MOST_DELAY_SECONDS:,.0f} seconds), not "
            f"{seconds:g} seconds: give a shorter delay, countdown or eta"
        )
    return min(seconds, MOST_DELAY_SECONDS)


def wrong_kind(
    values: Mapping[str, Any], kinds: Mapping[str, Any], whose: str = "its"
) -> str | None:
    """Describe a value not of its kind (as for ``isinstance``); a missing one counts as None."""
    for name, kind in kinds.items():
        value = values.get(name)
        if not isinstance(value, kind):
            return f"{whose} {name} is of the type {type(value).__name__}"
    return None


def check_payload(payload: object, most: int | None, *, task: str, workspace: str) -> None:
    """Raise ConfigurationError if a payload is not bytes, or more than ``most`` bytes."""
    if not isinstance(payload, bytes):
        raise ConfigurationError(f"payload must be bytes, not {type(payload).__name__}")
    if most is not None and len(payload) > most:
        raise ConfigurationError(
            f"a job of task {task!r} of workspace {workspace!r} has a payload of "
            f"{len(payload):,} bytes, and max_payload_bytes is {most:,}: store the data elsewhere "
            "and pass its address, or raise the setting"
        )


def check_priority(priority: Any) -> int:
    """Return the priority as a plain int, or raise ConfigurationError."""
    is_number = isinstance(priority, int) and not isinstance(priority, bool)
    if not is_number or not 0 <= priority <= LEAST_URGENT:
        raise ConfigurationError(
            f"priority must be a whole number from 0 (most urgent) to {LEAST_URGENT}, "
            f"not {priority!r}"
        )
    return int(priority)


def check_queues(queues: Iterable[str], n: int) -> list[str]:
    """Return the queues; ConfigurationError: ``n`` jobs cannot be claimed from them."""
    is_list = isinstance(queues, Collection) and not isinstance(queues, str)
    if not is_list or (n > 0 and not queues):
        raise ConfigurationError(f"claim needs a list of at least one queue name, not {queues!r}")
    return [check_name("queue", queue) for queue in queues]
