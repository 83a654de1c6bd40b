"""``fairqueue pause``, ``resume`` and ``drain``."""

from __future__ import annotations

import time

import click

from fairqueue import FairQueue
from fairqueue.cli._connect import connection_options, opened_queue
from fairqueue.cli._format import count_jobs, printable
from fairqueue.cli._output import json_option, print_result, progress
from fairqueue.cli._scope import Scope, count_remaining, describe, scope_options

POLL_SECONDS = 0.5


@click.command()
@scope_options
@json_option
@connection_options
def pause(*, url: str, namespace: str | None, scope: Scope, as_json: bool) -> None:
    """Stop starting jobs in this scope until it is resumed.

    Running jobs finish; new jobs are still accepted.
    """
    with opened_queue(url, namespace) as core:
        before = core.admin.pause(**scope)
    result = {**scope, "state": "paused", "previous_state": before and before.value}
    print_result(result, f"{describe(scope)}: paused", as_json=as_json)


@click.command()
@scope_options
@json_option
@connection_options
def resume(*, url: str, namespace: str | None, scope: Scope, as_json: bool) -> None:
    """End the pause or drain of exactly this scope.

    Other pauses and drains stay; the output lists them.
    """
    with opened_queue(url, namespace) as core:
        before = core.admin.resume(**scope)
        found = core.admin.pauses()
    pauses = [
        {"scope": kind, "name": name, "state": state.value} for (kind, name), state in found.items()
    ]
    lines = [f"{describe(scope)}: {'resumed' if before else 'was not paused or draining'}"]
    lines += [f"still {p['state']}: {p['scope']} {printable(p['name'])}" for p in pauses]
    result = {**scope, "previous_state": before and before.value, "pauses": pauses}
    print_result(result, "\n".join(lines), as_json=as_json)


@click.command()
@scope_options
@click.option("--no-wait", is_flag=True, help="Return at once; do not wait for the jobs.")
@click.option("--timeout", type=click.FloatRange(min=0), help="Wait at most this many seconds.")
@json_option
@connection_options
def drain(
    *,
    url: str,
    namespace: str | None,
    scope: Scope,
    no_wait: bool,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Reject new jobs in this scope, and run the others.

    The command returns when no job remains. The scope keeps draining until it is resumed. Exit
    code 1: jobs remain after --timeout.
    """
    if scope["task"] is not None and not no_wait:
        raise click.UsageError("jobs are not counted by task: pass --no-wait with --task")
    with opened_queue(url, namespace) as core:
        core.admin.drain(**scope)
        remaining = count_remaining(core, scope) if no_wait else _wait(core, scope, timeout)
    text = f"{describe(scope)}: draining"
    text += "" if remaining is None else f", {count_jobs(remaining)} remaining"
    print_result({**scope, "state": "draining", "remaining": remaining}, text, as_json=as_json)
    if remaining and not no_wait:
        raise SystemExit(1)


def _wait(core: FairQueue, scope: Scope, timeout: float | None) -> int:
    """Wait until no job remains, or until the timeout; return how many remain."""
    until = None if timeout is None else time.monotonic() + timeout
    remaining = count_remaining(core, scope) or 0
    with progress(f"draining {describe(scope)}", remaining) as advance:
        while remaining and (until is None or time.monotonic() < until):
            time.sleep(POLL_SECONDS)
            before, remaining = remaining, count_remaining(core, scope) or 0
            advance(max(0, before - remaining))
    return remaining
