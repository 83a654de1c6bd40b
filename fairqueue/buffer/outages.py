"""Publishes while a server of the store is away: a circuit breaker for each, and what was kept."""

from __future__ import annotations

import errno
import logging
import stat
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fairqueue._background import BackgroundLoop
from fairqueue._lazy import Lazy
from fairqueue._process_metrics import Tally
from fairqueue._publish.new_job import check_on_unavailable
from fairqueue._settings import Settings
from fairqueue._stores.breaker import ASK_SECONDS, PROBE_EVERY_SECONDS
from fairqueue._stores.sharded.asking import refuse_if_full
from fairqueue._stores.sharded.store import ShardedStore
from fairqueue._stores.store import Store
from fairqueue._threads import in_forked_children, native_event, native_lock, start_native
from fairqueue._types import Admission, Job, JobId, Outcome
from fairqueue.errors import StoreUnavailable

if TYPE_CHECKING:
    from fairqueue.buffer import spool as spools
else:
    spools = Lazy("fairqueue.buffer.spool")  # with SQLite: most processes keep no job

log = logging.getLogger("fairqueue.buffer")

UNSENT = "the buffered jobs in %s cannot be sent: %s"
LOCKLESS = "its .lock file has gone: once its process has ended, create it again with touch"
TRIES = 4
"""How often a job is sent before it counts as refused, if Redis only breaks the connection."""

MOST_ADOPTED = 50
"""How many spools with jobs to send a process takes at once: each holds four files open."""

T = TypeVar("T")
Pair = tuple[Job, Admission]


