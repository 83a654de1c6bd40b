"""Errors carry what a caller needs, and survive a trip between processes."""

from __future__ import annotations

import pickle

import pytest

from fairqueue import CapacityExceeded, FairQueueError, LeaseLost, errors
from fairqueue.errors import RequestRejected

FULL = CapacityExceeded("workspace", 50, 50, 2.5, "acme", "celery")
BUSY = RequestRejected("workspace", 3, 3, 1.5, "acme")


@pytest.mark.parametrize("error", [FULL, LeaseLost("id", "acme"), BUSY])
def test_errors_can_be_pickled(error: FairQueueError) -> None:
    """Pickled by a prefork pool or a result backend, they keep their attributes."""
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)


def test_a_rejection_says_what_is_full_and_when_to_retry() -> None:
    """The text names scope, limit and retry time."""
    assert str(FULL) == (
        "workspace 'acme' is full: 50 jobs waiting, capacity 50; "
        "retry in 2.5 s or raise the capacity"
    )


@pytest.mark.parametrize(
    ("scope", "what"),
    [
        ("workspace", "workspace 'acme'"),
        ("queue", "queue 'celery'"),
        ("task", "task 'mail'"),
        ("total", "the whole store"),
    ],
)
def test_a_drain_is_not_called_full(scope: str, what: str) -> None:
    """The text says what drains, and until when."""
    error = CapacityExceeded(scope, 0, 2, 2.5, "acme", "celery", "mail", draining=True)
    assert str(error) == f"{what} is draining: it accepts no new jobs until it is resumed"
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


def test_every_error_has_one_base() -> None:
    """`except FairQueueError` catches all of them; a suspension is no error."""
    found = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    own = [kind for kind in found if kind.__module__ == errors.__name__]
    own.remove(errors.Suspended)
    assert own
    assert all(issubclass(kind, FairQueueError) for kind in own)
