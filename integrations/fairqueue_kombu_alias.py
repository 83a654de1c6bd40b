"""Makes kombu know ``fairqueue://`` without anybody importing fairqueue_celery.

kombu has no entry-point group for transports, but it loads the group ``kombu.serializers`` before
Celery reads its broker URL. What is loaded from there is star-unpacked into ``register()``; a
triple of nothing registers no decoder. An exception here would break kombu for the whole
environment, so this module never raises, and it imports none of Celery, redis and
fairqueue_celery.
"""

from __future__ import annotations

from contextlib import suppress

no_serializer = (None, None, "application/x-fairqueue")

SCHEMES = ("fairqueue", "fairqueues", "fairqueue+socket", "fairqueue+memory")
TRANSPORT = "fairqueue_celery.transport:Transport"


def add_aliases() -> None:
    """Name our transport in kombu's table of schemes."""
    from kombu.transport import TRANSPORT_ALIASES  # noqa: PLC0415 - may fail, see above

    for scheme in SCHEMES:
        TRANSPORT_ALIASES.setdefault(scheme, TRANSPORT)


with suppress(Exception):
    add_aliases()
