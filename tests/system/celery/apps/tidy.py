"""The same app, whose worker notes at its end what only the garbage collector could free."""

from __future__ import annotations

import gc

from celery import signals
from shop import app, note  # type: ignore[import-not-found]

__all__ = ["app"]


@signals.worker_ready.connect
def keep_garbage(**_: object) -> None:
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)


@signals.worker_shutdown.connect
def tell(**_: object) -> None:
    gc.collect()
    kinds = [type(each).__name__ for each in gc.garbage]
    note("garbage", requests=kinds.count("Request"), leases=kinds.count("HeldLease"))
