"""Asks the app's own function for the limits of workspaces, and keeps the answers in the store."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairqueue._functions import load_function
from fairqueue._settings import WorkspaceSettings, live_limits
from fairqueue._store import Store
from fairqueue._throttle import Throttle
from fairqueue._types import Limits
from fairqueue.errors import ConfigurationError, FairQueueError

log = logging.getLogger("fairqueue.limits")

FRESH_SECONDS = 60.0
STALE_SECONDS = 2 * FRESH_SECONDS
"""Who asked longer ago than that asks anew before it publishes, as if it never had."""
FORGOTTEN_SECONDS = STALE_SECONDS + 10.0
RETRY_SECONDS = 10.0
TICK_SECONDS = 0.5
LOOK_EVERY_SECONDS = 5.0
MOST_AT_ONCE = 64
LOG_EVERY_SECONDS = 30.0
REMEMBERED = 10_000

Answer = Mapping[str, Any] | None


class Provider:
    """One process's side of a limit provider.

    A publish waits for the answer only where this process has not asked for that workspace of
    late, so that its first job is already limited. All else is asked by a thread: what this
    process publishes for, and, where it claims, every workspace that has something and that
    nobody in the fleet has asked for within a minute. One question per workspace at a time.
    """

    def __init__(self, source: str, store: Store) -> None:
        self._source, self._store = source, store
        self._function: Callable[[str], Answer] | None = None
        self.errors = 0
        """Questions that were answered by an error, or by what is no limit."""
        self._log_throttle = Throttle(LOG_EVERY_SECONDS)
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._claims = False
        self._lock = threading.Lock()
        self._own = threading.local()
        self._asked: dict[str, float] = {}
        self._flights: dict[str, threading.Event] = {}
        self._again: dict[str, None] = {}
        self._stop: threading.Event | None = None

    def load(self) -> Callable[[str], Answer]:
        """Find the function; ConfigurationError if there is none."""
        self._function = self._function or load_function(self._source, setting="limit_provider")
        return self._function

    def publishes(self, workspace: str) -> None:
        """This process is about to publish for a workspace."""
        self._mine()
        if getattr(self._own, "asks", False):
            return  # the app's function itself publishes: it must not wait for itself
        age = time.monotonic() - self._asked.get(workspace, float("-inf"))
        if age >= STALE_SECONDS:
            self.ask(workspace)
        elif age >= FRESH_SECONDS:
            self._ask_later([workspace])

    def claimed(self, workspaces: Iterable[str]) -> None:
        """This process is a worker, and has got jobs of these workspaces."""
        self._mine()
        self._claims = True
        now = time.monotonic()
        never = float("-inf")
        self._ask_later(w for w in workspaces if now - self._asked.get(w, never) >= FRESH_SECONDS)

    def ask(self, workspace: str, store: Store | None = None, *, anew: bool = False) -> None:
        """Ask now, and keep the answer; who comes meanwhile waits for that one.

        ``anew``: not content with the answer to a question that was put before.
        """
        self._mine()
        with self._lock:
            flight = self._flights.get(workspace)
            if flight is None:
                mine = self._flights[workspace] = threading.Event()
        if flight is not None:
            flight.wait(FRESH_SECONDS)
            if anew:
                self.ask(workspace, store)
            return
        try:
            self._ask(workspace, store or self._store)
        finally:
            with self._lock:
                del self._flights[workspace]
            mine.set()

    def close(self) -> None:
        """Stop the thread; it begins again when it is needed."""
        if self._stop is not None:
            self._stop.set()
        self._stop = None

    def _mine(self) -> None:
        """In a forked child nothing of the parent's threads is left."""
        if self._pid != os.getpid():
            self._begin()

    def _ask(self, workspace: str, store: Store) -> None:
        began = time.monotonic()
        try:
            limits = self._answer(workspace)
        except Exception as error:  # noqa: BLE001 - the app's own function may raise anything
            self._failed(workspace, error)
            self._asked[workspace] = began - FRESH_SECONDS + RETRY_SECONDS
            return
        store.give_limits(workspace, limits, age_seconds=time.monotonic() - began)
        if len(self._asked) >= REMEMBERED:
            self._forget(began)
        self._asked[workspace] = began

    def _answer(self, workspace: str) -> Limits | None:
        self._own.asks = True
        try:
            answer = self.load()(workspace)
        finally:
            self._own.asks = False
        if answer is None:
            return None
        if not isinstance(answer, Mapping):
            raise ConfigurationError(
                f"it answered a {type(answer).__name__}: a mapping of limits, or None, is expected"
            )
        named = {name: value for name, value in answer.items() if value is not None}
        return live_limits(named, WorkspaceSettings)

    def _failed(self, workspace: str, error: BaseException) -> None:
        """Say it, but not for each of many; the store still has what was said last."""
        self.errors += 1
        if self._log_throttle.passes():
            log.error(
                "the limit provider %r failed for workspace %r, whose last known limits stay "
                "(%d errors so far): %r",
                self._source,
                workspace,
                self.errors,
                error,
            )

    def _forget(self, now: float) -> None:
        kept = {w: at for w, at in self._asked.items() if now - at < STALE_SECONDS}
        self._asked = kept if len(kept) < REMEMBERED else {}

    def _ask_later(self, workspaces: Iterable[str]) -> None:
        self._again.update(dict.fromkeys(workspaces))
        with self._lock:
            if self._stop is not None or not (self._again or self._claims):
                return
            self._stop = stop = threading.Event()
        run = threading.Thread(target=self._run, args=(stop,), name="fairqueue-limits", daemon=True)
        run.start()

    def _run(self, stop: threading.Event) -> None:
        store, looked = self._store.clone(), float("-inf")
        while not stop.wait(TICK_SECONDS):
            try:
                if self._claims and time.monotonic() - looked >= LOOK_EVERY_SECONDS:
                    looked = time.monotonic()
                    self._look(store)
                self._ask_those_that_wait(store, stop)
            except FairQueueError as error:
                log.warning("limits could not be kept: %s", error)
        store.close()

    def _look(self, store: Store) -> None:
        """Take what is due in the whole fleet."""
        due = store.to_ask(
            n=MOST_AT_ONCE, older_seconds=FRESH_SECONDS, forget_seconds=FORGOTTEN_SECONDS
        )
        self._again.update(dict.fromkeys(due))

    def _ask_those_that_wait(self, store: Store, stop: threading.Event) -> None:
        while self._again and not stop.is_set():
            workspace = next(iter(self._again))
            try:
                self.ask(workspace, store)
            except Exception:
                raise  # the store's
            except BaseException as error:  # noqa: BLE001 - SystemExit, or gevent's Timeout
                self._failed(workspace, error)  # the next ones are asked for all the same
            self._again.pop(workspace, None)
