"""``fairqueue buffer``: the jobs that producers keep on disk while Redis is away."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from fairqueue import FairQueue, Settings
from fairqueue.buffer.outages import Outages
from fairqueue.buffer.spool import (
    DROP,
    RETRY,
    Kept,
    Spool,
    change,
    check_folder,
    read_all,
    spools_in,
)
from fairqueue.cli._command import Answer, confirm, on_queue, table
from fairqueue.plain import count_jobs, duration, printable

HEAD = ("job", "workspace", "queue", "task", "refused", "kept for")


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("action", type=click.Choice(["list", "send", "drop"]), default="list")
@click.option("--job", help="With drop: only the job with this id.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@on_queue
def buffer(core: FairQueue, *, path: Path, action: str, job: str | None, yes: bool) -> Answer:
    """List, send or drop the jobs that producers keep in the directory PATH.

    PATH is the setting buffer_path. Send sends what ended processes have left, and lets living ones
    try again what Redis has refused. Drop deletes jobs for good.
    """
    check_folder(path)
    if action == "send":
        return _send(core, path)
    return _drop(path, job, yes=yes) if action == "drop" else _list(path)


def _list(path: Path) -> Answer:
    unread = list[Path]()
    rows: list[dict[str, Any]] = [
        {
            "job_id": each.job.id,
            "workspace": each.job.workspace,
            "queue": each.job.queue,
            "task": each.job.task,
            "refused": each.refused or "",
            "seconds": max(0.0, time.time() - each.kept),
        }
        for each in _kept(path, unread)
    ]
    cells = [[*map(printable, [*row.values()][:-1]), duration(row["seconds"])] for row in rows]
    text = table(HEAD, cells, right=HEAD[5:]) if rows else "No job is buffered."
    return Answer({"jobs": rows}, text, code=int(bool(unread)))


def _each(path: Path, do: Callable[[Path], Any], unread: list[Path]) -> Iterator[Any]:
    """Do it to each file, and yield what that gives; one that cannot be read holds up no other."""
    for spool in spools_in(path):
        try:
            yield do(spool)
        except (OSError, sqlite3.Error) as error:
            if spool not in unread:
                click.echo(f"{printable(str(spool))} cannot be read: {error}", err=True)
                unread.append(spool)


def _kept(path: Path, unread: list[Path]) -> list[Kept]:
    return [each for found in _each(path, read_all, unread) for each in found]


def _send(core: FairQueue, path: Path) -> Answer:
    core.connect()
    unread = list[Path]()
    list(_each(path, lambda spool: change(spool, RETRY), unread))
    before = len(_kept(path, unread))
    settings = Settings.load({**core.settings.given, "buffer_path": path})
    outages = Outages(settings, core.store, core.clone, core.tally)
    while outages.adopt():
        outages.send()
    outages.close()
    left = len(_kept(path, unread))
    sent = max(0, before - left)
    text = f"{count_jobs(sent)} sent, {left} left"
    text += ": of living processes, of another --url, or refused (list)" if left else ""
    return Answer({"sent": sent, "left": left}, text, code=int(bool(left or unread)))


def _drop(path: Path, job: str | None, *, yes: bool) -> Answer:
    what = "all buffered jobs" if job is None else f"the buffered job {printable(job)}"
    confirm(f"Delete {what} in {printable(str(path))} for good?", yes=yes)
    unread = list[Path]()
    dropped = sum(_each(path, partial(_dropped, job), unread))
    text = f"{count_jobs(dropped)} dropped"
    return Answer({"dropped": dropped}, text, code=int(bool(unread) or not dropped))


def _dropped(job: str | None, path: Path) -> int:
    """Drop jobs of a file, and return how many; one of an ended process goes from a full disk."""
    if job is None:
        with suppress(BlockingIOError, FileNotFoundError):  # a living process has it, or had
            spool = Spool(path)
            dropped = sum(spool.counts()[:2])
            spool.close(discards=True)
            return dropped
    return change(path, DROP, job, job)
