"""What Redis refuses is said in our words, with the remedy; what is a bug of ours is not hidden."""

from __future__ import annotations

import pytest
import redis

from fairqueue import ConfigurationError, StoreUnavailable
from fairqueue._stores.redis.guard import guarded


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (redis.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "raise"),
        (redis.ResponseError("OOM command not allowed, script: 1, on @user_script:1."), "raise"),
        (redis.ReadOnlyError("You can't write against a read only replica."), "at the master"),
        (redis.ResponseError("READONLY You can't write against a read only"), "at the master"),
        (redis.ResponseError("MISCONF Redis is configured to save RDB snapshots"), "free the disk"),
        (redis.ResponseError("NOREPLICAS Not enough good replicas to write."), "fewer replicas"),
        (redis.BusyLoadingError("Redis is loading the dataset in memory"), "when it is done"),
        (redis.ResponseError("BUSY Redis is busy running a script."), "SLOWLOG"),
        (redis.ConnectionError("Error 111 connecting to x:1."), "is it running"),
        (redis.TimeoutError("Timeout reading from socket"), "is it running"),
    ],
)
def test_an_unavailable_store_is_told_with_its_remedy(error: Exception, said: str) -> None:
    """Each way in which Redis refuses to write gives StoreUnavailable, with the cause behind it."""
    with pytest.raises(StoreUnavailable, match=said) as caught, guarded():
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
def test_a_refused_user_is_a_matter_of_configuration(error: Exception) -> None:
    """A login or permission that is refused is not worth a retry."""
    with pytest.raises(ConfigurationError, match="check the URL's user and password"), guarded():
        raise error


def test_a_bug_of_ours_is_not_dressed_up() -> None:
    """A script that fails on its own account comes through as it is."""
    with pytest.raises(redis.ResponseError, match="attempt to index"), guarded():
        raise redis.ResponseError("user_script:3: attempt to index a nil value")
