"""``fairqueue migrate celery``: move jobs from ``redis://`` to ``fairqueue://``, or back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click
import redis

from fairqueue.adapters import mask_password, needs_extra
from fairqueue.cli._command import Answer, json_option, progress
from fairqueue.cli._connect import (
    BadUsage,
    NoConnection,
    connection_options,
    core_url,
    opened_queue,
    stock_url,
)
from fairqueue.plain import count_jobs, printable


@click.group()
def migrate() -> None:
    """Move jobs from another broker to fairqueue, or back."""


@migrate.command()
@click.option("--from", "source", help="Move from this URL: redis://…; with --back: fairqueue://…")
@click.option("--to", "target", help="Move to this URL: fairqueue://…; with --back: redis://…")
@click.option("--back", is_flag=True, help="Move from fairqueue:// to redis://.")
@click.option("--dry-run", is_flag=True, help="Count the jobs, move none.")
@click.option("--queue", "queues", multiple=True, help="Move this queue only. Repeatable.")
@click.option(
    "--workspace-from",
    multiple=True,
    help="Where to find a job's workspace, unless the URL says so. Repeatable.",
)
@click.option("--global-keyprefix", default="", help="The app's global_keyprefix.")
@click.option(
    "--take-held",
    is_flag=True,
    help="Also move jobs that live old workers hold. Those workers would run them too.",
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
    """Move the jobs of a Celery broker from redis:// to fairqueue://, or back with --back.

    It is safe to interrupt and repeat. Exit code 1: jobs remain; the output says which.
    """
    ours, theirs = (source or url, target) if back else (target or url, source)
    if not theirs or theirs.startswith("fairqueue"):
        wanted = "--to redis://…" if back else "--from redis://… (or --back)"
        raise click.UsageError(f"name the stock broker: pass {wanted}")
    with needs_extra("migrate", "celery", BadUsage):
        move = import_module("fairqueue_celery.migration")
    if global_keyprefix and not namespace:
        namespace = f"{global_keyprefix}fairqueue"
    settings: dict[str, Any] = {"workspace_from": list(workspace_from)} if workspace_from else {}
    with opened_queue(ours, namespace, **settings) as core, _redis_errors(theirs, ours):
        layout = move.Layout(prefix=global_keyprefix)
        near = move.open_lists(core_url(ours), layout)
        far = move.open_lists(stock_url(theirs), layout)
        if back:
            found = _moved(move.MoveBack(core, near, far), queues, dry_run=dry_run)
        else:
            holders = [] if take_held else _holders(move, theirs, layout, far)
            found = _moved(move.MoveIn(far, near, core), holders, queues, dry_run=dry_run)
    result = {**found.as_dict(), "back": back, "dry_run": dry_run}
    Answer(result, _summary(found, dry_run=dry_run)).print(as_json=as_json)
    if not found.complete and not dry_run:
        raise SystemExit(1)


@contextmanager
def _redis_errors(*urls: str) -> Iterator[None]:
    """Name both servers: the error does not say which one refuses or is away."""
    try:
        yield
    except redis.RedisError as error:
        raise NoConnection(f"{' or '.join(map(mask_password, urls))}: {error}") from None


def _holders(move: Any, url: str, layout: Any, lists: Any) -> list[str]:
    """Return the live workers of the old broker, if they hold any jobs."""
    if not any(True for _ in lists.held()):
        return []
    found: list[str] = move.live_workers(url, layout)
    return found


def _moved(move: Any, *what: Any, dry_run: bool) -> Any:
    """Count the jobs, or move them."""
    found = move.survey(*what)
    if dry_run:
        return found
    with progress("moving", sum(found.queues.values())) as advance:
        return move.run(*what, advance)


def _summary(found: Any, *, dry_run: bool) -> str:
    verb = "would be moved" if dry_run else "moved"
    lines = [
        f"{printable(queue)}: {count_jobs(n)} {verb}" for queue, n in sorted(found.queues.items())
    ]
    total = f"in all: {count_jobs(sum(found.queues.values()))} {verb}"
    lines.append(f"{total}, {found.scheduled:,} of them scheduled, {found.held:,} held by workers")
    verb, holders = "would move" if dry_run else "moved", ", ".join(map(printable, found.holders))
    to_default = f"{verb} to the default workspace"
    remaining = (
        (found.unread, f"{to_default}: their workspace could not be determined"),
        (found.without_workspace, f"{to_default}: they name none; check workspace_from"),
        (found.left_held, f"held by live old workers ({holders}): stop those and run this again"),
        (found.left_unknown, "left unacknowledged: no binding names their queue"),
        (
            found.running,
            "still running: run this again when they have finished, to move what they publish",
        ),
    )
    lines += [f"{count_jobs(count)} {text}" for count, text in remaining if count]
    return "\n".join(lines)
