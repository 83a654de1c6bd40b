"""Raises the core's errors as an adapter's own subclasses, which its framework lets through."""

from __future__ import annotations

from collections.abc import Mapping

from fairqueue.errors import FairQueueError


class translate_errors:  # noqa: N801 - used as a function
    """Inside the block, raise an error of exactly one of these classes as its counterpart.

    It keeps nothing between blocks, so one of it may be used by all.
    """

    def __init__(self, classes: Mapping[type[FairQueueError], type[FairQueueError]]) -> None:
        self._classes = classes

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not isinstance(error, FairQueueError):
            return
        translated = self._classes.get(type(error))
        if translated is None:
            return
        raised = translated(*error.args)
        vars(raised).update(vars(error))
        raise raised from error.__cause__
