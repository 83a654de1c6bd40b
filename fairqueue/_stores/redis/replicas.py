"""The setting ``min_replicas``: replicas confirm each write before its call returns."""

from __future__ import annotations

from typing import NamedTuple

from redis.exceptions import ResponseError


class TooFewReplicas(ResponseError):
    """Too few replicas confirmed a write, or are known to be there before it was sent."""


class Replicas(NamedTuple):
    """How many replicas confirm a write, and within which time."""

    least: int = 0
    seconds: float = 1.0
