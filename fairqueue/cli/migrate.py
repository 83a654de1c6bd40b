"""``fairqueue migrate celery``: from a broker on ``redis://`` to this one, or back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import click

from fairqueue import mask_password
from fairqueue.cli._broker_url import core_url, stock_url
from fairqueue.cli._connect import (
    BadUsage,
    NoConnection,
    connection_options,
    opened_queue,
)
from fairqueue.cli._say import jobs, json_option, progress, say
from fairqueue.cli._text import printable


@click.group()
def migrate() -> None:
    """Take over jobs from another broker, or give them back."""


@migrate.command()
@click.option("--from", "source", help="Where they are: redis://…; back: fairqueue://…")
@click.option("--to", "target", help="Where they go: fairqueue://…; back: redis://…")
@click.option("--back", is_flag=True, help="From fairqueue:// to redis://.")
@click.option("--dry-run", is_flag=True, help="Count, and move nothing.")
@click.option("--queue", "queues", multiple=True, help="This queue only; may be repeated.")
@click.option(
    "--workspace-from", multiple=True, help="Where a job's workspace is, if the URL does not say."
)
@click.option("--global-keyprefix", default="", help="The app's option of that name.")
@click.option(
    "--take-held",
    is_flag=True,
    help="Take what old workers hold though some answer: they would run it, too.",
)
@json_option
@connection_options
def celery(
    *,
    url: str,
    namespace: str | None,
    source: str | None,
    target: str | None,
    back: bool,
    dry_run: bool,
    queues: tuple[str, ...],
    workspace_from: tuple[str, ...],
    global_keyprefix: str,
    take_held: bool,
    as_json: bool,
) -> None:
    """Move what waits on a Celery broker at redis:// to fairqueue://, or back with --back.

    It may be interrupted and repeated. Exit code 1: something is left, and the output says what.
    """
    ours, theirs = (source or url, target) if back else (target or url, source)
    if not theirs or theirs.startswith("fairqueue"):
        wanted = "--to redis://…" if back else "--from redis://… (or --back, to go back)"
        raise click.UsageError(f"name the stock broker: {wanted}")
    move = _needs_celery()
    if global_keyprefix and not namespace:
        namespace = f"{global_keyprefix}fairqueue"
    settings = {"workspace_from": list(workspace_from)} if workspace_from else {}
    with opened_queue(ours, namespace, **settings) as core, _their_errors(move, theirs):
        layout = move.Layout(prefix=global_keyprefix)
        near = move.open_lists(core_url(ours), layout)
        far = move.open_lists(stock_url(theirs), layout)
        if back:
            found = _back(move.MoveBack(core, near, far), queues, dry_run=dry_run)
        else:
            holders = [] if take_held else _holders(move, theirs, layout, far)
            found = _in(move.MoveIn(far, near, core), holders, queues, dry_run=dry_run)
    say(
        {**found.as_dict(), "back": back, "dry_run": dry_run},
        _told(found, dry_run=dry_run),
        as_json=as_json,
    )
    if not found.complete and not dry_run:
        raise SystemExit(1)


def _needs_celery() -> ModuleType:
    try:
        from fairqueue_celery import migration  # noqa: PLC0415 - Celery is an extra
    except ModuleNotFoundError as error:
        raise BadUsage(
            f"this needs Celery: pip install 'fairqueue[celery]' ({error.name} is missing)"
        ) from None
    return migration


@contextmanager
def _their_errors(move: ModuleType, url: str) -> Iterator[None]:
    try:
        yield
    except move.redis.RedisError as error:
        raise NoConnection(f"no connection to {mask_password(url)}: {error}") from None


def _holders(move: ModuleType, url: str, layout: Any, lists: Any) -> list[str]:
    """Live workers of the old broker, if anything is held there at all."""
    if not any(True for _ in lists.held()):
        return []
    found: list[str] = move.live_workers(url, layout)
    return found


def _in(move: Any, holders: list[str], queues: tuple[str, ...], *, dry_run: bool) -> Any:
    found = move.survey(holders, queues)
    if dry_run:
        return found
    with progress("moving in", sum(found.queues.values())) as done:
        return move.run(holders, queues, done)


def _back(move: Any, queues: tuple[str, ...], *, dry_run: bool) -> Any:
    found = move.survey(queues)
    if dry_run:
        return found
    with progress("moving back", sum(found.queues.values())) as done:
        return move.run(queues, done)


def _told(found: Any, *, dry_run: bool) -> str:
    verb = "would be moved" if dry_run else "moved"
    lines = [f"{printable(queue)}: {jobs(n)} {verb}" for queue, n in sorted(found.queues.items())]
    total = f"in all: {jobs(sum(found.queues.values()))} {verb}"
    lines.append(f"{total}, {found.scheduled:,} of them scheduled, {found.held:,} were held")
    lines.extend(text.format(jobs(count)) for count, text in _left(found) if count)
    return "\n".join(lines)


def _left(found: Any) -> Iterator[tuple[int, str]]:
    holders = ", ".join(map(printable, found.holders))
    yield (
        found.unread,
        "{} went to the default workspace: their workspace could not be read off them",
    )
    yield (
        found.left_held,
        f"{{}} left to the old workers that hold them ({holders}): stop those, and repeat this",
    )
    yield (
        found.left_unknown,
        "{} left unacknowledged: no binding tells their queue",
    )
    yield (
        found.running,
        "{} still running here: repeat this when they have ended, for what they may publish",
    )
