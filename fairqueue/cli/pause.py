"""``fairqueue pause``, ``resume`` and ``drain``."""

from __future__ import annotations

import time

import click

from fairqueue import FairQueue, Scope
from fairqueue.cli._command import Answer, on_queue, progress
from fairqueue.cli._options import as_names, as_seconds, count_remaining, scope_options
from fairqueue.plain import count_jobs, printable

POLL_SECONDS = 0.5


@click.command()
@scope_options("Act on", "all")
@on_queue
def pause(core: FairQueue, *, scope: Scope) -> Answer:
    """Stop starting jobs in this scope until it is resumed.

    Running jobs finish; new jobs are still accepted.
    """
    before = core.pauses.pause(scope)
    result = {**as_names(scope), "state": "paused", "previous_state": before}
    return Answer(result, f"{scope}: paused")


@click.command()
@scope_options("Act on", "all")
@on_queue
def resume(core: FairQueue, *, scope: Scope) -> Answer:
    """End the pause or drain of exactly this scope.

    Other pauses and drains stay; the output lists them.
    """
    before = core.pauses.resume(scope)
    rows = core.pauses.list()
    pauses = [{"scope": row.scope, "name": row.name, "state": row.state} for row in rows]
    lines = [f"{scope}: {'resumed' if before else 'was not paused or draining'}"]
    lines += [f"still {row.state.value}: {row.scope} {printable(row.name)}" for row in rows]
    result = {**as_names(scope), "previous_state": before, "pauses": pauses}
    return Answer(result, "\n".join(lines))


@click.command()
@scope_options("Act on", "all")
@click.option("--no-wait", is_flag=True, help="Return at once; do not wait for the jobs.")
@click.option("--timeout", callback=as_seconds, help="Wait at most this long, such as 90 or 5m.")
@on_queue
def drain(core: FairQueue, *, scope: Scope, no_wait: bool, timeout: float | None) -> Answer:
    """Reject new jobs in this scope, and run the others.

    The command returns when no job remains. The scope keeps draining until it is resumed. Exit
    code 1: jobs remain after --timeout.
    """
    if scope.kind == "task" and not no_wait:
        raise click.UsageError("jobs are not counted by task: pass --no-wait with --task")
    core.pauses.drain(scope)
    names = as_names(scope)
    remaining = count_remaining(core, names) if no_wait else _wait(core, scope, timeout)
    text = f"{scope}: draining"
    text += "" if remaining is None else f", {count_jobs(remaining)} remaining"
    result = {**names, "state": "draining", "remaining": remaining}
    return Answer(result, text, 1 if remaining and not no_wait else 0)


def _wait(core: FairQueue, scope: Scope, timeout: float | None) -> int:
    """Wait until no job remains, or until the timeout; return how many remain."""
    until = None if timeout is None else time.monotonic() + timeout
    names = as_names(scope)
    remaining = count_remaining(core, names) or 0
    with progress(f"draining {scope}", remaining) as advance:
        while remaining and (until is None or time.monotonic() < until):
            time.sleep(POLL_SECONDS)
            before, remaining = remaining, count_remaining(core, names) or 0
            advance(max(0, before - remaining))
    return remaining
