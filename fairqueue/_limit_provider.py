"""Calls the app's own function for limits of workspaces, and stores its answers."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairqueue._settings import WorkspaceSettings, live_limits
from fairqueue._stores.store import AnyStore
from fairqueue._types import Limits
from fairqueue._utils import Throttle, load_function
from fairqueue.errors import ConfigurationError, FairQueueError
from fairqueue.plain import counted

log = logging.getLogger("fairqueue.limits")

FRESH_SECONDS = 60.0
STALE_SECONDS = 2 * FRESH_SECONDS
"""An answer older than this is fetched again before the publish, as if there were none."""
FORGET_SECONDS = STALE_SECONDS + 10.0
RETRY_SECONDS = 10.0
TICK_SECONDS = 0.5
FLEET_CHECK_SECONDS = 5.0
FLEET_CHECK_COUNT = 64
ASKED_AT_ONCE = 16
LOG_EVERY_SECONDS = 30.0
REMEMBERED = 10_000

Answer = Mapping[str, Any] | None


class LimitProvider:
    """One process's access to the app's limit provider.

    A publish waits for the answer only if this process has not asked for its workspace recently,
    so that limits apply to a workspace's first job. Everything else is asked in the background:
    workspaces that this process publishes for and, in a worker, all active workspaces that no
    process has asked for within a minute. One question per workspace at a time, each in a thread
    of its own, so that one without an answer holds up no other workspace.
    """

    def __init__(self, source: str, store: AnyStore) -> None:
        self._source, self._store = source, store
        self._function: Callable[[str], Answer] | None = None
        self.errors = 0
        """How often the function raised or returned something other than limits."""
        self._log_throttle = Throttle(LOG_EVERY_SECONDS)
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._is_worker = False
        self._lock = threading.Lock()
        self._local = threading.local()
        self._asked_at: dict[str, float] = {}
        self._in_flight: dict[str, threading.Event] = {}
        self._queued: dict[str, None] = {}
        self._free = threading.Semaphore(ASKED_AT_ONCE)
        self._stop: threading.Event | None = None

    def load(self) -> Callable[[str], Answer]:
        """Import the function; raise ConfigurationError if that fails."""
        self._function = self._function or load_function(self._source, setting="limit_provider")
        return self._function

    def before_publish(self, workspace: str) -> None:
        """Ask, now or in the background, if the answer for this workspace is old."""
        self._check_fork()
        if getattr(self._local, "asking", False):
            return  # the app's function itself publishes: waiting for it would deadlock
        age = self._age(workspace)
        if age >= STALE_SECONDS:
            self.ask(workspace)
        elif age >= FRESH_SECONDS:
            self._ask_in_background([workspace])

    def after_claim(self, workspaces: Iterable[str]) -> None:
        """Ask in the background for workspaces of claimed jobs; this process is a worker."""
        self._check_fork()
        self._is_worker = True
        self._ask_in_background(w for w in workspaces if self._age(w) >= FRESH_SECONDS)

    def ask(self, workspace: str, *, again: bool = False) -> None:
        """Ask now and store the answer, or wait for the answer to a question under way.

        ``again``: an answer to an earlier question is not enough.
        """
        self._check_fork()
        with self._lock:
            earlier = self._in_flight.get(workspace)
            if earlier is None:
                answered = self._in_flight[workspace] = threading.Event()
        if earlier is not None:
            earlier.wait(FRESH_SECONDS)
            if again:
                self.ask(workspace)
            return
        try:
            self._ask(workspace)
        finally:
            with self._lock:
                del self._in_flight[workspace]
            answered.set()

    def close(self) -> None:
        """Stop the thread; it is started again when needed."""
        if self._stop is not None:
            self._stop.set()
        self._stop = None

    def _check_fork(self) -> None:
        """A forked child has none of its parent's threads."""
        if self._pid != os.getpid():
            self._reset()

    def _age(self, workspace: str) -> float:
        return time.monotonic() - self._asked_at.get(workspace, float("-inf"))

    def _ask(self, workspace: str) -> None:
        asked_at = time.monotonic()
        try:
            limits = self._call(workspace)
        except Exception as error:  # noqa: BLE001 - the app's own function may raise anything
            self._ask_later(workspace, error, asked_at)
            return
        age = time.monotonic() - asked_at
        try:
            self._store.put_provider_limits(workspace, limits, age_seconds=age)
        except ConfigurationError as error:  # a limit that is impossible here
            self._ask_later(workspace, error, asked_at)
            return
        if len(self._asked_at) >= REMEMBERED:
            self._forget(asked_at)
        self._asked_at[workspace] = asked_at

    def _ask_later(self, workspace: str, error: Exception, asked_at: float) -> None:
        self._failed(workspace, error)
        self._asked_at[workspace] = asked_at - FRESH_SECONDS + RETRY_SECONDS

    def _call(self, workspace: str) -> Limits | None:
        self._local.asking = True
        try:
            answer = self.load()(workspace)
        finally:
            self._local.asking = False
        if answer is None:
            return None
        if not isinstance(answer, Mapping):
            raise ConfigurationError(
                f"expected a mapping of limits or None, not {type(answer).__name__}"
            )
        given = {name: value for name, value in answer.items() if value is not None}
        return live_limits(given, WorkspaceSettings)

    def _failed(self, workspace: str, error: BaseException) -> None:
        """Count and log, not once per workspace; the store keeps the last answer."""
        self.errors += 1
        if self._log_throttle.passes():
            log.error(
                "limit provider %r failed for workspace %r: %r; its last known limits stay in "
                "force (%s so far)",
                self._source,
                workspace,
                error,
                counted(self.errors, "error"),
            )

    def _forget(self, now: float) -> None:
        kept = {w: at for w, at in self._asked_at.items() if now - at < STALE_SECONDS}
        self._asked_at = kept if len(kept) < REMEMBERED else {}

    def _ask_in_background(self, workspaces: Iterable[str]) -> None:
        self._queued.update(dict.fromkeys(workspaces))
        with self._lock:
            if self._stop is not None or not (self._queued or self._is_worker):
                return
            self._stop = stop = threading.Event()
        run = threading.Thread(target=self._run, args=(stop,), name="fairqueue-limits", daemon=True)
        run.start()

    def _run(self, stop: threading.Event) -> None:
        checked_at = float("-inf")
        while not stop.wait(TICK_SECONDS):
            if self._is_worker and time.monotonic() - checked_at >= FLEET_CHECK_SECONDS:
                checked_at = time.monotonic()
                self._quietly(self._queue_stale, "")
            for workspace in list(self._queued):
                if workspace not in self._in_flight and self._free.acquire(blocking=False):
                    del self._queued[workspace]
                    threading.Thread(target=self._ask_alone, args=(workspace,), daemon=True).start()

    def _queue_stale(self, _: str) -> None:
        """Take workspaces whose answer is stale in the whole fleet."""
        stale = self._store.stale_provider_limits(
            n=FLEET_CHECK_COUNT, older_seconds=FRESH_SECONDS, forget_seconds=FORGET_SECONDS
        )
        self._queued.update(dict.fromkeys(stale))

    def _ask_alone(self, workspace: str) -> None:
        try:
            if not self._quietly(self.ask, workspace):
                self._queued[workspace] = None
        finally:
            self._free.release()

    def _quietly(self, act: Callable[[str], None], workspace: str) -> bool:
        """Do it; False: the store did not answer."""
        try:
            act(workspace)
        except FairQueueError as error:
            if self._log_throttle.passes():
                log.warning("could not store limits of the limit provider, will retry: %s", error)
            return False
        except BaseException as error:  # noqa: BLE001 - see below
            # The background refresh also survives SystemExit and gevent.Timeout. During a
            # publish they propagate to the caller.
            self._failed(workspace, error)
        return True
