"""A spool: one SQLite file of buffered jobs, which one living process at a time adds to and sends.

That process holds a lock on the file beside it. The kernel frees the lock when the process ends,
however it ends, and a process that finds it free adopts the spool.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shlex
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairqueue._publish.capacity_wait import waited
from fairqueue._stores.publishes import BYTES_AT_ONCE, PUBLISHED_AT_ONCE
from fairqueue._types import Admission, Job
from fairqueue.errors import ConfigurationError

Error = sqlite3.Error
OF_JOB = ("id", "workspace", "queue", "task", "priority", "delay_seconds", "expires_seconds")
OF_ADMISSION = ("unique_key", "unique_for", "without_workspace", "other_id")
TABLE = """CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    store TEXT, kept REAL, is_new INTEGER, refused TEXT, job TEXT, payload BLOB
)"""
INDEX = "CREATE INDEX IF NOT EXISTS waiting ON jobs (store, refused)"
"""A publish waits while jobs are counted, or the first ones are looked for."""
LOG_BYTES = 32 * 2**20
"""A larger write-ahead log is moved into the file, by the thread that sends: a publish syncs none
of it."""
INSERT = "INSERT INTO jobs (store, kept, is_new, job, payload) VALUES (?, ?, ?, ?, ?)"
DELETE = "DELETE FROM jobs WHERE number = ?"
DROP = "DELETE FROM jobs WHERE ? IS NULL OR json_extract(job, '$.id') = ?"
REFUSE = "UPDATE jobs SET refused = ? WHERE number = ?"
RETRY = "UPDATE jobs SET refused = NULL, is_new = 0"
SENT = "UPDATE jobs SET is_new = 0"
SELECT = "SELECT number, kept, store, is_new, refused, job, payload FROM jobs"
WAITING = f"{SELECT} WHERE store = ? AND refused IS NULL AND number > ? ORDER BY number LIMIT ?"

_NAME = re.compile(r"\d+-[0-9a-f]{16}\.db")


@dataclass(frozen=True, slots=True)
class Kept:
    """A job in a spool."""

    number: int
    kept: float
    """When it was published, by this machine's clock."""
    store: str
    """Where it goes: the address of the store, and its namespace."""
    refused: str | None
    """Why the store refused it for good; None: it waits to be sent."""
    job: Job
    admission: Admission

    def now(self) -> tuple[Job, Admission]:
        """The job as it is sent now: delay and expiry count from its publish."""
        return waited(self.job, max(0.0, time.time() - self.kept)), self.admission


def _read(row: tuple[Any, ...]) -> Kept:
    """Read a row. The caller was told that its job is accepted: capacity does not refuse it."""
    number, kept, store, is_new, refused, text, payload = row
    told = json.loads(text)
    job = Job(payload=payload, **{name: told[name] for name in OF_JOB})
    rules = {name: told[name] for name in OF_ADMISSION}
    admission = Admission(exempt=True, is_new=bool(is_new), **rules)
    return Kept(number, kept, store, refused, job, admission)


def _text(job: Job, admission: Admission) -> str:
    told = {name: getattr(job, name) for name in OF_JOB}
    return json.dumps(told | {name: getattr(admission, name) for name in OF_ADMISSION})


def checked_folder(path: Path) -> Path:
    """Return it as an absolute path. ConfigurationError: no files can be made in it."""
    if not os.path.isdir(path):  # noqa: PTH112 - a name that no file can have is none either
        raise ConfigurationError(
            f"setting 'buffer_path': {str(path)!r} is no directory: make one on a disk that "
            f"outlives the process (mkdir -p {shlex.quote(str(path))}), or name another"
        )
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigurationError(
            f"setting 'buffer_path': this process may not write to {str(path)!r}: let its user "
            "own it"
        )
    return path.resolve()


def spools_in(folder: Path) -> list[Path]:
    """The files of all spools, whichever process has them; other databases are left alone."""
    return sorted(path for path in folder.glob("*.db") if _NAME.fullmatch(path.name))


def read_all(path: Path) -> list[Kept]:
    """Read a spool, whichever process has it."""
    with closing(_opened(path)) as db:
        return [_read(row) for row in db.execute(f"{SELECT} ORDER BY number")]


def change(path: Path, statement: str, *values: Any) -> int:
    """Change a spool, whichever process has it; return how many of its rows."""
    with closing(_opened(path)) as db, db:
        return db.execute(statement, values).rowcount


