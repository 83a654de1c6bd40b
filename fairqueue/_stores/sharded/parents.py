"""Keeps the workspaces of one parent on one shard: they move there before it is stored."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress

from fairqueue._shards import shard_of
from fairqueue._stores.layout import moves_from
from fairqueue._stores.sharded.carrier import Carrier, Hold, Move, Stuck
from fairqueue._stores.sharded.shards import Shards
from fairqueue._stores.store import Store
from fairqueue._types import Limits
from fairqueue.errors import AlreadyRunning, ConfigurationError

WAIT_SECONDS = 10.0
"""For the running jobs of a workspace that gets a parent on another shard."""
PROVIDER_WAIT_SECONDS = 0.5
"""The same where a limit provider names the parent: a publish may wait for its answer."""
HOLD_WAIT_SECONDS = 5.0
"""For another process that sets a parent, at most."""
POLL_SECONDS = 0.05


def parents_in(shard: Store, workspace: str) -> dict[str, str]:
    """Return the parent that each source names, in rising precedence."""
    found = shard.get_limits("workspace", workspace)
    return {source: limits.parent for source, limits, _ in found if limits.parent is not None}


def in_force(parents: Mapping[str, str | None]) -> str | None:
    """Return the one that counts."""
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
    """What changes a parent asks these where to store it."""

    @contextmanager
    def with_parent(self, workspace: str, source: str, parent: str | None) -> Iterator[Store]:
        """Give the shard on which to store what a source says of a workspace's parent.

        The workspace has moved there. Raises ConfigurationError, and changes nothing, if it cannot.
        """
        if len(self.shards) == 1 or not self._changes(workspace, source, parent):
            yield self.home(workspace)
            return
        is_provided = source == "limit_provider"
        with self._alone(PROVIDER_WAIT_SECONDS if is_provided else WAIT_SECONDS) as hold:
            shard = self._move_to_parent(hold, workspace, {source: parent})
            hold.renew()
            yield shard

    @contextmanager
    def with_configured(self, workspaces: Mapping[str, Limits]) -> Iterator[None]:
        """Move workspaces to the shards of the parents that a configuration names."""
        refuse_nested(workspaces)
        with self._alone(WAIT_SECONDS) as hold:
            for name, limits in workspaces.items():
                if limits.parent is not None:
                    self._move_to_parent(hold, name, {"configured": limits.parent})
            hold.renew()
            yield

    def refuse_default_parent(self, default: Limits) -> None:
        """Raise ConfigurationError for limits of all workspaces that name a parent."""
        if default.parent is not None and len(self.shards) > 1:
            raise ConfigurationError(
                f"default_parent={default.parent!r}: all workspaces would live on one of the "
                f"{len(self.shards)} shards, that of this parent; name the parent of each "
                "workspace that has one, or use shards=1"
            )

    def _changes(self, workspace: str, source: str, parent: str | None) -> bool:
        if self.layout.mark.to is not None:
            return parent is not None or bool(parents_in(self.home(workspace), workspace))
        at, way = self.followed(workspace)
        parents = parents_in(at, workspace)
        if way.moves or parents.get(source) != parent:
            return True
        counts = in_force(parents)
        return parent is not None and counts is not None and at is not self._by_name(counts)

    def _by_name(self, workspace: str) -> Store:
        """Return the shard that its name says."""
        return self.shards[shard_of(workspace, self.layout.mark.shards)]

    @contextmanager
    def _alone(self, wait_seconds: float) -> Iterator[Hold]:
        """Be the one process that moves workspaces; wait for another one for a while."""
        give_up_at = time.monotonic() + min(wait_seconds, HOLD_WAIT_SECONDS)
        hold = Hold(lambda: self.shards[0], wait_seconds)
        with ExitStack() as held:
            while True:
                try:
                    held.enter_context(hold.alone())
                    break
                except AlreadyRunning as error:
                    if time.monotonic() >= give_up_at:
                        raise ConfigurationError(f"a parent cannot be set now: {error}") from error
                time.sleep(POLL_SECONDS)
            self._refuse_reshard()
            yield hold

    def _refuse_reshard(self) -> None:
        self._look(self.shards, at_all=True)
        if self.layout.mark.to is not None or moves_from(self.shards[0].engine) is not None:
            raise ConfigurationError(
                "workspaces are on their way to another number of shards (fairqueue reshard): set "
                "parents when that has ended"
            )

    def _move_to_parent(self, hold: Hold, workspace: str, named: Mapping[str, str | None]) -> Store:
        """Let a workspace live where its parent will be counted; return that shard."""
        at = self._settled(hold, workspace)
        parent = in_force({**parents_in(at, workspace), **named})
        if parent is None:
            return at
        target = self._shard_of_group(hold, workspace, parent)
        self._carry(hold, workspace, at, target)
        return target

    def _settled(self, hold: Hold, workspace: str) -> Store:
        """Return where a workspace lives; end first what a process that was killed has begun."""
        at, way = self.followed(workspace)
        if way.moves and way.to is not None:
            target = self.shards[way.to]
            Carrier(hold).carry(Move(workspace, at, target))
            return target
        at.undo_move(workspace)
        return at

    def _shard_of_group(self, hold: Hold, workspace: str, parent: str) -> Store:
        """Return where a parent's limits are counted; from now on it stays there."""
        own = self._by_name(workspace)
        if parent != workspace and own.is_parent(workspace):
            raise ConfigurationError(
                f"workspaces[{workspace!r}].parent={parent!r}: {workspace!r} is the parent of "
                "others, or was, and with several shards such a workspace has no parent but "
                "itself: name another workspace as the parent of all of them"
            )
        target = self._by_name(parent)
        if not target.is_parent(parent):
            at = own if parent == workspace else self._settled(hold, parent)
            above = None if parent == workspace else in_force(parents_in(at, parent))
            if above not in {None, parent}:
                raise _nested(workspace, parent, str(above))
            if parent != workspace:
                self._carry(hold, parent, at, target)
            target.keep_parent(parent)
        return target

    def _carry(self, hold: Hold, workspace: str, source: Store, target: Store) -> None:
        """Move a workspace, once nothing of it runs."""
        if source is target:
            return
        for shard in (source, target):
            shard.open_ways()
        self._await_end(hold, workspace, source, target)
        try:
            Carrier(hold).carry(Move(workspace, source, target))
        except Stuck as error:
            raise ConfigurationError(
                f"workspace {workspace!r} cannot move to the shard of its parent now: one of its "
                "jobs has the id and queue of another workspace's job there; it waits until that "
                "one has ended and this is done again"
            ) from error
        self.layout.is_at(workspace, target.engine.shard)

    def _await_end(self, hold: Hold, workspace: str, source: Store, target: Store) -> None:
        running, give_up_at = 1, time.monotonic() + hold.wait_seconds
        try:
            while running := source.begin_move(workspace, target.engine.shard):
                if time.monotonic() >= give_up_at:
                    break
                hold.sleep(POLL_SECONDS)
        finally:
            if running:
                with suppress(Exception):
                    source.undo_move(workspace)
        if running:
            raise ConfigurationError(
                f"workspace {workspace!r} must move to the shard of its parent, and {running} of "
                "its jobs still run: nothing has changed; do it again when they have ended, or "
                "pause the workspace before"
            )


def _nested(workspace: str, parent: str, above: str) -> ConfigurationError:
    return ConfigurationError(
        f"workspaces[{workspace!r}].parent={parent!r}: {parent!r} has the parent {above!r} itself, "
        "and with several shards a parent has none but itself"
    )
