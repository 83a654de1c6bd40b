"""A spool: one SQLite file of buffered jobs, which one living process at a time adds to and sends.

That process holds a lock on the file beside it. The kernel frees the lock when the process ends,
however it ends, and a process that finds it free adopts the spool.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shlex
import sqlite3
import stat
import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from hashlib import blake2b
from io import FileIO
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from fairqueue._publish.capacity_wait import waited
from fairqueue._stores.publishes import BYTES_AT_ONCE, PUBLISHED_AT_ONCE
from fairqueue._threads import native_lock
from fairqueue._types import Admission, Job
from fairqueue.errors import ConfigurationError

Error = sqlite3.Error
Closed = sqlite3.ProgrammingError
"""Another thread has closed the spool meanwhile."""
JOB = "id, workspace, queue, task, payload, priority, delay_seconds, expires_seconds"
RULES = "unique_key, unique_for, without_workspace, other_id, is_new"
OF_JOB, OF_RULES = JOB.split(", "), RULES.split(", ")
SCHEMA = f"""
    PRAGMA page_size = 1024; -- a publish writes three pages
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    PRAGMA wal_autocheckpoint = 0; -- no publish waits for the disk; the log goes with the file
    CREATE TABLE IF NOT EXISTS jobs (
        number INTEGER PRIMARY KEY AUTOINCREMENT, kept, refused, {JOB}, {RULES}
    );
    CREATE INDEX IF NOT EXISTS waiting ON jobs (refused);
    PRAGMA temp_store = MEMORY;
    CREATE TEMP TABLE done (refused, number INTEGER PRIMARY KEY); -- what a full disk cannot note
"""
"""The index: a publish waits while jobs are counted, or the first ones are looked for."""
INSERT = "INSERT INTO jobs VALUES (NULL, ?, NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
SELECT = f"SELECT number, kept, refused, {JOB}, {RULES} FROM jobs"  # noqa: S608 - our own names
DELETE = "DELETE FROM jobs WHERE number = ?"
DROP = "DELETE FROM jobs WHERE ? IS NULL OR id = ?"
REFUSE = "UPDATE jobs SET refused = ? WHERE number = ?"
RETRY = "UPDATE jobs SET refused = NULL WHERE refused IS NOT NULL"
SENT = "UPDATE jobs SET is_new = 0 WHERE number = ?"
ON_FULL_DISK = {
    DELETE: "INSERT OR REPLACE INTO done VALUES (NULL, ?)",
    REFUSE: "INSERT OR REPLACE INTO done VALUES (?, ?)",
}
DONE = (
    "DELETE FROM jobs WHERE number IN (SELECT number FROM done WHERE refused IS NULL)",
    """UPDATE jobs SET refused = (SELECT refused FROM done WHERE done.number = jobs.number)
    WHERE number IN (SELECT number FROM done)""",
    "DELETE FROM done",
)
UNTRIED = "number NOT IN (SELECT number FROM done)"
LEFT = "number NOT IN (SELECT number FROM done WHERE refused IS NULL)"
WAITING = f"{SELECT} WHERE refused IS NULL AND number > ? AND {UNTRIED} ORDER BY number LIMIT ?"
COUNTS = f"""SELECT count(*) - count(refused), count(refused), (
    SELECT kept FROM jobs WHERE refused IS NULL AND {LEFT} ORDER BY number LIMIT 1
) FROM jobs WHERE {LEFT}"""  # noqa: S608 - our own words


class Kept(NamedTuple):
    """A job in a spool."""

    number: int
    kept: float
    """When it was published, by this machine's clock."""
    refused: str | None
    """Why the store refused it for good; None: it waits to be sent."""
    job: Job
    admission: Admission

    def now(self) -> tuple[Job, Admission]:
        """The job as it is sent now: delay and expiry count from its publish."""
        return waited(self.job, max(0.0, time.time() - self.kept)), self.admission


def _read(row: Sequence[Any]) -> Kept:
    """Read a row. The caller was told that its job is accepted: capacity does not refuse it."""
    number, kept, refused, *told = row
    job, rules = Job(*told[: len(OF_JOB)]), zip(OF_RULES, told[len(OF_JOB) :], strict=True)
    return Kept(number, kept, refused, job, Admission(exempt=True, **dict(rules)))


def check_folder(path: Path) -> None:
    """ConfigurationError: no files can be made in it."""
    is_one = os.path.isdir(path)  # noqa: PTH112 - a name that no file can have is none either
    if not is_one or not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigurationError(
            f"setting 'buffer_path': {str(path)!r} is no directory that this process may write to: "
            f"make one on a disk that outlives the process (mkdir -p {shlex.quote(str(path))}), "
            "owned by its user, or name another"
        )


def new_in(folder: Path, store_id: str) -> Spool:
    """Make a new spool of this process, for the jobs of a store."""
    path = folder / f"{os.getpid()}-{secrets.token_hex(8)}.{_key(store_id)}.spool"
    return Spool(path, os.O_CREAT | os.O_EXCL)


def spools_in(folder: Path, store_id: str | None = None) -> list[Path]:
    """The files of all spools, or of a store's, whichever process has them."""
    return sorted(folder.glob(f"*.{'*' if store_id is None else _key(store_id)}.spool"))


def _key(store_id: str) -> str:
    return blake2b(store_id.encode(), digest_size=8).hexdigest()