def _opened(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=1.0, check_same_thread=False)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("PRAGMA wal_autocheckpoint=0")
    db.execute("PRAGMA journal_size_limit=0")  # where the log begins again
    db.execute(TABLE)
    db.execute(INDEX)
    return db


class Spool:
    """One spool that this process has locked. Its owner lets one thread at a time use it."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path, self._lock = path, lock
        self.sent: list[tuple[int]] = []
        """The numbers of jobs that were sent, until the disk has taken them out."""
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # payloads may be private
            self._db = _opened(path)
        except BaseException:
            self.unlock()
            raise

    @classmethod
    def create(cls, folder: Path) -> Spool:
        """Make a new one; raises OSError or sqlite3.Error."""
        path = folder / f"{os.getpid()}-{secrets.token_hex(8)}.db"
        lock = _lock(path)
        if lock is None:
            raise OSError(f"{path} is locked")
        return cls(path, lock)

    @classmethod
    def adopt(cls, path: Path) -> Spool | None:
        """Take one whose process has ended; None: it is in use, or has just been removed."""
        lock = _lock(path)
        if lock is None:
            return None
        if not path.exists():
            os.close(lock)
            path.with_suffix(".lock").unlink(missing_ok=True)
            return None
        return cls(path, lock)

    def put(self, store: str, jobs: Sequence[tuple[Job, Admission]]) -> None:
        """Keep jobs: all or none.

        One that ``is_new`` was surely not sent: the store has none of its id, or another job.
        """
        now = time.time()
        rows = ((store, now, how.is_new, _text(job, how), job.payload) for job, how in jobs)
        self.change(INSERT, rows)

    def change(self, statement: str, rows: Iterable[Sequence[Any]] = ((),)) -> None:
        """Run a statement once for each of these rows of values: all or none."""
        with self._db:
            self._db.executemany(statement, rows)

    def waiting(self, store: str, after: int) -> list[Kept]:
        """Read the first jobs behind a number, up to a hundred, that are to be sent."""
        self.drop_sent()
        found = self._db.execute(WAITING, (store, after, PUBLISHED_AT_ONCE))
        return list(_up_to(BYTES_AT_ONCE, found))

    def version(self) -> int:
        """Another one means that another connection, as an operator's, has changed its rows."""
        found: int = self._db.execute("PRAGMA data_version").fetchone()[0]
        return found

    def drop_sent(self) -> None:
        """Take out what was sent: while the disk does not let this be done, nothing more is."""
        if self.sent:
            self.change(DELETE, self.sent)
            self.sent = []

    def counts(self, store: str) -> tuple[int, int, float | None]:
        """Return how many of a store wait and were refused, and when the first was kept."""
        waiting, refused, first = self._db.execute(
            "SELECT count(*) - count(refused), count(refused), "
            "min(CASE WHEN refused IS NULL THEN number END) FROM jobs WHERE store = ?",
            (store,),
        ).fetchone()
        at = self._db.execute("SELECT kept FROM jobs WHERE number = ?", (first,)).fetchone()
        return waiting, refused, at and at[0]

    def move_log(self) -> None:
        """Move a long log into the file, while others use the spool."""
        if self.path.with_suffix(".db-wal").stat().st_size > LOG_BYTES:
            with closing(
                sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=rw", uri=True)
            ) as db:
                db.execute("PRAGMA wal_checkpoint")

    def close(self) -> None:
        """Leave it to another process; one that is empty is removed."""
        try:
            is_empty = self._db.execute("SELECT 1 FROM jobs LIMIT 1").fetchone() is None
            self._db.close()
            if is_empty:
                for end in (".db", ".db-wal", ".db-shm", ".lock"):
                    self.path.with_suffix(end).unlink(missing_ok=True)
        finally:
            self.unlock()

    def unlock(self) -> None:
        """Hold the lock no more; in a forked child, leave it to the parent."""
        os.close(self._lock)


def _up_to(size: int, rows: Iterator[tuple[Any, ...]]) -> Iterator[Kept]:
    for row in rows:
        yield (kept := _read(row))
        size -= len(kept.job.payload)
        if size <= 0:
            return


def _lock(path: Path) -> int | None:
    """Lock the file beside a spool; None: it is locked, here or elsewhere."""
    lock = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock
