"""Splits broker_transport_options into fairqueue's settings and kombu's own options."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from kombu.transport import redis as stock

from fairqueue import ConfigurationError, Settings
from fairqueue.adapters import CREDENTIALS

CLIENT_OPTIONS = (
    "client_name",
    CREDENTIALS,
    "health_check_interval",
    "socket_connect_timeout",
    "socket_keepalive",
    "socket_timeout",
)
"""Options of the Redis client that the core's connections get, too."""

TCP_OPTIONS = frozenset({"socket_connect_timeout", "socket_keepalive"})

MEANINGLESS = {
    "ack_emulation": "a job is always leased",
    "min_other_sentinels": "the URL names one Redis, and no Sentinels",
    "priority_steps": "every priority from 0 to 9 counts",
    "queue_order_strategy": "queues take turns by fair order",
    "sentinel_kwargs": "the URL names one Redis, and no Sentinels",
    "sep": "job keys are not made by joining names",
    "unacked_index_key": "leases replace the unacked set",
    "unacked_key": "leases replace the unacked set",
    "unacked_mutex_expire": "leases replace the unacked set",
    "unacked_mutex_key": "leases replace the unacked set",
    "unacked_restore_interval": "an expired lease is reaped by any worker",
    "unacked_restore_limit": "an expired lease is reaped by any worker",
    "unacked_restore_throttle": "an expired lease is reaped by any worker",
    "visibility_timeout": "a lease is renewed while its worker lives; see lease_seconds",
}
"""Stock options that are accepted but have no effect on task queues, each with the reason."""

SENTINEL_OPTIONS = frozenset({"min_other_sentinels", "sentinel_kwargs"})
OF_SENTINELS = "sentinel_"
"""How an option of the connections to Sentinels begins in a URL, as in the core's."""

KOMBU_OPTIONS = frozenset(
    {
        "callback",
        "confirm_publish",
        "connect_retries_timeout",
        "connect_timeout",
        CREDENTIALS,
        "errback",
        "heartbeat",
        "interval_max",
        "interval_start",
        "interval_step",
        "login_method",
        "master_name",
        "max_retries",
        "password",
        "polling_interval",
        "read_timeout",
        "retry_errors",
        "retry_on_error",
        "retry_policy",
        "sentinel_fanout_compat",
        "username",
        "virtual_host",
        "write_timeout",
    }
)

ignored: dict[str, str] = {}
"""Those of them that this process was given; logged when a worker is ready."""


def split_options(
    options: Mapping[str, Any], query: Mapping[str, str], *, of_sentinels: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (fairqueue's settings, kombu's options); ``options`` override the URL's query.

    A name that is not kombu's counts as a setting. ``of_sentinels``: the URL names Sentinels.
    """
    given: dict[str, Any] = {**query, **options}
    kombu_options = {name: given.pop(name) for name in list(given) if _is_kombu_option(name)}
    if of_sentinels:
        names = [name for name in given if name.startswith(OF_SENTINELS)]
        kombu_options.update({name: given.pop(name) for name in names})
    elif kombu_options.get("master_name"):
        raise ConfigurationError(
            "option 'master_name' is for Redis Sentinel, and this is the URL of one Redis primary: "
            "leave it out, or use fairqueue+sentinel://host:26379,…/0"
        )
    used = SENTINEL_OPTIONS if of_sentinels else frozenset()
    ignored.update({n: why for n, why in MEANINGLESS.items() if n in kombu_options.keys() - used})
    for name in set(kombu_options) & set(query) & set(CLIENT_OPTIONS):
        kombu_options[name] = _number(name, kombu_options[name])
    if prefix := kombu_options.get("global_keyprefix"):
        given["namespace"] = f"{prefix}{given.get('namespace', 'fairqueue')}"
    return given, kombu_options


def _is_kombu_option(name: str) -> bool:
    if name in Settings.model_fields:
        return False
    return (
        name in KOMBU_OPTIONS or name in MEANINGLESS or name in stock.Channel.from_transport_options
    )


def client_options(kombu_options: Mapping[str, Any], *, tcp: bool) -> dict[str, Any]:
    """The options that the core's client gets in its URL."""
    names = CLIENT_OPTIONS if tcp else set(CLIENT_OPTIONS) - TCP_OPTIONS
    return {name: kombu_options[name] for name in names if kombu_options.get(name) is not None}


def sentinel_options(kombu_options: Mapping[str, Any]) -> dict[str, str]:
    """The options of Sentinels, as the core's URL has them."""
    kwargs: dict[str, Any] = dict(kombu_options.get("sentinel_kwargs") or {})
    found = {f"{OF_SENTINELS}{name}": value for name, value in kwargs.items()}
    found.update({n: v for n, v in kombu_options.items() if _is_of_one_sentinel(n)})
    found.update({n: kombu_options.get(n) for n in ("master_name", "min_other_sentinels")})
    return {name: _text(value) for name, value in found.items() if value is not None}


def _is_of_one_sentinel(name: str) -> bool:
    return name.startswith(OF_SENTINELS) and name not in KOMBU_OPTIONS | SENTINEL_OPTIONS


def _text(value: Any) -> str:
    if isinstance(value, ssl.VerifyMode):
        return value.name  # CERT_NONE, as Celery has it in URLs
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(name: str, value: Any) -> Any:
    if name in {"client_name", CREDENTIALS} or not isinstance(value, str):
        return value
    if name == "socket_keepalive":
        return value.lower() in {"1", "true", "yes"}
    try:
        return float(value) if "." in value else int(value)
    except ValueError:
        raise ConfigurationError(f"option {name!r} in the broker URL must be a number") from None
