"""The store contract: the law in prose, once.

Every store keeps these promises, and one suite checks them on each:

1. A job is in exactly one place: scheduled, waiting in a lane, leased, dead, or gone.
2. No concurrency limit is exceeded, in any interleaving. A lowered limit drains.
3. Usage is the size of the set of leases; a lease counts until it is acked, released, rejected
   or reaped, not before and not after.
4. Only the current fence acts. Any other changes nothing and is told so.
5. Within a queue, order among workspaces is by finish tags in worker-seconds over weight; within
   a workspace by priority (0 first), then first come. What comes back goes to the head.
   Before all others goes who runs below its reserve; among those it is the same order.
6. Capacity check and enqueue are one step. A refused publish leaves nothing.
7. Every call may be repeated after a lost reply, also late, without a second effect.
8. Time is the store's own. Tests bring a clock; production never does.
9. A runnable job and an idle waiter never coexist for longer than one wake-up or poll.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence

from fairqueue._types import (
    Admission,
    Cancelled,
    Claimed,
    DeadLetter,
    Finish,
    Job,
    Limits,
    Pause,
    Published,
    Renewed,
    Stats,
    StoredLimits,
    Why,
)


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
    def publish(self, job: Job, admission: Admission) -> Published:
        """Enqueue one job, unless its id was published before or its unique key is taken.

        A job that waits past its expiry is dead with the reason ``expired``, and has a notice.
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
        shy: bool = False,
    ) -> Claimed:
        """Finish what the owner brings, then lease up to ``n`` jobs, in one step.

        ``number`` grows by one with every call of an owner; the same number again gets the same
        reply, less leases that have passed; a lower one raises FairQueueError. Queues that
        have work take turns, job by job. ``n`` 0 only finishes. ``shy``: this claimer has turned
        jobs away of late; where others wait, they are told to look before it does.
        """

    @abstractmethod
    def renew(self, progress: Sequence[tuple[int, float]], *, lease_seconds: float) -> Renewed:
        """Extend leases, given (fence, worker-seconds so far); tell what is lost or cancelled."""

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
        max_deliveries: int | None,
        turned_away: bool = False,
    ) -> bool:
        """Give a job back: to the head of its lane, or scheduled after a delay; False: lost.

        Numbered like a claim. ``counted`` False takes the delivery back: it does not count
        towards ``max_deliveries``; a counted one that has reached it is dead instead. With
        ``seconds`` 0 the whole charge is refunded. One that was acked early is not run again:
        it is gone. ``turned_away``: its worker could not run it, and the next lease says how
        often that was so.
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

        ``scope``: ``"workspace"``, ``"task"``, ``"queue"``, ``"default"`` or ``"total"``. Acts on
        the backlog. Raises ConfigurationError, and changes nothing, for a reserve above the
        concurrency that the workspace has then.
        """

    @abstractmethod
    def get_limits(self, scope: str, name: str) -> list[tuple[str, Limits]]:
        """What is stored for a scope (as above) and name, by source; what counts more comes later.

        Sources: ``"default"``, ``"live default"``, ``"configured"``, ``"limit_provider"``,
        ``"live"``; only those that apply and set something.
        """

    @abstractmethod
    def give_limits(
        self, workspace: str, limits: Limits | None, *, age_seconds: float = 0.0
    ) -> bool:
        """Keep what a limit provider says of a workspace; None: it knows none.

        Above what is configured and below what is set live; acts on the backlog. Return whether
        that was new. A configuration that has no provider drops all of it. ``age_seconds`` is how
        long ago it was asked: what another, asked later, has said is not overwritten.
        """

    @abstractmethod
    def to_ask(self, *, n: int, older_seconds: float, forget_seconds: float) -> list[str]:
        """Workspaces for which a provider was asked longer ago than that, at most ``n``.

        Each is this caller's for so long. Of one that has neither jobs nor leases nor a place
        in an order what was said is forgotten after ``forget_seconds``.
        """

    @abstractmethod
    def ask_again(self, workspace: str) -> bool:
        """Make a workspace due for :meth:`to_ask`; False: nobody has asked for it before.

        It stays due until somebody asks after this, whatever is answered to an earlier question.
        """

    @abstractmethod
    def snapshot(self) -> Stats:
        """What is waiting, scheduled, running and dead, derived from the structures."""

    @abstractmethod
    def why(self, *, workspace: str | None, job_id: str | None, queue: str | None) -> Why:
        """Why a job waits, or, without one, what a workspace has; nothing is changed by it.

        Without a queue a job is looked for on all. The cost grows with the queues and lanes of
        that workspace and with what it runs, not with the number of workspaces. Approximate: a
        job behind 10,000 others of its lane has that many ahead; a dead one is looked for in the
        given workspace, else in the 1,000 with the oldest dead letters.
        """

    @abstractmethod
    def purge(
        self, queue: str | None = None, workspace: str | None = None, task: str | None = None
    ) -> Iterator[int]:
        """Drop what waits or is scheduled: what is of all that is named, or all; not what runs.

        Each item is one atomic step of bounded length, and tells how many jobs it dropped. To
        find the jobs of one task among others of a lane takes a look at each of them.
        """

    @abstractmethod
    def cancel(self, job_id: str, queue: str | None = None) -> Cancelled:
        """Cancel one job: gone at once where it waits, told to its worker where it runs.

        Cancel wins: a job that was cancelled while it ran is not run again, nor dead, however its
        lease ends. One that has ended stays as it is. Without a queue all are looked at.
        """

    @abstractmethod
    def withdraw(self, job_id: str, queue: str) -> Job | None:
        """Take a job out of where it waits and return it; None: it runs, has ended, or never was.

        A repeat finds nothing more. Its delay and its expiry are not told.
        """

    @abstractmethod
    def find(self, queue: str, text: bytes, words: Collection[bytes] = ()) -> Iterator[list[str]]:
        """Ids of a queue's jobs, waiting, scheduled or running, whose message holds a text.

        With words, what stands from the text's first place to the next quote must be one of them.
        Looks at every job, in steps of bounded length; an id may come twice.
        """

    @abstractmethod
    def cancel_running(self, workspace: str) -> Iterator[int]:
        """Cancel every running job of a workspace; items as in :meth:`purge`."""

    @abstractmethod
    def pause(self, scope: str, name: str, how: Pause | None) -> Pause | None:
        """Pause, drain or, with None, resume; return how it stood. Running jobs finish.

        ``scope``: ``"workspace"``, ``"queue"``, ``"task"`` or ``"total"``. It stays so until it is
        resumed, whatever limits are set or configured meanwhile. Back from a pause nobody has
        credit. A paused task keeps nobody from other tasks.
        """

    @abstractmethod
    def pauses(self) -> dict[tuple[str, str], Pause]:
        """What is paused or draining, by scope and name."""

    @abstractmethod
    def dead_letters(
        self, workspace: str, *, job_id: str | None = None, start: int = 0, count: int = 100
    ) -> list[DeadLetter]:
        """A page of a workspace's dead letters, oldest first from position ``start``, or one.

        Letters beyond their retention are gone; retention never touches live work.
        """

    @abstractmethod
    def replay(
        self, workspace: str, *, job_id: str | None = None, spacing_seconds: float = 0.0
    ) -> Iterator[int]:
        """Publish dead letters again: one, or all that are dead by now, oldest first.

        Each is a job of its old workspace, queue, task and id, without counted deliveries, and no
        capacity refuses it. With a spacing each is due so much after the one before. One whose id
        lives again stays dead. Items as in :meth:`purge`.
        """

    @abstractmethod
    def drop_dead(self, workspace: str, *, job_id: str | None = None) -> Iterator[int]:
        """Drop dead letters for good: one, or all that are dead by now; items as above."""

    @abstractmethod
    def take_notices(
        self, queues: Sequence[str], *, n: int, hold_seconds: float
    ) -> list[DeadLetter]:
        """Dead jobs of these queues of whose death nobody has been told, at most ``n``.

        There is a notice for a job that died of lost workers. It is this caller's for
        ``hold_seconds``, then anybody's again, until :meth:`drop_notices`: so at least one
        worker tells of it. A letter that is replayed or dropped takes its notice along.
        """

    @abstractmethod
    def drop_notices(self, letters: Sequence[DeadLetter]) -> int:
        """These deaths have been told; return how many were not told before."""

    @abstractmethod
    def take_over(self, source: str, job: Job, *, kind: str) -> bool:
        """Enqueue a job in place of the next message of another system's list, in one step.

        The message is the job's payload, and the list, whose last element is next, is ``source``
        in the same store. False: another message is next there, or none. Never refused for want
        of room: it was accepted elsewhere. ``kind`` is counted, see :meth:`taken`. Raises
        FairQueueError while jobs are handed over to that system, see :meth:`leave`.
        """

    @abstractmethod
    def hand_over(self, queue: str, lists: Sequence[tuple[int, str]]) -> Iterator[int]:
        """Move what waits or is scheduled on a queue into another system's lists in this store.

        ``lists``: (least priority, name), the least first. Items as in :meth:`purge`; workspaces
        take turns. Running jobs go on.
        """

    @abstractmethod
    def leave(self, seconds: float) -> None:
        """Let nothing be taken over for so long, since jobs are being handed over; 0: end that."""

    @abstractmethod
    def taken(self) -> Mapping[str, int]:
        """How many messages were ever taken over, by kind."""

    @abstractmethod
    def depth(self, queue: str, *, running: bool = False) -> int:
        """Jobs of a queue that wait or are scheduled; with ``running``, those that run as well."""

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
