"""Raises the core's errors as an adapter's own subclasses, which its framework lets through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from fairqueue.errors import FairQueueError


@contextmanager
def translate_errors(
    classes: Mapping[type[FairQueueError], type[FairQueueError]],
) -> Iterator[None]:
    """Inside the block, raise an error of exactly one of these classes as its counterpart."""
    try:
        yield
    except FairQueueError as error:
        translated = classes.get(type(error))
        if translated is None:
            raise
        raised = translated(*error.args)
        vars(raised).update(vars(error))
        raise raised from error.__cause__
