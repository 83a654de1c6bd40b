"""Errors of Redis become fairqueue's errors with a remedy; bugs in scripts are not hidden."""

from __future__ import annotations

import pytest
import redis

from fairqueue import ConfigurationError, StoreUnavailable
from fairqueue._stores.redis.errors import translated_redis_errors


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
