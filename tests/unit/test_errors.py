"""Errors carry what a caller needs, and survive a trip between processes."""

from __future__ import annotations

import pickle

import pytest

from fairqueue import CapacityExceeded, FairQueueError, LeaseLost, errors

FULL = CapacityExceeded("workspace", 50, 50, 2.5, "acme", "celery")


@pytest.mark.parametrize("error", [FULL, LeaseLost("id", "acme")])
def test_errors_can_be_pickled(error: FairQueueError) -> None:
    """A prefork pool or a result backend may carry them: attributes stay."""
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)


def test_a_refusal_says_what_is_full_and_when_to_come_back() -> None:
    """The text names scope, limit and retry time."""
    assert str(FULL) == (
        "workspace 'acme' is full: 50 of 50 jobs wait; "
        "publish again in 2.5 s, or raise its capacity"
    )


def test_every_error_has_one_base() -> None:
    """`except FairQueueError` catches all that is raised on purpose."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert all(issubclass(kind, FairQueueError) for kind in kinds)
