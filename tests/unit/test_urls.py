"""Settings are taken out of URLs, and passwords in them are masked."""

from __future__ import annotations

import re
import traceback
from typing import Any

import pytest
import redis.asyncio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairqueue import ConfigurationError, FairQueue
from fairqueue._settings import mask_password, split_settings


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h:1/0", "redis://h:1/0"),
        ("redis://:secret@h/0", "redis://:**@h/0"),
        ("rediss://me:se/c@r:et@h/0", "rediss://me:**@h/0"),
        ("fairqueue://u:secret@a;redis://:secret@b", "fairqueue://u:**@b"),
        ("fairqueue://a;redis://:secret@b", "fairqueue://**@b"),
        (":secret@redis:6379/0", ":**@redis:6379/0"),
        ("--broker=redis://:secret@h", "--broker=redis://:**@h"),
        ("redis://h/0?password=sec;ret&db=1", "redis://h/0?password=**&db=1"),
        ("redis://h/0?password=sec@ret&db=1", "redis://**@**&db=1"),
        ("worker@host", "worker@host"),
        ("redis://h/0?pasword=secret&db=1", "redis://h/0?pasword=**&db=1"),
        ("redis://h/0?password=secret&db=1", "redis://h/0?password=**&db=1"),
        ("redis://h/0?db=1&pass_wd=secret", "redis://h/0?db=1&pass_wd=**"),
        ("unix://:secret@/run/redis.sock", "unix://:**@/run/redis.sock"),
        ("not a url", "not a url"),
    ],
)
def test_no_password_is_shown(url: str, shown: str) -> None:
    """A password is masked wherever it stands in a URL; the rest is kept."""
    assert mask_password(url) == shown


SECRET = "S3cret"
PASSWORDS = st.lists(
    st.sampled_from([*";:/?#@&=,[] ", ";word:", ";redis://", "12", SECRET, "?namespace="]),
    max_size=6,
).map(lambda parts: "".join([*parts, SECRET]))
URLS = st.sampled_from(
    [
        "redis://:{}@h/0",
        "unix://u:{}@/run/redis.sock",
        ":{}@redis:6379/0",
        "u:{}@redis:6379/0?db=1",
        "fairqueue://h1;fairqueue://:{}@h2",
        "fairqueue://:{}@h1;fairqueue://:{}@h2",
        "redis://h1;:{}@h2",
        "redis+sentinel://u:{}@h:1,i:2/service",
        "redis+cluster://:{}@h/0",
    ]
)


@settings(deadline=None)  # a busy machine takes any time
@given(url=URLS, password=PASSWORDS)
@example(url=":{}@redis:6379/0", password=f"{SECRET}?namespace={SECRET}")
def test_no_raw_password_is_shown(url: str, password: str) -> None:
    """In any form of a URL, whatever the password has in it; and no error shows a part of it."""
    full = url.replace("{}", password)
    assert SECRET not in mask_password(full)
    try:
        FairQueue(full).close()
    except ConfigurationError as error:
        assert SECRET not in str(error)  # noqa: PT017 - most of them raise none


@given(password=PASSWORDS.filter(lambda text: "&" not in text))
def test_no_password_of_an_option_is_shown(password: str) -> None:
    """Only an ``&`` ends it."""
    shown = mask_password(f"redis://h:1/0?db=1&sentinel_password={password}&namespace=n")
    assert SECRET not in shown
    assert shown.endswith("**&namespace=n")


@pytest.mark.parametrize(
    ("query", "left", "settings"),
    [
        (
            "workspace_from=kwarg%3Atenant_id&socket_timeout=5&workspace_concurrency=2",
            "?socket_timeout=5",
            {"workspace_from": "kwarg:tenant_id", "workspace_concurrency": "2"},
        ),
        (
            "workspace_from=kwarg:a&workspace_from=arg:0",
            "",
            {"workspace_from": ["kwarg:a", "arg:0"]},
        ),
        (
            "client_name=a%20b&workspace_concurrency=2&db=1",
            "?client_name=a%20b&db=1",
            {"workspace_concurrency": "2"},
        ),
    ],
)
def test_settings_are_taken_out_of_the_query(
    query: str, left: str, settings: dict[str, object]
) -> None:
    """One that is repeated is a list, in order; the client's own options stay as written."""
    assert split_settings(f"redis://h/0?{query}") == (f"redis://h/0{left}", settings)


