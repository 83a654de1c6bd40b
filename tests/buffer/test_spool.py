"""A spool on disk, which its process and the operator's commands open."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fairqueue._types import Admission, Job
from fairqueue.buffer import spool as spools

LISTS = """\
import sys
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


def test_a_spool_that_was_removed_meanwhile_is_not_made_again(tmp_path: Path) -> None:
    """Another process has sent it while this one waited for its lock."""
    spool = spools.new_in(tmp_path, "here")
    spool.close()
    with pytest.raises(FileNotFoundError):
        spools.Spool(spool.path)
    assert list(tmp_path.iterdir()) == []


def test_what_another_user_has_put_among_the_spools_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All users may write to some directories, such as /tmp; its jobs could be any."""
    made = spools.new_in(tmp_path, "here")
    _put(made, "1")
    made.close()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    spools.Spool(made.path).close()
    tmp_path.chmod(0o1777)
    with pytest.raises(PermissionError, match="another user's"):
        spools.Spool(made.path)
    monkeypatch.undo()
    spools.Spool(made.path).close()
