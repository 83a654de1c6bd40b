"""The store contract: the law in prose, once.

Every store keeps these promises, and one suite checks them on each:

1. A job is in exactly one place: scheduled, waiting in a lane, leased, dead, or gone.
2. No concurrency limit is exceeded, in any interleaving. A lowered limit drains.
3. Usage is the size of the set of leases; a lease counts until it is acked, released, rejected
   or reaped, not before and not after.
4. Only the current fence acts. Any other changes nothing and is told so.
5. Within a queue, order among workspaces is by finish tags in worker-seconds over weight; within
   a workspace by priority (0 first), then first come. What comes back goes to the head.
6. Capacity check and enqueue are one step. A refused publish leaves nothing.
7. Every call may be repeated after a lost reply, also late, without a second effect.
8. Time is the store's own. Tests bring a clock; production never does.
9. A runnable job and an idle waiter never coexist for longer than one wake-up or poll.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from fairqueue._types import Admission, Claimed, Finish, Job, Limits, Stats, StoredLimits


class Waiter(ABC):
    """Waits for a wake-up on some queues, blocking or from an event loop."""

    @abstractmethod
    def arm(self, seconds: float) -> None:
        """Start waiting; after ``seconds`` the wait ends by itself. Arming twice is a no-op."""

    @abstractmethod
    def fileno(self) -> int:
        """Descriptor that becomes readable when the wait is over. Valid while armed."""

    @abstractmethod
    def collect(self) -> bool:
        """End an armed wait that became readable; True: woken, False: time was up."""

    @abstractmethod
    def wait(self, seconds: float) -> bool:
        """Arm, block, collect."""

    @abstractmethod
    def close(self) -> None:
        """Stop waiting and free the descriptor; a wake-up taken by then is passed on."""


class Store(ABC):
    """One method per operation; each is one atomic step."""

    @abstractmethod
    def check(self) -> None:
        """Raise ConfigurationError or StoreUnavailable if this server cannot keep the promises."""

    @abstractmethod
    def configure(self, limits: StoredLimits, *, authoritative: bool) -> bool:
        """Store limits where none are stored, or always if ``authoritative``.

        Return whether what is stored now equals ``limits``.
        """

    @abstractmethod
    def publish(self, job: Job, admission: Admission) -> bool:
        """Enqueue one job; False if this id was published before (nothing changed then).

        Raise CapacityExceeded if it is refused, LeaseLost if its parent's fence has passed.
        """

    @abstractmethod
    def claim(
        self,
        *,
        owner: str,
        number: int,
        queues: Sequence[str],
        n: int,
        lease_seconds: float,
        max_deliveries: int | None,
        finishes: Sequence[Finish] = (),
    ) -> Claimed:
        """Finish what the owner brings, then lease up to ``n`` jobs, in one step.

        ``number`` grows by one with every call of an owner; the same number again gets the same
        reply, less leases that have passed; a lower one raises FairQueueError. Queues take turns,
        beginning at ``number`` modulo their count. ``n`` 0 only finishes.
        """

    @abstractmethod
    def renew(
        self, progress: Sequence[tuple[int, float]], *, lease_seconds: float
    ) -> frozenset[int]:
        """Extend leases, given (fence, worker-seconds so far); return the fences that are lost."""

    @abstractmethod
    def ack(
        self, *, owner: str, number: int, lease_seconds: float, finishes: Sequence[Finish]
    ) -> frozenset[int]:
        """Finish without claiming, numbered like a claim; return the fences that were lost."""

    @abstractmethod
    def release(
        self,
        fence: int,
        *,
        owner: str,
        number: int,
        lease_seconds: float,
        delay_seconds: float,
        counted: bool,
        seconds: float,
    ) -> bool:
        """Give a job back: to the head of its lane, or scheduled after a delay; False: lost.

        Numbered like a claim. ``counted`` False takes the delivery back: it does not count
        towards ``max_deliveries``. With ``seconds`` 0 the whole charge is refunded. One that was
        acked early is not run again: it is gone.
        """

    @abstractmethod
    def reject(
        self,
        fence: int,
        *,
        owner: str,
        number: int,
        lease_seconds: float,
        reason: str,
        seconds: float,
    ) -> bool:
        """Move a leased job to the dead letters of its workspace, numbered; False: lost."""

    @abstractmethod
    def reap(self, *, lease_seconds: float, max_deliveries: int | None) -> int:
        """Bring back expired leases and fire due timers, a bounded number; return how many."""

    @abstractmethod
    def set_limits(self, scope: str, name: str, limits: Limits | None) -> None:
        """Set limits live, above any configuration; None takes the live ones away.

        ``scope``: ``"workspace"``, ``"queue"``, ``"default"`` or ``"total"``. Acts on the backlog.
        """

    @abstractmethod
    def snapshot(self) -> Stats:
        """What is waiting, scheduled, running and dead, derived from the structures."""

    @abstractmethod
    def purge(self, queue: str) -> int:
        """Drop every waiting and scheduled job of a queue (not running ones); return how many."""

    @abstractmethod
    def depth(self, queue: str) -> int:
        """Jobs of a queue that wait or are scheduled."""

    @abstractmethod
    def declare(self, queue: str, *, plain: bool) -> None:
        """Remember a queue's kind: plain ones bypass the core (control, events, results)."""

    @abstractmethod
    def is_plain(self, queue: str) -> bool | None:
        """Kind of a queue as declared by anyone; None: never declared. A publish declares."""

    @abstractmethod
    def waiter(self, queues: Sequence[str]) -> Waiter:
        """A waiter with a connection of its own."""

    @abstractmethod
    def clone(self, *, timeout_seconds: float | None = None) -> Store:
        """The same store over connections of its own (for a background thread).

        With a time-out no call waits longer for the server, nor is repeated by itself.
        """

    @abstractmethod
    def close(self) -> None:
        """Close connections. The store may be used again; it reconnects."""
