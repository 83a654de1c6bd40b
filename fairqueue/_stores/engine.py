"""What runs the scripts: a Redis server, or this process."""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, NoReturn

from fairqueue._keys import Keys, decode
from fairqueue._lazy import rows
from fairqueue._stores.breaker import CircuitBreaker, breaker_at
from fairqueue._stores.library import Read, load, read_source
from fairqueue._stores.waiter import Waiter
from fairqueue.errors import ConfigurationError, StoreUnavailable

HEADED = frozenset({"jobs", "dead_letters"})
"""Kinds of keys whose values end in a payload, after the first line break."""
MOVES = re.compile(r"\bMOVES (\S+)")
OTHER_FORMAT = re.compile(r"FORMAT (\d+) (\d+)")
Value = str | bytes | int | float


class WorkspaceMoves(StoreUnavailable):
    """Workspaces move to another shard, and are unavailable for a moment."""

    def __init__(self, workspace: str, *others: str) -> None:
        super().__init__(
            f"workspace {workspace!r} moves to another shard (fairqueue reshard): try "
            "again in a moment"
        )
        self.workspaces = (workspace, *others)


def bytes_of(value: Value) -> bytes:
    """Write an argument as it is sent."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):  # of a member of an Enum its value
        return value.encode()
    return (repr(value) if isinstance(value, float) else str(value)).encode()


def heads_of(values: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Cut the payloads off."""
    return {name: value.partition(b"\n")[0] for name, value in values.items()}


class UnsafeServer(ConfigurationError):
    """The server may lose jobs or refuse a script: only operators may use it."""


class Entry(NamedTuple):
    """One key and its value."""

    key: bytes
    value: Any
    """Without payloads: bytes, a list, a set, a dictionary of values, or one of scores."""
    expires: bool


class Level(str, Enum):
    """How much a remark matters."""

    INFO = "info"
    WARNING = "warning"
    """Something may be lost or late."""
    PROBLEM = "problem"
    """Something does not work."""


@dataclass(frozen=True, slots=True)
class Remark:
    """What an operator should know."""

    level: Level
    about: str
    """Its subject in a word: memory, clock, queues."""
    text: str


