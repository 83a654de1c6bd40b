"""Calls the app's own function for limits of workspaces, and stores its answers."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from typing import Any

from fairqueue._background import BackgroundLoop
from fairqueue._settings import limits_of
from fairqueue._stores.store import StoreBase
from fairqueue._types import Limits
from fairqueue._utils import load_function
from fairqueue.errors import StoreUnavailable
from fairqueue.plain import counted

log = logging.getLogger("fairqueue.limits")

FRESH_SECONDS = 60.0
"""How long an answer is used before the function is called again, in the background."""
KNOWN_SECONDS = 1800.0
"""A publish waits for a new answer if the last one is older. Half of what the store keeps."""
WAIT_SECONDS = 5.0
RETRY_SECONDS = 10.0
CALLS_AT_ONCE = 16
REMEMBERED = 10_000
FAILED = "limit provider %r failed for workspace %r: %r; its last known limits apply (%s so far)"
Call = Future[BaseException | None]  # of the function; its result is the error


class LimitProvider:
    """One process's access to the app's limit provider.

    The process calls the function for workspaces that it publishes for or claims jobs of, once a
    minute. Each call has a thread of its own, so one that hangs delays no other workspace. Only a
    publish for a workspace that is new here waits, for some seconds: the first job is limited.
    """

    def __init__(self, source: str, store: StoreBase) -> None:
        self._source, self._store = source, store
        self.errors = 0
        """How often the function raised, hung, or returned something other than limits."""
        self._loop = BackgroundLoop("limit provider", log)
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._local = threading.local()
        self._free = threading.Semaphore(CALLS_AT_ONCE)
        self._called_at: dict[str, float] = {}
        self._calls: dict[str, Call] = {}

    def load(self) -> Callable[[str], Mapping[str, Any] | None]:
        """Import the function; ConfigurationError if that fails."""
        return load_function(self._source, setting="limit_provider")

    def before_publish(self, workspace: str) -> None:
        """Call the function if needed; wait for its answer if the workspace is unknown."""
        age = self._age(workspace)
        if age < FRESH_SECONDS or getattr(self._local, "calling", False):
            return  # calling: the app's function itself publishes, and would wait for itself
        if age < KNOWN_SECONDS:
            self._start(workspace)
        else:
            self._wait(workspace)

    def after_claim(self, workspaces: Iterable[str]) -> None:
        """Call the function in the background for workspaces of claimed jobs, if needed."""
        for workspace in workspaces:
            if self._age(workspace) >= FRESH_SECONDS:
                self._start(workspace)

    def refresh(self, workspace: str) -> None:
        """Make a new call now, even if one is under way. Raise its error."""
        self._age(workspace)  # in a forked child, forget the parent's calls
        if earlier := self._calls.get(workspace):
            wait([earlier], WAIT_SECONDS)
        if error := self._wait(workspace):
            raise error

    def _age(self, workspace: str) -> float:
        if self._pid != os.getpid():
            self._reset()  # a forked child has none of its parent's threads
        return time.monotonic() - self._called_at.get(workspace, float("-inf"))

    def _wait(self, workspace: str) -> BaseException | None:
        until = time.monotonic() + WAIT_SECONDS
        call = self._start(workspace, wait_seconds=WAIT_SECONDS)
        if call is not None and wait([call], until - time.monotonic()).done:
            return call.result()
        error = TimeoutError(f"no answer within {WAIT_SECONDS:g} seconds")
        self._failed(workspace, error, time.monotonic())
        return error

    def _start(self, workspace: str, *, wait_seconds: float = 0.0) -> Call | None:
        """Return the call under way, or start one; None: too many others are under way."""
        if under_way := self._calls.get(workspace):
            return under_way
        if not self._free.acquire(timeout=wait_seconds):
            return None
        new: Call = Future()
        with self._lock:
            call = self._calls.setdefault(workspace, new)
        if call is new:
            try:
                threading.Thread(target=self._run, args=(workspace, new), daemon=True).start()
            except RuntimeError as error:  # there are too many
                self._end(workspace, new, error, time.monotonic())
        else:
            self._free.release()
        return call

    def _run(self, workspace: str, call: Call) -> None:
        called_at, failure = time.monotonic(), None
        try:
            limits = self._ask(workspace)
            age = time.monotonic() - called_at
            self._store.put_provider_limits(workspace, limits, age_seconds=age)
            self._note(workspace, called_at)
        except BaseException as error:  # noqa: BLE001 - the app's own function may raise anything
            failure = error
        self._end(workspace, call, failure, called_at)

    def _end(
        self, workspace: str, call: Call, failure: BaseException | None, called_at: float
    ) -> None:
        if failure and not isinstance(failure, StoreUnavailable):  # then the next job tries again
            self._failed(workspace, failure, called_at)
        with self._lock:
            del self._calls[workspace]
        self._free.release()
        call.set_result(failure)

    def _ask(self, workspace: str) -> Limits | None:
        self._local.calling = True
        answer = self.load()(workspace)
        if answer is None:
            return None
        given = {name: value for name, value in answer.items() if value is not None}
        return limits_of("workspace", given)

    def _failed(self, workspace: str, error: BaseException, called_at: float) -> None:
        self._note(workspace, called_at - FRESH_SECONDS + RETRY_SECONDS)
        self.errors += 1
        errors = counted(self.errors, "error")
        self._loop.failed(FAILED, self._source, workspace, error, errors, level=logging.ERROR)

    def _note(self, workspace: str, called_at: float) -> None:
        with self._lock:
            self._called_at.pop(workspace, None)
            self._called_at[workspace] = called_at
            if len(self._called_at) > REMEMBERED:
                del self._called_at[next(iter(self._called_at))]
