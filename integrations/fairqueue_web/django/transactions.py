"""Publish after a transaction has committed, to the workspace in which it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from django.db import transaction

import fairqueue
from fairqueue.adapters import current_workspace


def on_commit(
    call: Callable[[], object], *, using: str | None = None, robust: bool = False
) -> None:
    """Call this once the transaction commits, or at once without one; never if it is rolled back.

    As ``django.db.transaction.on_commit``, but the call runs in the workspace of this moment, also
    where the transaction ends outside of the block that set it. A publish that is rejected raises
    CapacityExceeded after the commit: what was written stays.
    """
    workspace = current_workspace()

    def run() -> Any:
        with nullcontext() if workspace is None else fairqueue.workspace(workspace):
            return call()

    transaction.on_commit(run, using=using, robust=robust)