class Engine(ABC):
    """Runs each operation's script as one atomic step, on the keys of one namespace's shard."""

    def __init__(self, namespace: str, read: Read = read_source, *, shard: int = 0) -> None:
        self.namespace, self.read, self.shard = namespace, read, shard
        self.keys = Keys(namespace, shard)
        self._breaker = CircuitBreaker()
        self.is_probe = False
        """Set for a probe."""
        self.is_one_of_several = False
        """Set if other shards are on other servers: then only publishes wait for this one."""
        self.is_hurried = False
        """Set if no call waits: the process stops, or what it publishes can be kept elsewhere."""
        self.is_leaving = False
        """Set if the process stops: its ends need no replica."""
        self.shards_on_server = 1
        """How many shards of the namespace are on its server."""
        self.late: list[partial[Any]] = []
        """What comes before any other call to a shard that was away when its process connected."""
        self._late_lock, self._catches_up = threading.RLock(), False
        self._library = load(read)

    def call(self, operation: str, /, **arguments: Value) -> Any:
        """Run an operation; every argument of its header must be named, and no other."""
        breaker = self.breaker
        if breaker.calls.is_shut:
            self.refuse_if_silent()
        if self.late:
            self.catch_up()
        wanted = self._library.arguments_of(operation)
        try:
            given = [
                value.encode() if type(value := arguments[name]) is str else bytes_of(value)
                for name in wanted
            ]
        except KeyError:
            given = []
        if len(given) != len(arguments):
            raise TypeError(f"{operation} takes {wanted}, not {tuple(arguments)}")
        try:
            reply = self._run(operation, given)
        except Exception as error:
            self._tell(error)
            raise
        breaker.answered()
        return reply

    def catch_up(self) -> None:
        """Do what is late, whose own calls pass; raises StoreUnavailable while the shard is away.

        The breaker skips a silent one.
        """
        with self._late_lock:
            if self._catches_up:
                return
            self._catches_up = True
            try:
                while self.late:
                    self.late[0]()
                    del self.late[0]
            finally:
                self._catches_up = False

    @property
    def breaker(self) -> CircuitBreaker:
        """The breaker of this server, shared by all engines of this process."""
        server = self.server
        return breaker_at(server) if server else self._breaker

    @property
    def is_silent(self) -> bool:
        """Whether the server is silent, so that no call goes there."""
        return self.breaker.calls.is_shut and not self.is_probe

    def refuse_if_silent(self) -> None:
        """Raise StoreUnavailable if the server is silent."""
        if self.is_silent:
            self.refuse()

    def refuse(self) -> NoReturn:
        """Raise StoreUnavailable without asking the server."""
        raise _away(self.server)  # no name here: the garbage of each would be collected in a pause

    @property
    def gives_up(self) -> bool:
        """Whether some calls do not wait for the server's time-outs."""
        return self.is_hurried or self.is_one_of_several

    def leave_alone(self) -> None:  # noqa: B027 - this process answers
        """Fail all calls to a server that has not answered, unless calls wait for it."""

    def _tell(self, error: Exception) -> None:
        """Raise for a script's reply that keys are of another release, or on another shard."""
        if moving := MOVES.search(str(error)):
            raise WorkspaceMoves(decode(moving[1])) from error
        found = OTHER_FORMAT.fullmatch(str(error))
        if found:
            is_newer = int(found[1]) > int(found[2])
            remedy = "upgrade fairqueue in this process to" if is_newer else "run them empty with"
            raise ConfigurationError(
                f"the keys of namespace {self.namespace!r} have format {found[1]}, and this "
                f"release of fairqueue knows format {found[2]}: {remedy} the release that wrote "
                "them, or use another namespace"
            ) from error

    @abstractmethod
    def _run(self, operation: str, values: Sequence[bytes]) -> Any:
        """Run an operation's script; return its reply as redis-py does."""

    @abstractmethod
    def command(self, name: str, *arguments: Value) -> Any:
        """Run one command; an engine may know only those that the scripts use."""

    @abstractmethod
    def dump(self, *, payloads: bool = True) -> Iterator[Entry]:
        """Read every key of the namespace; not one atomic step while others work.

        Without ``payloads``, only the heads of the records of jobs and dead letters.
        """

    @abstractmethod
    def waiter(
        self, queues: Sequence[str], refused: Container[str] = (), beside: Sequence[Engine] = ()
    ) -> Waiter:
        """Make a waiter for the :meth:`tokens` of some queues, also on the shards ``beside``."""

    def tokens(self, queues: Sequence[str], refused: Container[str]) -> list[str]:
        """Name the keys that wake an owner of these queues; ``refused`` ones wait for permits."""
        kinds = ("permit_token" if queue in refused else "token" for queue in queues)
        return [self.keys.key(kind, queue) for kind, queue in zip(kinds, queues, strict=True)]

    @abstractmethod
    def check(self, *, strict: bool = True) -> None:
        """Raise ConfigurationError or StoreUnavailable if the scripts cannot run here.

        ``strict``: raise UnsafeServer where jobs may be lost or a command is forbidden, instead of
        logging a warning.
        """

    def watch(self) -> None:  # noqa: B027 - nothing changes in this process
        """Log a warning if the server may lose jobs."""

    @property
    def server(self) -> str:
        """The server's address, the same for all its shards; empty: this process."""
        return ""

    @property
    @abstractmethod
    def store_id(self) -> str:
        """Name the database and namespace: the same for all engines on these keys."""

    def memory(self) -> rows.Memory | None:
        """Return the server's memory; None: not known, or the keys are in this process."""
        return None

    def durability(self) -> rows.Durability | None:
        """Return the server's durability; None: not known, or the keys are in this process."""
        return None

    def refuse_unconfirmed(self) -> None:  # noqa: B027 - keys in this process have no replicas
        """Raise StoreUnavailable if too few replicas confirm a write."""

    def remarks(self) -> Iterator[Remark]:
        """Yield remarks about the server; none if the keys are in this process."""
        yield from ()

    @property
    def connections(self) -> object:
        """Identifies engines that share connections: the same object for all of them."""
        return self

    @abstractmethod
    def clone(
        self, *, timeout_seconds: float | None = None, beside: Engine | None = None
    ) -> Engine:
        """Open the same keys over connections of its own, or over those of another clone."""

    @abstractmethod
    def close(self) -> None:
        """Close connections. The engine may be used again; it reconnects."""


def _away(server: str) -> StoreUnavailable:
    error = StoreUnavailable(f"Redis at {server} is away: it did not answer a moment ago")
    error.may_be_stored = False
    return error
