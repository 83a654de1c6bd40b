"""A spool on disk, which its process and the operator's commands open."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fairqueue._types import Admission, Job
from fairqueue.buffer import spool as spools

LISTS = """\
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from fairqueue.buffer.spool import read_all
print(len(read_all(Path(sys.argv[1]))))
"""


def _put(spool: spools.Spool, *ids: str) -> None:
    jobs = [Job(each, "acme", "q", "t", b"x" * 1000, 0, 0.0, None) for each in ids]
    spool.put([(job, Admission()) for job in jobs])


def _listed(path: Path) -> int:
    """Count a spool's jobs in a process of its own, as the command does."""
    return int(subprocess.check_output([sys.executable, "-c", LISTS, str(path)], text=True))


def test_a_list_of_a_spool_in_use_loses_no_job(tmp_path: Path) -> None:
    """What its process keeps from then on is on disk, too."""
    spool = spools.new_in(tmp_path, "here")
    _put(spool, "before")
    assert _listed(spool.path) == 1
    _put(spool, "after")
    assert _listed(spool.path) == 2
    spool.close()


def test_a_small_job_takes_little_of_the_disk(tmp_path: Path) -> None:
    """Each publish writes whole pages."""
    spool = spools.new_in(tmp_path, "here")
    for number in range(100):
        _put(spool, str(number))
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 100 * 6_500 + 40_000
    spool.close()


def test_a_damaged_spool_holds_nothing_open(tmp_path: Path) -> None:
    """It is looked at again and again while its process lives."""
    path = tmp_path / "1-0.0.spool"
    path.write_bytes(b"this is no database" * 100)
    path.with_suffix(".lock").touch()
    before = len([*Path("/dev/fd").iterdir()])
    errors = []
    for _ in range(5):
        with pytest.raises(sqlite3.Error) as error:
            spools.Spool(path)
        errors.append(error)  # with its traceback
    assert len([*Path("/dev/fd").iterdir()]) == before


def test_a_spool_that_finds_no_room_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each refused publish of an outage tries it again."""
    monkeypatch.setattr(spools, "SCHEMA", "PRAGMA max_page_count = 1; CREATE TABLE a (b)")
    with pytest.raises(sqlite3.Error, match="disk is full"):
        spools.new_in(tmp_path, "here")
    assert list(tmp_path.iterdir()) == []


def test_a_spool_that_was_removed_meanwhile_is_not_made_again(tmp_path: Path) -> None:
    """Another process has sent it while this one waited for its lock."""
    spool = spools.new_in(tmp_path, "here")
    spool.close()
    with pytest.raises(FileNotFoundError):
        spools.Spool(spool.path)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A spool that an ended process has left where all users may write, such as /tmp."""
    tmp_path.chmod(0o1777)
    spool = spools.new_in(tmp_path, "here")
    _put(spool, "1")
    spool.close()
    return spool.path


def _refusals(path: Path) -> Iterator[str]:
    """Why it is not sent, listed or changed."""
    for use in (spools.Spool, spools.read_all, lambda path: spools.change(path, spools.RETRY)):
        with pytest.raises(PermissionError) as refused:
            use(path)
        yield str(refused.value)


def _waiting(path: Path) -> int:
    """How many jobs a process that adopts it may send."""
    with closing(spools.Spool(path)) as spool:
        return spool.counts()[0]


@pytest.mark.parametrize(
    ("end", "is_late"),
    [("", False), ("-wal", False), ("-wal", True), ("-shm", False), ("-journal", False)],
)
def test_what_another_user_has_put_among_the_spools_is_not_used(
    made: Path, monkeypatch: pytest.MonkeyPatch, end: str, is_late: bool
) -> None:
    """Its jobs could be any; SQLite takes what is beside the file for its own.

    Not even what is put there between the look and the use.
    """
    foreign = made.with_name(made.name + end)
    foreign.touch()
    lstat, connect = Path.lstat, sqlite3.connect

    def of_another(path: Path) -> os.stat_result:
        found = list(lstat(path))
        found[stat.ST_UID] += path == foreign
        return os.stat_result(found)

    def put_late(*values: Any, **options: Any) -> Any:
        monkeypatch.setattr(Path, "lstat", of_another)
        return connect(*values, **options)

    if is_late:
        monkeypatch.setattr(sqlite3, "connect", put_late)
    else:
        monkeypatch.setattr(Path, "lstat", of_another)
    for why in _refusals(made):
        assert "another user's" in why
        assert why.endswith(f"run `fairqueue buffer` as that user, or chmod o-w {made.parent}")
    made.parent.chmod(0o700)
    assert _waiting(made) == 1


def test_a_mount_that_gives_all_files_one_owner_has_no_foreign_ones(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS may squash its users, and CIFS and FAT have none."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert _waiting(made) == 1


def test_a_link_among_the_spools_is_not_followed(made: Path) -> None:
    """It may name any file that its reader may change."""
    link = made.with_name(f"1-a.b{made.suffix}")
    link.symlink_to(made)
    link.with_suffix(".lock").touch()
    with pytest.raises(OSError, match="symbolic link"):
        spools.Spool(link)
    with pytest.raises(OSError, match="symbolic link"):
        spools.read_all(link)
    assert len(spools.read_all(made)) == 1
