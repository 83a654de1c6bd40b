"""Errors carry what a caller needs, and survive a trip between processes."""

from __future__ import annotations

import pickle

import pytest
import redis

from fairqueue import (
    CapacityExceeded,
    ConfigurationError,
    FairQueueError,
    LeaseLost,
    StoreUnavailable,
    errors,
)
from fairqueue._stores.redis.errors import translated_redis_errors
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


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (redis.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "raise"),
        (redis.ResponseError("OOM command not allowed, script: 1, on @user_script:1."), "raise"),
        (redis.ReadOnlyError("You can't write against a read only replica."), "at the primary"),
        (redis.ResponseError("READONLY You can't write against a read only"), "at the primary"),
        (redis.ResponseError("MISCONF Redis is configured to save RDB snapshots"), "free the disk"),
        (redis.ResponseError("NOREPLICAS Not enough good replicas to write."), "fewer replicas"),
        (redis.BusyLoadingError("Redis is loading the dataset in memory"), "when it is done"),
        (redis.ResponseError("BUSY Redis is busy running a script."), "SLOWLOG"),
        (redis.ConnectionError("Error 111 connecting to x:1."), "is it running"),
        (redis.TimeoutError("Timeout reading from socket"), "is it running"),
    ],
)
def test_an_unavailable_store_is_reported_with_a_remedy(error: Exception, said: str) -> None:
    """Each way in which Redis rejects writes raises StoreUnavailable with its cause."""
    with pytest.raises(StoreUnavailable, match=said) as caught, translated_redis_errors():
        raise error
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        redis.AuthenticationError("WRONGPASS invalid username-password pair"),
        redis.ResponseError("The user executing the script can't run this command or subcommand"),
        redis.ResponseError("The user executing the script can't access at least one of the keys"),
    ],
)
def test_a_rejected_user_is_a_configuration_error(error: Exception) -> None:
    """A rejected login or missing permission is not worth a retry."""
    with (
        pytest.raises(ConfigurationError, match="check the URL's user and password"),
        translated_redis_errors(),
    ):
        raise error


def test_an_error_in_a_script_is_not_translated() -> None:
    """A bug in a script is raised as Redis reports it."""
    with pytest.raises(redis.ResponseError, match="attempt to index"), translated_redis_errors():
        raise redis.ResponseError("user_script:3: attempt to index a nil value")
