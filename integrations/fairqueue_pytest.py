"""The fixtures that fairqueue gives to pytest.

pytest loads this module in every project that has fairqueue installed. So it stands outside all
packages and imports nothing but pytest until a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fairqueue import FairQueue
    from fairqueue.testing import Jobs, ManualClock

KITS = {"celery": "fairqueue_celery.testing", "dramatiq": "fairqueue_dramatiq.testing"}
"""Which module puts the apps of a framework in memory."""


@pytest.fixture
def fairqueue_clock() -> ManualClock:
    """The time of this test's queues, which stands still until the test moves it."""
    from fairqueue.testing import ManualClock  # noqa: PLC0415 - only if it is used

    return ManualClock()


@pytest.fixture
def fairqueue_queue(fairqueue_clock: ManualClock) -> Iterator[FairQueue]:
    """A new FairQueue in memory, on the test's clock."""
    from fairqueue import FairQueue  # noqa: PLC0415 - only if it is used
    from fairqueue.testing import memory_url  # noqa: PLC0415

    with memory_url(fairqueue_clock) as url, FairQueue(url) as queue:
        yield queue


@pytest.fixture
def fairqueue_jobs(fairqueue_clock: ManualClock) -> Iterator[Callable[..., Jobs]]:
    """A function that keeps the jobs of an app in memory until the test ends.

    ``fairqueue_jobs(app, **settings)`` takes a Celery app, or a Dramatiq broker with the
    middleware. The app keeps its own settings; those that are given replace them.
    """
    with ExitStack() as until_the_end:

        def keep_in_memory(app: Any, **settings: Any) -> Jobs:
            kit = import_module(_kit_of(app))
            entered = until_the_end.enter_context(kit.in_memory(app, fairqueue_clock, **settings))
            jobs: Jobs = entered
            return jobs

        yield keep_in_memory


def _kit_of(app: Any) -> str:
    for base in type(app).__mro__:
        kit = KITS.get(base.__module__.partition(".")[0])
        if kit is not None:
            return kit
    raise TypeError(
        f"fairqueue_jobs() takes a Celery app or a Dramatiq broker, not {type(app).__name__}: "
        "pass the app or broker itself"
    )
