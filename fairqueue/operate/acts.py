"""The last acts of operators: ``queue.acts``."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from functools import wraps
from typing import Any, TypeVar

from fairqueue._lazy import rows
from fairqueue._stores.breaker import ASK_SECONDS
from fairqueue._stores.later import noted
from fairqueue._stores.store import StoreBase
from fairqueue._types import Pause, Scope
from fairqueue._utils import process_name
from fairqueue.errors import ConfigurationError, FairQueueError, StoreUnavailable
from fairqueue.plain import printable

log = logging.getLogger("fairqueue.acts")
Part = TypeVar("Part")
KEPT = 1000
MOST_TEXT = 300  # characters of what is kept of a name or a value
HOW = frozenset({"progress", "wait_seconds"})
STATES = {"pauses pause": Pause.PAUSED, "pauses drain": Pause.DRAINING}
VERBS = {
    "pauses": ("pause", "drain", "resume"),
    "limits": ("set", "unset", "unset_configured"),
    "jobs": ("cancel", "cancel_matching", "purge"),
    "dead": ("replay", "replay_all", "purge"),
    "schedules": ("pause", "resume", "trigger", "remove"),
    "doctor": ("reshard", "rebuild", "drop_set_aside"),
}
"""What is noted, by the part of a queue that does it."""
_by: ContextVar[str] = ContextVar("fairqueue_operator", default="")


class Acts:
    """Notes what operators do by any part of a queue, and lists it.

    The last 1,000 acts are kept in Redis, in at most 256 KiB; each is logged by
    ``fairqueue.acts`` as well. An act whose note cannot be stored is logged, and done.
    """

    def __init__(self, connected: Callable[[], StoreBase]) -> None:
        self._connected = connected

    @contextmanager
    def by(self, name: str) -> Iterator[None]:
        """Name the operator of the acts inside; otherwise it is the process and its user."""
        token = _by.set(name)
        try:
            yield
        finally:
            _by.reset(token)

    def list(self) -> Sequence[rows.Act]:
        """Return the acts that are kept, the newest first."""
        return noted.read_lines(rows.Act, self._connected().noted_lines("acts", 0, KEPT))

    def watch(self, part: Part, name: str) -> Part:
        """Note each act that is done by this part of a queue; return the part."""
        for verb in VERBS[name]:
            setattr(part, verb, self._noted(part, f"{name} {verb}", getattr(part, verb)))
        return part

    def _noted(self, part: Any, act: str, method: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(method)

        @wraps(method)
        def noted(*args: Any, **named: Any) -> Any:
            try:
                given = signature.bind(*args, **named).arguments
            except TypeError:
                return method(*args, **named)  # which says what is wrong
            if given.get("dry_run"):
                return method(*args, **named)
            self._connected()  # what cannot begin is no act
            new, old = given.pop("limits", STATES.get(act)), None
            if act in {"limits set", "limits unset"}:
                found = part.get(given["scope"]).items()
                old = {k: v.value for k, v in found if (k in new if new else v.source == "live")}
            try:
                done = method(*args, **named)
            except ConfigurationError:
                raise
            except BaseException as error:
                is_away = isinstance(error, StoreUnavailable)
                self._note(act, given, old, f"ended by {type(error).__name__}", is_away=is_away)
                raise
            of_pause = act.startswith("pauses ")
            self._note(act, given, done if of_pause else old, new if of_pause or new else done)
            return done

        return noted

    def _note(
        self, act: str, given: Mapping[str, Any], old: Any, new: Any, *, is_away: bool = False
    ) -> None:
        texts = {"of": _named(given), "old": _text(old), "new": _text(new)}
        told = {"by": _by.get() or process_name(), "act": act, **texts}
        told = {name: text[:MOST_TEXT] for name, text in told.items()}
        log.info(
            "%s", ", ".join(f"{name} {printable(text)}" for name, text in told.items() if text)
        )
        try:
            store = self._connected()
            probe = closing(store.clone(timeout_seconds=ASK_SECONDS)) if is_away else None
            with probe or nullcontext(store) as reached:  # the act has waited already
                reached.note_lines("acts", [json.dumps(told)], KEPT)
        except FairQueueError as error:
            log.warning("the act %r is not noted: %s", act, error)


def _named(given: Mapping[str, Any]) -> str:
    """Say what an act is of: by the names of its arguments, unless it is a scope alone."""
    rest = {k: v for k, v in given.items() if k not in HOW and v is not None}
    if set(rest) == {"scope"}:
        return str(rest["scope"])
    chosen = rest.pop("chosen", None)
    rest |= {} if chosen is None else _given_fields(chosen)
    return ", ".join(f"{name} {_text(value)}" for name, value in rest.items())


def _given_fields(chosen: Any) -> dict[str, Any]:
    found = ((of.name, getattr(chosen, of.name), of.default) for of in fields(chosen))
    return {name: value for name, value, default in found if value != default}


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, (str, Scope)):
        return str(value)
    value = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(each) or 'none'}" for name, each in value.items())
    return f"{value:g}" if isinstance(value, float) else repr(value)