class Outages:
    """Keeps the publishes of one queue in this process while a server is away, and sends them.

    After the first failure no publish goes to a server until a probe is answered. ``clone`` makes
    a queue over connections of its own, for the thread that sends. Safe to share between threads
    and over fork: a child begins without a spool. ConfigurationError: jobs cannot be kept where
    the settings say; not without ``checks``, as for a clone: the directory may go meanwhile.
    """

    def __init__(
        self,
        settings: Settings,
        store: ShardedStore,
        clone: Callable[[], Any],
        tally: Tally,
        *,
        checks: bool = True,
    ) -> None:
        self._store, self._clone, self._tally = store, clone, tally
        self._settings, self._folder = settings, settings.buffer_path
        check_on_unavailable(settings.on_unavailable, settings)
        if checks and self._folder is not None:
            spools.check_folder(self._folder)
        self._sending = BackgroundLoop("buffer", log)
        self._lock = native_lock()
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        self._own: spools.Spool | None = None
        self._spools: list[spools.Spool] = []
        """That of this process, and those that it has adopted."""
        self._rows = self._inline = 0
        self._stopped: threading.Event | None = None

    def begin_in_child(self) -> None:
        """Leave the spools to the parent: their connections must not be closed here."""
        for spool in self._spools:
            spool.unlock()
        _of_parents.extend(self._spools)
        self._lock = native_lock()
        self._begin()

    def close(self) -> None:
        """Send no more, and leave what is kept to another process; a publish begins again."""
        with self._lock:
            if self._stopped is not None:
                self._stopped.set()
            for spool in self._spools:
                with suppress(spools.Error, OSError):
                    spool.close()
            self._begin()

    # A publish

    def publish_many(self, pairs: Sequence[Pair], publish: Callable[[], list[T]]) -> list[T]:
        """Publish jobs. While a server is away, those not stored are buffered if all may be."""
        ways = {admission.on_unavailable for _, admission in pairs}
        if "raise" in ways or not pairs:
            return publish()
        names = [job.workspace for job, _ in pairs]
        first = next((name for name in names if _is_away(self._home(name))), names[0])
        try:
            return self.attempt(first, publish)
        except StoreUnavailable as error:
            if ways != {"buffer"}:
                raise
            done = list(getattr(error, "outcomes", ()))
            return [*done, *self._kept(pairs[len(done) :], error)]

    def attempt(self, workspace: str, act: Callable[[], T]) -> T:
        """Do it, unless the server of this workspace is away; raises StoreUnavailable."""
        self._start()
        home = self._home(workspace)
        if _is_away(home):
            home.engine.refuse()
        try:
            return act()
        except StoreUnavailable as error:
            self._note(self._store.expected_home(workspace), error)
            raise

    @property
    def is_away(self) -> bool:
        """Whether a server is known to be away."""
        return any(map(_is_away, self._store.shards))

    def ran_inline(self) -> None:
        """Count a task that ran in the process that would have published it."""
        self._inline += 1
        self._tally.counted("inline_runs")

    # The servers

    def _home(self, workspace: str) -> Store:
        """Return a workspace's shard; a new one is probed: a call to it may hang for seconds."""
        shard = self._store.expected_home(workspace)
        if shard.engine.server and not shard.engine.is_hurried:
            shard.engine.is_hurried = True
            self._probed(shard)
        return shard

    def _note(self, shard: Store, error: StoreUnavailable) -> None:
        """Let no publish go to a server until a probe finds that it takes jobs again."""
        name, since, inline = shard.engine.server, time.monotonic(), self._inline

        def answers() -> bool:
            if isinstance(self._probed(shard), (StoreUnavailable, OSError)):
                return False
            log.warning(
                "Redis at %s answers again after %.1f s: %d jobs are buffered, %d were run inline",
                name,
                time.monotonic() - since,
                self._rows,
                self._inline - inline,
            )
            return True

        if not _is_away(shard):  # no lock is held while a handler of the log lets greenlets run
            shard.engine.breaker.publishes.shut_until(answers)
            log.warning("Redis at %s is away: no publish waits for it: %s", name, error)

    def _probed(self, shard: Store) -> Exception | None:
        """Ask whether a server takes jobs; note that it is away, and return what it raises.

        Replicas have all the time that the setting gives them: a ``WAIT`` has 0.8 of a connection's
        time-out.
        """
        wait = self._settings.replica_wait_seconds if self._settings.min_replicas else 0.0
        seconds = ASK_SECONDS, ASK_SECONDS + 2 * wait
        probe, patient = (shard.clone(timeout_seconds=each) for each in seconds)
        probe.engine.is_probe = patient.engine.is_probe = True
        try:
            with closing(probe), closing(patient):
                refuse_if_full([probe])
                patient.engine.refuse_unconfirmed()
        except Exception as error:  # noqa: BLE001 - the caller tells them apart
            if isinstance(error, StoreUnavailable):
                self._note(shard, error)
            return error
        return None

    # The spools

    def _kept(self, pairs: Sequence[Pair], error: StoreUnavailable) -> list[Any]:
        """Buffer jobs, or raise the error of the outage with the reason."""
        new = not error.may_be_stored
        jobs = [(job, how._replace(is_new=how.is_new and new)) for job, how in pairs]
        most = self._settings.buffer_jobs
        with self._lock:
            if self._rows + len(jobs) > most or self._folder is None:
                error.args = (f"{error}; the buffer is full: {self._rows} of {most} jobs",)
                raise error
            try:
                # not an adopted one, which may be damaged, and none that was removed
                if self._own is None or not self._own.is_there:
                    self._own = spools.new_in(self._folder, self._store.store_id)
                    self._spools.append(self._own)
                self._own.put(jobs)
            except (OSError, spools.Error) as reason:
                error.args = (f"{error}; {self._folder} cannot keep the job: {reason}",)
                raise error from reason
            self._rows += len(jobs)
        return [JobId(Outcome.BUFFERED, job.id) for job, _ in pairs]

    def counts(self) -> tuple[int, int, float]:
        """Return how many jobs wait here, how many were refused, and the seconds of the oldest."""
        with self._lock:
            found = [spool.counts() for spool in self._spools]
        now = time.time()
        oldest = min((since for *_, since in found if since), default=now)
        return sum(n for n, *_ in found), sum(n for _, n, _ in found), max(0.0, now - oldest)

    def _start(self) -> None:
        with self._lock:
            if self._stopped is None and self._folder is not None:
                stopped = native_event()
                start_native(partial(self._run, stopped), name="fairqueue-buffer")
                self._stopped = stopped  # not if that fails: the next publish tries again

    def _run(self, stopped: threading.Event) -> None:
        """Send what is kept here, and what ended processes have kept.

        The pause lets a long spool of a shard that is away, which is read each time, cost little.
        """
        while not stopped.is_set():
            began = time.monotonic()
            try:
                self.adopt(stopped)
                self.send()
            except Exception as error:  # noqa: BLE001 - it is logged, and tried again
                if not stopped.is_set():
                    text = "buffered jobs cannot be sent, trying again"
                    self._sending.failed(text, trace=error, level=logging.ERROR)
            stopped.wait(max(PROBE_EVERY_SECONDS, 10 * (time.monotonic() - began)))

    def adopt(self, stopped: threading.Event | None = None) -> int:
        """Take spools of ended processes, and return how many; those of a parent have its locks."""
        known = {spool.path.name for spool in (*_of_parents, *self._spools)}
        found = spools.spools_in(self._folder, self._store.store_id) if self._folder else []
        room = MOST_ADOPTED - sum(spool.counts()[0] > 0 for spool in list(self._spools))
        taken = 0
        for path in found:
            if taken >= room:
                break
            spool = None if path.name in known else self._opened(path)
            if spool is None:
                continue
            with self._lock:
                if stopped is None or not stopped.is_set():
                    self._spools.append(spool)
                    taken += 1
                    continue
            spool.close()
        return taken

    def _opened(self, path: Path) -> spools.Spool | None:
        """Open a spool that an ended process has left, or tell why it cannot be sent."""
        try:
            return spools.Spool(path)
        except BlockingIOError:
            pass  # a living process has it
        except FileNotFoundError:
            if path.exists():  # it was not sent just now
                self._tell(UNSENT, path, LOCKLESS)
        except (spools.Error, OSError) as error:
            is_for_all = path.parent.stat().st_mode & stat.S_IWOTH  # others have their own there
            if not is_for_all or getattr(error, "errno", None) != errno.EACCES:
                self._tell(UNSENT, path, error)
        return None

    def _tell(self, text: str, *values: object) -> None:
        self._sending.failed(text, *values, level=logging.ERROR)

    def send(self) -> None:
        """Send what is kept for servers that are not away, in the order of its calls.

        A spool that is damaged, or whose disk takes no change, holds up no other.
        """
        for spool in list(self._spools):
            try:
                spool.catch_up()
                self._send_all(spool)
            except spools.Closed:
                continue
            except (spools.Error, OSError) as error:
                self._tell(UNSENT, spool.path, error)
        with self._lock:
            rows = {spool: sum(spool.counts()[:2]) for spool in self._spools}
            self._spools, self._rows = [spool for spool in rows if rows[spool]], sum(rows.values())
            if self._own not in self._spools:
                self._own = None
        for spool in rows.keys() - self._spools:
            spool.close()

    def _send_all(self, spool: spools.Spool) -> None:
        """Send each job once; where one must wait, all that follow it to its shard do, too."""
        last, waits = 0, set[Store]()
        while not waits.issuperset(self._store.shards):
            jobs = defaultdict[Store, list[spools.Kept]](list)
            for each in spool.waiting(last):
                jobs[self._home(each.job.workspace)].append(each)
                last = each.number
            for shard, some in jobs.items():
                if shard in waits or _is_away(shard) or not self._send(spool, some):
                    waits.add(shard)
            if not jobs:
                return

    def _send(self, spool: spools.Spool, kept: Sequence[spools.Kept], tries: int = TRIES) -> bool:
        """Send jobs of one shard; False: it takes none at present.

        What fails while it takes jobs is sent job by job, to find the one that fails. A disk that
        takes no change, and is not full, raises before anything is sent, or it would be sent again
        and again.
        """
        numbers = [(each.number,) for each in kept]
        spool.settle(spools.SENT, numbers)
        try:
            with closing(self._clone()) as sender:
                sender._publish_many([each.now() for each in kept])  # noqa: SLF001 - of this package
        except OSError:  # such as no descriptors: of this process, and no refusal
            raise
        except Exception as error:  # noqa: BLE001 - it is told
            kept = [k._replace(admission=k.admission._replace(is_new=False)) for k in kept]
            refusal = self._probed(self._store.expected_home(kept[0].job.workspace))
            if refusal is None and len(kept) > 1:
                return all(self._send(spool, [each]) for each in kept)
            if refusal is None and isinstance(error, StoreUnavailable) and tries > 1:
                time.sleep(PROBE_EVERY_SECONDS)  # its workspace may move, or a connection was lost
                return self._send(spool, kept, tries - 1)
            if refusal is None:
                spool.settle(spools.REFUSE, [(str(error) or repr(error), *numbers[0])])
            job = kept[0].job
            self._tell("job %r of workspace %r stays buffered: %s", job.id, job.workspace, error)
            return refusal is None
        spool.settle(spools.DELETE, numbers)
        for each in kept:
            self._tally.counted("buffer_sent", each.job.queue)
        return True


def _is_away(shard: Store) -> bool:
    return shard.engine.breaker.publishes.is_shut


_all = in_forked_children(Outages.begin_in_child)
_of_parents: list[spools.Spool] = []
