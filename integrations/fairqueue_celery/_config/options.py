"""Splits broker_transport_options into fairqueue's settings and kombu's own options."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kombu.transport import redis as stock

from fairqueue import ConfigurationError, Settings

logger = logging.getLogger("fairqueue_celery.options")

CLIENT_OPTIONS = (
    "client_name",
    "health_check_interval",
    "socket_connect_timeout",
    "socket_keepalive",
    "socket_timeout",
)
"""Options of the Redis client that the core's connections get, too."""

TCP_OPTIONS = frozenset({"socket_connect_timeout", "socket_keepalive"})

MEANINGLESS = {
    "ack_emulation": "a job is always leased",
    "min_other_sentinels": "Redis Sentinel is not supported yet",
    "priority_steps": "every priority from 0 to 9 counts",
    "queue_order_strategy": "queues take turns by fair order",
    "sentinel_kwargs": "Redis Sentinel is not supported yet",
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

KOMBU_OPTIONS = frozenset(
    {
        "callback",
        "confirm_publish",
        "connect_retries_timeout",
        "connect_timeout",
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
"""Those of them that this process was given; logged once, and when a worker is ready."""


def split_options(
    options: Mapping[str, Any], query: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (fairqueue's settings, kombu's options); ``options`` override the URL's query.

    A name that is not kombu's counts as a setting.
    """
    given: dict[str, Any] = {**query, **options}
    kombu_options = {name: given.pop(name) for name in list(given) if _is_kombu_option(name)}
    if kombu_options.get("master_name"):
        raise ConfigurationError(
            "option 'master_name' is for Redis Sentinel, which fairqueue:// does not support yet: "
            "leave it out, and use the URL of one Redis primary"
        )
    _log_meaningless(kombu_options)
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


def _number(name: str, value: Any) -> Any:
    if name == "client_name" or not isinstance(value, str):
        return value
    if name == "socket_keepalive":
        return value.lower() in {"1", "true", "yes"}
    try:
        return float(value) if "." in value else int(value)
    except ValueError:
        raise ConfigurationError(f"option {name!r} in the broker URL must be a number") from None


def _log_meaningless(kombu_options: Mapping[str, Any]) -> None:
    for name in sorted(set(kombu_options) & set(MEANINGLESS) - set(ignored)):
        ignored[name] = MEANINGLESS[name]
        logger.info("option %r has no effect on task queues: %s", name, MEANINGLESS[name])
