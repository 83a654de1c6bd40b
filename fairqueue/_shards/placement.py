"""On which shard a workspace lives, and which shard has issued a fence."""

from __future__ import annotations

from hashlib import blake2b

SHARDS_MOST = 64
"""``lua/state/shard.lua`` has the same number."""

Time = tuple[float, "float | None"]
"""Of a queue: the virtual time that a claimer has seen on any shard, and how far a head may be for
it to be served; None: however far."""

_MULTIPLIER, _WORD, _TOP = 2862933555777941757, 2**64, 2**31


def shard_of(workspace: str, shards: int) -> int:
    """Return the shard of a workspace, from 0; with one more shard, only those that go there move.

    This is the jump consistent hash of Lamping and Veach (2014) over a digest of the name.
    """
    key = int.from_bytes(blake2b(workspace.encode(), digest_size=8).digest(), "big")
    shard, following = 0, 0
    while following < shards:
        shard = following
        key = (key * _MULTIPLIER + 1) % _WORD
        following = int((shard + 1) * _TOP / ((key >> 33) + 1))
    return shard


def shard_of_fence(fence: int) -> int:
    """Return which shard has issued a fence."""
    return fence % SHARDS_MOST
