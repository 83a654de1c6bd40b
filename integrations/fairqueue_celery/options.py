"""Parts broker_transport_options into fairqueue's settings and what belongs to kombu."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kombu.transport import redis as stock

from fairqueue import ConfigurationError, Settings

logger = logging.getLogger(__name__)

CLIENT_OPTIONS = (
    "client_name",
    "health_check_interval",
    "socket_connect_timeout",
    "socket_keepalive",
    "socket_timeout",
)
"""Options of the Redis client that also hold for the core's own connections."""

TCP_OPTIONS = frozenset({"socket_connect_timeout", "socket_keepalive"})

MEANINGLESS = {
    "ack_emulation": "a job is always leased",
    "priority_steps": "every priority from 0 to 9 counts",
    "queue_order_strategy": "queues take turns by fair order",
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
"""Stock options that are accepted and without effect on task queues, each with what holds here."""

OF_KOMBU = frozenset(
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
        "min_other_sentinels",
        "password",
        "polling_interval",
        "read_timeout",
        "retry_errors",
        "retry_on_error",
        "retry_policy",
        "sentinel_fanout_compat",
        "sentinel_kwargs",
        "username",
        "virtual_host",
        "write_timeout",
    }
)

given_in_vain: dict[str, str] = {}
"""Of those, the ones that this process was given; each is logged once, and when a worker boots."""


def part(
    options: Mapping[str, Any], query: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (fairqueue's settings, kombu's options); explicit options beat the URL's query.

    Raises ConfigurationError for a name that neither knows.
    """
    given: dict[str, Any] = {**query, **options}
    of_kombu = {name: given.pop(name) for name in list(given) if _is_kombus(name)}
    _note_meaningless(of_kombu)
    for name in set(of_kombu) & set(query) & set(CLIENT_OPTIONS):
        of_kombu[name] = _number(name, of_kombu[name])
    if prefix := of_kombu.get("global_keyprefix"):
        given["namespace"] = f"{prefix}{given.get('namespace', 'fairqueue')}"
    return given, of_kombu


def _is_kombus(name: str) -> bool:
    if name in Settings.model_fields:
        return False
    return name in OF_KOMBU or name in MEANINGLESS or name in stock.Channel.from_transport_options


def client_options(of_kombu: Mapping[str, Any], *, tcp: bool) -> dict[str, Any]:
    """Those options that the core's client gets in its URL."""
    names = CLIENT_OPTIONS if tcp else set(CLIENT_OPTIONS) - TCP_OPTIONS
    return {name: of_kombu[name] for name in names if of_kombu.get(name) is not None}


def _number(name: str, value: Any) -> Any:
    if name == "client_name" or not isinstance(value, str):
        return value
    if name == "socket_keepalive":
        return value.lower() in {"1", "true", "yes"}
    try:
        return float(value) if "." in value else int(value)
    except ValueError:
        raise ConfigurationError(f"option {name!r} in the broker URL must be a number") from None


def _note_meaningless(of_kombu: Mapping[str, Any]) -> None:
    for name in sorted(set(of_kombu) & set(MEANINGLESS) - set(given_in_vain)):
        given_in_vain[name] = MEANINGLESS[name]
        logger.info("option %r has no effect on task queues: %s", name, MEANINGLESS[name])
