"""``fairqueue demo``: the same flood on redis:// and on fairqueue://."""

from __future__ import annotations

from pathlib import Path

import click

from fairqueue import FairQueueError
from fairqueue.adapters import needs_extra
from fairqueue.cli._connect import BadUsage, Problem


@click.command()
@click.option(
    "--jobs",
    default=2000,
    show_default=True,
    type=click.IntRange(100, 20_000),
    help="Size of the flood.",
)
@click.option(
    "--svg",
    default="fairqueue-demo.svg",
    show_default=True,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the picture to this file.",
)
def demo(*, jobs: int, svg: Path) -> None:
    """Compare the same load on redis:// and on fairqueue://.

    It floods a real Celery worker, first on redis://, then on fairqueue://. It starts a private
    Redis or Valkey server and stops it afterwards. It takes less than a minute.
    """
    if not svg.absolute().parent.is_dir():  # checked before the minute, not after it
        raise BadUsage(
            f"folder {str(svg.parent)!r} does not exist: create it, or pass another --svg"
        )
    with needs_extra("demo", "demo", BadUsage):
        from fairqueue.demo import show  # noqa: PLC0415 - rich and Celery are an extra
    try:
        show(jobs=jobs, svg=svg)
    except FairQueueError as error:
        raise Problem(str(error)) from None
