"""``fairqueue pause``, ``resume``, ``drain`` and ``purge``: a workspace, queue, task, or all."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from fairqueue import FairQueue
from fairqueue.cli._connect import connection_options, opened_queue
from fairqueue.cli._say import confirm, jobs, json_option, progress, say
from fairqueue.cli._text import printable

Command = TypeVar("Command", bound=Callable[..., Any])

LOOK_EVERY_SECONDS = 0.5


def place_options(command: Command) -> Command:
    """Add ``--workspace``, ``--queue``, ``--task`` and ``--all`` to a command."""
    workspace = click.option("--workspace", help="This workspace.")
    queue = click.option("--queue", help="This queue, of all workspaces.")
    task = click.option("--task", help="This task or actor, of all workspaces and queues.")
    everything = click.option("--all", "everything", is_flag=True, help="Everything.")
    return workspace(queue(task(everything(command))))


def _place(
    workspace: str | None, queue: str | None, task: str | None, *, everything: bool
) -> dict[str, str | None]:
    place = {"workspace": workspace, "queue": queue, "task": task}
    if sum(name is not None for name in place.values()) + everything != 1:
        raise click.UsageError("name one of --workspace, --queue, --task and --all")
    return place


def _named(place: dict[str, str | None]) -> str:
    named = [f"{kind} {printable(name)}" for kind, name in place.items() if name is not None]
    return ", ".join(named) if named else "everything"


@click.command()
@place_options
@json_option
@connection_options
def pause(
    *,
    url: str,
    namespace: str | None,
    workspace: str | None,
    queue: str | None,
    task: str | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Start nothing there until it is resumed; running jobs finish, publishes are let in."""
    place = _place(workspace, queue, task, everything=everything)
    with opened_queue(url, namespace) as core:
        before = core.pause(**place)
    found = {**place, "now": "paused", "before": before and before.value}
    say(found, f"{_named(place)}: paused", as_json=as_json)


@click.command()
@place_options
@json_option
@connection_options
def resume(
    *,
    url: str,
    namespace: str | None,
    workspace: str | None,
    queue: str | None,
    task: str | None,
    everything: bool,
    as_json: bool,
) -> None:
    """End a pause or a drain of exactly this; what else is held stays so, and is named."""
    place = _place(workspace, queue, task, everything=everything)
    with opened_queue(url, namespace) as core:
        before = core.resume(**place)
        held = core.pauses()
    still = [
        {"scope": scope, "name": name, "how": how.value} for (scope, name), how in held.items()
    ]
    lines = [f"{_named(place)}: {'resumed' if before else 'was not held'}"]
    lines += [f"still {each['how']}: {each['scope']} {printable(each['name'])}" for each in still]
    found = {**place, "before": before and before.value, "still": still}
    say(found, "\n".join(lines), as_json=as_json)


@click.command()
@place_options
@click.option("--no-wait", is_flag=True, help="Do not wait until nothing is left.")
@click.option("--timeout", type=click.FloatRange(min=0), help="Seconds to wait at most.")
@json_option
@connection_options
def drain(
    *,
    url: str,
    namespace: str | None,
    workspace: str | None,
    queue: str | None,
    task: str | None,
    everything: bool,
    no_wait: bool,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Let in nothing new, run what waits, and tell when nothing is left.

    It stays so until it is resumed. Exit code 1: time was up and jobs are left.
    """
    place = _place(workspace, queue, task, everything=everything)
    if task is not None and not no_wait:
        raise click.UsageError("--task needs --no-wait: jobs are not counted by task")
    with opened_queue(url, namespace) as core:
        core.drain(**place)
        left = _left(core, place) if no_wait else _await(core, place, timeout)
    told = f"{_named(place)}: draining" + ("" if left is None else f", {jobs(left)} left")
    say({**place, "now": "draining", "left": left}, told, as_json=as_json)
    if left and not no_wait:
        raise SystemExit(1)


def _left(core: FairQueue, place: dict[str, str | None]) -> int | None:
    """None: jobs are not counted by task."""
    if place["task"] is not None:
        return None
    if place["queue"] is not None:
        return core.depth(place["queue"], running=True)
    rows = core.stats().workspaces
    return sum(
        row.waiting + row.scheduled + row.running
        for row in rows
        if place["workspace"] in {None, row.workspace}
    )


def _await(core: FairQueue, place: dict[str, str | None], timeout: float | None) -> int:
    until = None if timeout is None else time.monotonic() + timeout
    left = _left(core, place) or 0
    with progress(f"draining {_named(place)}", left) as done:
        while left and (until is None or time.monotonic() < until):
            time.sleep(LOOK_EVERY_SECONDS)
            before, left = left, _left(core, place) or 0
            done(max(0, before - left))
    return left


@click.command()
@click.option("--workspace", help="Of this workspace.")
@click.option("--queue", help="On this queue.")
@click.option("--task", help="Of this task or actor.")
@click.option("--all", "everything", is_flag=True, help="Everything.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@connection_options
def purge(
    *,
    url: str,
    namespace: str | None,
    workspace: str | None,
    queue: str | None,
    task: str | None,
    everything: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Drop what waits or is scheduled; running jobs go on."""
    place = {"workspace": workspace, "queue": queue, "task": task}
    if everything == any(name is not None for name in place.values()):
        raise click.UsageError("name --workspace, --queue, --task or several of them, or --all")
    confirm(f"Drop what waits of {_named(place)} for good?", yes=yes)
    with opened_queue(url, namespace) as core:
        total = _left(core, place)
        with progress(f"dropping {_named(place)}", total) as done:
            dropped = core.purge(queue, workspace=workspace, task=task, progress=done)
    say(
        {**place, "dropped": dropped},
        f"{_named(place)}: {jobs(dropped)} dropped",
        as_json=as_json,
    )
