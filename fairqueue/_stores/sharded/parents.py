"""Keeps the workspaces of one parent on one shard, from their first job on."""

from __future__ import annotations

from collections.abc import Mapping

from fairqueue._shards.placement import shard_of
from fairqueue._stores.engine import WorkspaceMoves
from fairqueue._stores.layout import moves_from
from fairqueue._stores.moves import UNIQUE_KEYS
from fairqueue._stores.sharded.shards import Shards
from fairqueue._stores.store import Store
from fairqueue._types import Limits
from fairqueue.errors import ConfigurationError


def parents_in(shard: Store, workspace: str) -> dict[str, str]:
    """Return the parent that each source names, in rising precedence."""
    found = shard.get_limits("workspace", workspace)
    return {row.source: str(parent) for row in found if (parent := row.limits.get("parent"))}


def in_force(parents: Mapping[str, str | None]) -> str | None:
    """Return the parent that counts."""
    named = [parents.get(source) for source in ("configured", "limit_provider", "live")]
    return next(filter(None, reversed(named)), None)


def refuse_nested(workspaces: Mapping[str, Limits]) -> None:
    """Raise ConfigurationError for a configuration in which a parent has another parent."""
    for name, limits in workspaces.items():
        parent = limits.parent or name
        above = workspaces.get(parent, limits).parent
        if above not in {None, parent}:
            raise _nested(name, parent, str(above))


class ShardedParents(Shards):
    """Decides where to store a parent: of a workspace that is not known yet, on its shard."""

    def place(self, workspace: str, source: str, parent: str | None, replaces: str = "") -> Store:
        """Return the shard on which to store a source's parent of a workspace.

        ``replaces``: a kind of limits of which the caller stores all there next. Raises
        ConfigurationError, and changes nothing, if anything else of the workspace is known on
        another shard.
        """
        at = self.home(workspace)
        if len(self.shards) == 1:
            return at
        before = parents_in(at, workspace)
        after = in_force({**before, source: parent})
        if after is None or (self.layout.mark.to is not None and after == in_force(before)):
            return at
        target = self._by_name(after)
        if target is not at or not target.is_parent(after):
            self._refuse_reshard()
            self._make_parent(workspace, after)
        if target is not at and not self._send(workspace, after, at, target, replaces):
            return self.place(workspace, source, parent, replaces)
        return target

    def place_configured(self, workspaces: Mapping[str, Limits]) -> None:
        """Let workspaces begin on the shards of their configured parents."""
        refuse_nested(workspaces)
        for name, limits in workspaces.items():
            if limits.parent is not None:
                self.place(name, "configured", limits.parent)

    def refuse_default_parent(self, default: Limits) -> None:
        """Raise ConfigurationError for limits of all workspaces that name a parent."""
        if default.parent is not None and len(self.shards) > 1:
            raise ConfigurationError(
                f"default_parent={default.parent!r}: all workspaces would live on one of the "
                f"{len(self.shards)} shards, that of this parent; name the parent of each "
                "workspace that has one, or use shards=1"
            )

    def _by_name(self, workspace: str) -> Store:
        return self.shards[shard_of(workspace, self.layout.mark.shards)]

    def _refuse_reshard(self) -> None:
        self._look(self.shards, at_all=True)
        if self.layout.mark.to is not None or moves_from(self.shards[0].engine) is not None:
            raise ConfigurationError(
                "workspaces are on their way to another number of shards (fairqueue reshard): set "
                "parents when that has ended"
            )

    def _make_parent(self, workspace: str, parent: str) -> None:
        """Keep a parent on the shard of its name; refuse one that has a parent itself."""
        if parent != workspace and self._by_name(workspace).is_parent(workspace):
            raise _is_parent(workspace, parent)
        home = self._by_name(parent)
        is_new = not home.is_parent(parent)
        home.keep_parent(parent)  # first: a call that would send it elsewhere checks this
        at, _ = self.followed(parent, home)
        above = None if parent == workspace else in_force(parents_in(at, parent))
        if at is not home or above not in {None, parent}:
            if is_new:
                home.keep_parent(parent, is_parent=False)
            raise _nested(workspace, parent, str(above))

    def _send(self, workspace: str, parent: str, at: Store, target: Store, replaces: str) -> bool:
        """Let a workspace of which nothing is known live on another shard.

        False: another process has sent it elsewhere. It comes to each shard once, so the ways from
        shard to shard lead in no circle.
        """
        number = target.engine.shard
        if target.whereabouts(workspace).to is not None:
            raise _cannot_follow(workspace, parent, at, number, CAME_BEFORE)
        has_keys = any(
            items.startswith(b"unique ") for items in at.pages(workspace, begin=UNIQUE_KEYS)
        )
        target.keep_forwarding(workspace, None)
        try:
            if has_keys or not at.leave_shard(workspace, number, replaces):
                raise _cannot_follow(workspace, parent, at, number, IS_KNOWN)
        except WorkspaceMoves:
            return False
        self.layout.is_at(workspace, number)
        return True


IS_KNOWN = (
    "the workspace has jobs, dead letters, schedules, requests, limits, a pause, or unique keys, "
    "rates or debts that still count on shard {at}, and its parent's shard is {to}: let its jobs "
    "end or purge them, purge its dead letters, remove its schedules, unset its limits and resume "
    "it, then set the parent again, with its limits"
)
CAME_BEFORE = (
    "its parent's shard is {to}, and the workspace has left that shard for shard {at}: name a "
    "parent on another shard, or set it after the next 'fairqueue reshard'"
)


def _cannot_follow(
    workspace: str, parent: str, at: Store, to: int, reason: str
) -> ConfigurationError:
    reason = reason.format(at=at.engine.shard, to=to)
    return ConfigurationError(
        f"workspaces[{workspace!r}].parent={parent!r}: {reason}; nothing has changed"
    )


def _is_parent(workspace: str, parent: str) -> ConfigurationError:
    return ConfigurationError(
        f"workspaces[{workspace!r}].parent={parent!r}: {workspace!r} is the parent of others, or "
        "was, and with several shards such a workspace has no parent but itself: name another "
        "workspace as the parent of all of them"
    )


def _nested(workspace: str, parent: str, above: str) -> ConfigurationError:
    return ConfigurationError(
        f"workspaces[{workspace!r}].parent={parent!r}: {parent!r} has the parent {above!r} itself, "
        "and with several shards a parent has none but itself"
    )