def read_all(path: Path) -> list[Kept]:
    """Read a spool, whichever process has it."""
    with closing(_opened(path)) as db:
        return [_read(row) for row in db.execute(f"{SELECT} ORDER BY number")]


def change(path: Path, statement: str, *values: Any) -> int:
    """Change a spool, whichever process has it; return how many of its rows."""
    with closing(_opened(path)) as db, db:
        return db.execute(statement, values).rowcount


def _refuse_foreign(path: Path) -> None:
    """Raise PermissionError for what another user may have put where all may, as into /tmp.

    SQLite also reads what is beside the file. Some mounts give all files one owner.
    """
    there = list[os.stat_result]()
    for end in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            there.append(path.with_name(path.name + end).lstat())
    if any(stat.S_ISLNK(each.st_mode) for each in there):
        raise PermissionError("it is a symbolic link: remove it")
    others = {each.st_uid for each in there} - {os.geteuid()}
    if others and path.parent.stat().st_mode & stat.S_IWOTH:
        with TemporaryFile(dir=path.parent) as own:
            others.discard(os.fstat(own.fileno()).st_uid)
        if others:
            raise PermissionError(
                "it is another user's, and all users may write to its directory: run `fairqueue "
                f"buffer` as that user, or chmod o-w {shlex.quote(str(path.parent))}"
            )


def _opened(path: Path) -> sqlite3.Connection:
    """Open a spool that is there.

    Nothing else opens it then: to close another descriptor of it would drop SQLite's locks.
    """
    _refuse_foreign(path)
    uri = f"{path.absolute().as_uri()}?mode=rw"
    db = sqlite3.connect(uri, uri=True, timeout=1.0, check_same_thread=False)
    try:
        db.executescript(SCHEMA)
        _refuse_foreign(path)  # what was put there meanwhile
    except BaseException:
        db.close()
        raise
    return db


class Spool:
    """One spool, new or of an ended process, that this process locks. Threads may share it.

    Raises OSError if it is in use, cannot be opened, or may be a trap; sqlite3.Error if it is
    damaged.
    """

    def __init__(self, path: Path, flags: int = 0) -> None:
        self.path, self._guard = path, native_lock()
        flags |= os.O_RDWR | os.O_NOFOLLOW
        self._lock = FileIO(os.open(path.with_suffix(".lock"), flags, 0o600))
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(os.open(path, flags, 0o600))  # payloads may be private
            self._db = _opened(path)
            self.settle(RETRY, [()])  # what its last process was refused
        except BaseException:
            if flags & os.O_EXCL:
                self._remove()
            self.unlock()
            raise

    @property
    def is_there(self) -> bool:
        """Whether its files are: another process, which is to send it, looks for both."""
        return all(map(os.path.exists, (self.path, self.path.with_suffix(".lock"))))

    def put(self, jobs: Sequence[tuple[Job, Admission]]) -> None:
        """Keep jobs: all or none.

        One that ``is_new`` was surely not sent: the store has none of its id, or another job.
        """
        of_job, of_rules, now = attrgetter(*OF_JOB), attrgetter(*OF_RULES), time.time()
        self.change(INSERT, ((now, *of_job(job), *of_rules(how)) for job, how in jobs))

    def change(self, statement: str, rows: Iterable[Sequence[Any]] = ((),)) -> None:
        """Run a statement once for each of these rows of values: all or none."""
        with self._guard, self._db:
            self._db.executemany(statement, rows)

    def settle(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement about jobs that were sent, also where the disk is full, maybe of them.

        What it cannot delete or mark this process passes over, until there is room or nothing is
        left. If the process ends before that, the next one sends it again.
        """
        try:
            self.change(statement, rows)
        except Error as error:
            if "disk is full" not in str(error):
                raise
            if statement in ON_FULL_DISK:
                self.change(ON_FULL_DISK[statement], rows)

    def catch_up(self) -> None:
        """Delete and mark what a full disk could not, once there is room; RETRY needs the marks."""
        with suppress(Error):
            for statement in DONE:
                self.change(statement)

    def waiting(self, after: int) -> list[Kept]:
        """Read the first jobs behind a number, up to a hundred, that are to be sent.

        Of a damaged file it returns those before the damage, and then raises sqlite3.Error.
        """
        kept, size = list[Kept](), 0
        try:
            with self._guard:
                for row in self._db.execute(WAITING, (after, PUBLISHED_AT_ONCE)):
                    kept.append(_read(row))
                    size += len(kept[-1].job.payload)
                    if size >= BYTES_AT_ONCE:
                        break
        except Error:
            if not kept:
                raise
        return kept

    def counts(self) -> tuple[int, int, float | None]:
        """Return how many jobs wait and were refused, and when the first was kept.

        A spool that is damaged counts as one refused job.
        """
        with self._guard, suppress(Error):
            return self._db.execute(COUNTS).fetchone()  # type: ignore[no-any-return]
        return 0, 1, None

    def close(self, *, discards: bool = False) -> None:
        """Leave it to another process; one that is empty, or that this one discards, is removed."""
        try:
            with self._guard, closing(self._db):
                is_empty = discards or not any(self._db.execute(COUNTS).fetchone()[:2])
            if is_empty:
                self._remove()
        finally:
            self.unlock()

    def _remove(self) -> None:
        for end in (".spool", ".spool-wal", ".spool-shm", ".lock"):
            self.path.with_suffix(end).unlink(missing_ok=True)

    def unlock(self) -> None:
        """Hold the lock no more; in a forked child, leave it to the parent."""
        self._lock.close()
