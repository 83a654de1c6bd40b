"""URLs give up their settings and hide their passwords."""

from __future__ import annotations

import pytest

from fairqueue import ConfigurationError
from fairqueue._urls import mask_password, split_settings


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h:1/0", "redis://h:1/0"),
        ("redis://:secret@h/0", "redis://:**@h/0"),
        ("rediss://me:se/c@r:et@h/0", "rediss://me:**@h/0"),
        ("fairqueue://u:secret@a;redis://:secret@b", "fairqueue://u:**@a;redis://:**@b"),
        ("redis://h/0?password=secret&db=1", "redis://h/0?password=**&db=1"),
        ("unix://:secret@/run/redis.sock", "unix://:**@/run/redis.sock"),
        ("not a url", "not a url"),
    ],
)
def test_no_password_is_shown(url: str, shown: str) -> None:
    """Wherever a password may stand in a URL, it is masked, and the rest is kept."""
    assert mask_password(url) == shown


def test_settings_leave_the_query_and_the_rest_stays() -> None:
    """Settings are taken out; the client's own options stay with the URL."""
    url = "redis://h/0?workspace_from=kwarg%3Atenant_id&socket_timeout=5&workspace_concurrency=2"
    assert split_settings(url) == (
        "redis://h/0?socket_timeout=5",
        {"workspace_from": "kwarg:tenant_id", "workspace_concurrency": "2"},
    )


def test_a_name_given_twice_is_a_list() -> None:
    """A repeated setting keeps its values in order."""
    assert split_settings("redis://h?workspace_from=kwarg:a&workspace_from=arg:0") == (
        "redis://h",
        {"workspace_from": ["kwarg:a", "arg:0"]},
    )


def test_a_misspelt_setting_in_a_url_is_refused() -> None:
    """It would else be handed to the Redis client, or be ignored."""
    with pytest.raises(ConfigurationError, match="did you mean 'workspace_concurrency'"):
        split_settings("redis://h/0?workspace_concurency=2")
