"""Makes ``fairqueue://`` known to kombu without an import of fairqueue_celery.

kombu has no entry-point group for transports, but it loads the group ``kombu.serializers`` before
Celery reads its broker URL. What it loads is star-unpacked into ``register()``; a tuple of Nones
registers no decoder. An exception here would break kombu for the whole environment, so this module
never raises, and it imports neither Celery nor redis nor fairqueue_celery.
"""

from __future__ import annotations

from contextlib import suppress

no_serializer = (None, None, "application/x-fairqueue")

SCHEMES = ("fairqueue", "fairqueues", "fairqueue+socket", "fairqueue+memory")
TRANSPORT = "fairqueue_celery.transport:Transport"


def add_aliases() -> None:
    """Add our schemes to kombu's table of transports."""
    from kombu.transport import TRANSPORT_ALIASES  # noqa: PLC0415 - may fail, see above

    for scheme in SCHEMES:
        TRANSPORT_ALIASES.setdefault(scheme, TRANSPORT)


with suppress(Exception):
    add_aliases()