def test_a_misspelt_setting_in_a_url_is_rejected() -> None:
    """Otherwise it would be passed to the Redis client, or be ignored."""
    with pytest.raises(ConfigurationError, match="did you mean 'workspace_concurrency'"):
        split_settings("redis://h/0?workspace_concurency=2")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://u:S3cret@h/0?foo=bar", "has an option 'foo': leave it out"),
        ("redis://u:S3cret@h/0?socket_timeout=x", "Invalid value for 'socket_timeout'"),
        ("rediss://u:S3cret@h/0?ssl_cert_reqs=foo", "Invalid SSL Certificate"),
        ("redis://u:S3cret@h/0?ssl_ca_certs=ca.pem", "is for TLS: rediss://"),
        (
            "rediss://u:S3cret@h/0?ssl_ca_certs=/no/ca.pem",
            "ssl_ca_certs=/no/ca.pem cannot be loaded: [Errno 2] No such file",
        ),
        (
            f"rediss://u:S3cret@h/0?ssl_certfile={__file__}&ssl_keyfile=/no/a.key&ssl_password=S3c",
            "ssl_keyfile=/no/a.key cannot be loaded",
        ),
        ("redis://u:S3cret@h:99999/0", "Port out of range"),
        ("redis://u:S3cret@[::1/0", "Invalid IPv6 URL"),
        ("redis://u:S3c/ret@h/0", "percent-encoded"),
        ("redis://u:S3c/r?et#S3c@h:1/0", "percent-encoded"),
        ("redis://u:S3c\u2100ret@h/0", "percent-encoded"),
        ("redis://u:S3cret@h/queue", "ends in 'queue', but a Redis database is a number"),
        ("redis://u:S3cret@h/0?socket_timeout=-1", "'socket_timeout' of the URL must be a number"),
        ("unix:///h.sock?socket_timeout=0", "'socket_timeout' of the URL must be a number"),
        ("redis://u:S3cret@h?socket_connect_timeout=nan", "of seconds above 0, not nan"),
        ("http://u:S3cret@h/", "unknown scheme"),
        ("redis://u:S3cret@h1,h2,/0", "a server between commas is empty"),
        ("redis://u:S3cret@redis..svc:6379/0", "its host or port cannot be read"),
        (
            "redis+sentinel://u:S3cret@h1,redis..svc:6379/master/0",
            "its host or port cannot be read",
        ),
        ("redis+cluster://u:S3cret@h1,redis..svc/0?shards=2", "its host or port cannot be read"),
    ],
)
def test_an_invalid_url_is_rejected_without_its_password(url: str, said: str) -> None:
    """Neither the message nor the traceback of the error contains a secret."""
    with pytest.raises(ConfigurationError, match=re.escape(said)) as caught:
        FairQueue(url)
    text = "".join(traceback.format_exception(caught.value))
    message = text.rsplit("ConfigurationError", 1)[1]
    assert "S3c" not in message
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_client_of_another_kind_is_rejected() -> None:
    """It would fail at the first call, with an error about coroutines."""
    with pytest.raises(ConfigurationError, match=r"not a redis\.asyncio\.client\.Redis"):
        FairQueue(client=redis.asyncio.Redis())


@pytest.mark.parametrize("name", ["NONE", "OPTIONAL", "REQUIRED"])
@pytest.mark.parametrize("url", ["fairqueues://h/0?", "fairqueues+sentinel://h/s/0?db=0&"])
def test_celerys_names_of_ssl_cert_reqs_are_known(url: str, name: str) -> None:
    """A Celery app's broker URL may have them, and works elsewhere as it is."""
    with FairQueue(f"{url}ssl_cert_reqs=CERT_{name}") as queue:
        client: Any = queue.store.shards[0].engine.connections
        assert client.connection_pool.connection_kwargs["ssl_cert_reqs"] == name.lower()
