"""``fairqueue status``, ``doctor`` and ``reshard``: what is wrong, and the number of shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict

import click

from fairqueue import FairQueue
from fairqueue.audit import Checkup, Level, Remark, Repair, remedy_of
from fairqueue.cli._command import Answer, on_queue, progress, table
from fairqueue.cli._connect import shown_url
from fairqueue.cli._options import as_seconds
from fairqueue.cli._typed import as_typed
from fairqueue.plain import count_jobs, counted, printable


@click.command()
@click.option("--repair", is_flag=True, help="Mend the keys, and name each repair.")
@click.option("--forget", is_flag=True, help="First forget what was set aside (I13).")
@on_queue
def doctor(core: FairQueue, *, repair: bool, forget: bool) -> Answer:
    """Check the server, the workers and every key.

    A server on which the scripts cannot run is refused; the message says what to change.
    Otherwise all keys of the namespace are read, page by page, and checked against the invariants
    I1 to I16 of docs/architecture/keys.md. Exit code 1: one of them does not hold, or there is a
    problem with the server or the workers. A warning alone is exit code 0.

    Two findings are temporary: I2 until a lowered limit has drained, and I7 until the worker that
    was woken has claimed. I13 names what could not be read and was set aside, until --forget
    removes it. --repair may run beside workers; no job whose record can be read is lost.
    """
    if forget:
        core.doctor.drop_set_aside()
    found = core.doctor.checkup(repair=repair)
    url = shown_url(click.get_current_context().params["url"])
    text = "\n".join(_parts(found, url))
    return Answer({"url": url, **asdict(found)}, text, 0 if found.is_sound else 1)


def _parts(found: Checkup, url: str) -> Iterator[str]:
    yield f"{printable(url)}, namespace {printable(found.namespace)}"
    yield _table_of(found.remarks)
    if found.repairs:
        yield ""
        yield table(("mended", "finding", "repair"), map(_repair, found.repairs))
    yield ""
    if found.findings:
        rows = [
            [one.invariant, printable(one.text), as_typed(remedy_of(one))] for one in found.findings
        ]
        yield table(("invariant", "finding", "remedy"), rows)
    else:
        problems = sum(one.level is Level.PROBLEM for one in found.remarks)
        told = f" Above: {counted(problems, 'problem')} with the server or the workers."
        yield f"Every invariant holds.{told * bool(problems)}"


def _table_of(remarks: Iterable[Remark]) -> str:
    rows = [[one.level.value, one.about, as_typed(printable(one.text))] for one in remarks]
    return table(("level", "about", "remark"), rows) if rows else ""


def _repair(one: Repair) -> list[str]:
    text = printable(f"{one.invariant}: {one.text}")
    return ["yes" if one.is_mended else "no", text, printable(one.done)]


@click.command()
@on_queue
def status(core: FairQueue) -> Answer:
    """Say in one line whether anything is wrong, and then what.

    It names silent workers, queues from which nothing is claimed, missing worker slots, jobs that
    run ten times longer than their average, dead letters of the last hour, pauses, contradicting
    limits, and what is wrong with Redis. It reads no key of a job, so a probe may call it. Exit
    code 1: there is a problem. A warning alone is exit code 0.
    """
    found = core.doctor.status()
    text = f"{found.line}\n{_table_of(found.reasons)}".rstrip()
    result = {"level": found.level.value, **asdict(found)}
    return Answer(result, text, int(found.level is Level.PROBLEM))


@click.command()
@click.option("--to", type=click.IntRange(min=1), required=True, help="How many shards.")
@click.option("--dry-run", is_flag=True, help="Count what would move, move nothing.")
@click.option(
    "--wait",
    "wait_seconds",
    callback=as_seconds,
    default="60",
    show_default=True,
    help="How long a workspace is paused for its running jobs to end, before it is left out.",
)
@on_queue
def reshard(core: FairQueue, *, to: int, dry_run: bool, wait_seconds: float) -> Answer:
    """Spread a namespace in use over another number of shards.

    Workspaces move one by one, and each is paused meanwhile. It may be interrupted and run again.
    Exit code 1: some workspaces have not moved, since their jobs ran for too long; run it again.
    Exit code 4: another process changes the number of shards; wait until it has ended.
    """
    planned = core.doctor.reshard(to, dry_run=True)
    found = planned
    if not dry_run:
        with progress(f"moving to {to} shards", planned.jobs) as advance:
            found = core.doctor.reshard(to, wait_seconds=wait_seconds, progress=advance)
    verb = "would move" if dry_run else "moved"
    way = f"from {found.shards} to {to} shards"
    lines = [f"{way}: workspaces that {verb}: {found.workspaces:,}, with {count_jobs(found.jobs)}"]
    if found.late:
        late = ", ".join(map(printable, found.late))
        lines.append(f"{len(found.late):,} have not moved, run this again: {late}")
    return Answer({**asdict(found), "dry_run": dry_run}, "\n".join(lines), 1 if found.late else 0)
