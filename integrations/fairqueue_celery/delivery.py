"""Turns a lease into the message that kombu and Celery expect."""

from __future__ import annotations

from typing import Any

from kombu.utils.json import loads

from fairqueue import Lease

METADATA = "fairqueue"
"""The message property that tells a running task about its lease."""


def raw_message(lease: Lease) -> dict[str, Any]:
    """The message as its producer stored it, with this delivery's tag; ValueError if unreadable.

    The tag is the fence of this very claim: what a producer stamps survives redelivery, so that a
    stale worker could ack the run of another.
    """
    raw = loads(lease.job.payload)
    try:
        properties, headers = raw["properties"], raw["headers"]
        info = properties.setdefault("delivery_info", {})
        properties["delivery_tag"] = lease.fence
        properties[METADATA] = [
            lease.job.id,
            lease.job.workspace,
            lease.fence,
            lease.deliveries,
        ]
        if lease.redelivered:
            info["redelivered"] = headers["redelivered"] = True
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"this is no kombu message: {error!r} is missing or wrong") from error
    return raw  # type: ignore[no-any-return]
