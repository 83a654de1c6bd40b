"""Sends calls to Redis over connections that hold no reply of an earlier call.

Connections are made as the client makes them and repeat a call as it does. They wait here for the
next call, not in the client's pool, for two reasons:

- The pool takes a connection back whatever happened. An exception between sending and reading
  (a soft time limit, gevent.Timeout, Ctrl-C) leaves one there whose reply is still under way, and
  the next call reads that. A primary that has stepped down keeps its connections there, too.
- It counts, times and announces each loan. Time of a call over it, as a multiple of the time over
  this module (in brackets: of the client's own processor time), medians of 57 alternating turns of
  200 calls each, redis-py 8.1, Redis 7.0 on the same machine, unix socket:

      =======================  =============  ================
      over                     publish        finish and claim
      =======================  =============  ================
      redis-py's pool          1.3 (1.5)      1.1 (1.3)
      redis-py's whole client  2.0 (2.5)      1.3 (1.7)
      =======================  =============  ================

While a library traces redis-py's client, calls go by a copy of the client, so that the library sees
them, over the connections that wait here.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

import redis
from redis.exceptions import ResponseError

from fairqueue._stores.breaker import ASK_SECONDS, PATIENCE_SECONDS
from fairqueue._stores.redis.errors import TooFewReplicas, is_from_wrong_server, is_moved
from fairqueue._stores.redis.looking import Looking
from fairqueue._utils import is_readable, this_process

TIMEOUTS = "socket_timeout", "socket_connect_timeout"
"""A connection's time-outs; over a Unix socket it may have only the first."""
MARK_MS = str(24 * 3600 * 1000)
"""How long the mark lives after it was last touched."""
REPLIES = 2
"""Number of replies to the commands behind a call."""
SHARE_OF_TIMEOUT = 0.8
"""WAIT must answer before the connection's own time-out closes it."""


def packed(values: Iterable[bytes]) -> bytes:
    """Write values as they are sent."""
    return b"".join([b"$%d\r\n%b\r\n" % (len(value), value) for value in values])


def head(command: Sequence[str], arguments: int) -> bytes:
    """Pack the beginning of a command to which this many arguments are added."""
    return b"*%d\r\n" % (len(command) + arguments) + packed(map(str.encode, command))


def read_one(connection: Any) -> Any:
    return connection.read_response()


class Wire:
    """Carries one client's calls, beside that client: as many at once as were ever under way.

    Safe to share between threads and over fork: a child makes its own connections.
    """

    def __init__(self, client: Any) -> None:
        self._client, self.pool = client, client.connection_pool
        self._copies: deque[Any] = deque()
        """Those of the client that see calls, while a library traces them."""
        self.lacks_replicas = False
        """Whether too few replicas confirmed its last write."""
        self.was_let_in = False
        """Whether the server has accepted its login."""
        self._begin()

    def _begin(self) -> None:
        self._pid = this_process.pid
        self._idle: deque[Any] = deque()

    def _lend(self, call: Callable[[Any], Any]) -> Any:
        """Lend a connection without an unread reply to one call; only an answer keeps it.

        After any other end it is closed, and so are all others, which may be lost, too.
        """
        if self._pid != this_process.pid:
            self._begin()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self.pool.connection_class(**self.pool.connection_kwargs)
        if _has_input(connection) or _is_doubted(connection):
            connection.disconnect()  # input without a call means that it has ended
        try:
            reply = call(connection)
        except BaseException as error:
            if isinstance(error, ResponseError) and not is_from_wrong_server(error):
                self._idle.append(connection)
            else:
                connection.disconnect()
                self.close()
            raise
        self._idle.append(connection)
        self.was_let_in = True
        return reply

    def exchange(
        self,
        packed: bytes,
        read: Callable[[Any], Any] = read_one,
        *,
        is_there: Callable[[], bool] | None = None,
    ) -> Any:
        """Send a packed command and return its reply, with the client's own retries.

        ``read``: reads the whole reply. Only an answer keeps the connection, and only if the server
        may still be the right one: after a failover the next call connects again.
        """
        times = 0
        connection: Any = None

        def send_and_read() -> Any:
            nonlocal times
            _connect(connection, soon=is_there is not None)
            times, sent = times + 1, monotonic()
            connection.send_packed_command((packed,))
            if is_there is not None:
                patience = min(PATIENCE_SECONDS, connection.socket_timeout or PATIENCE_SECONDS)
                _await_reply(connection, patience, is_there)
            reply = read(connection)
            if monotonic() > sent + ASK_SECONDS and _is_doubted(connection):
                raise redis.ConnectionError("this server was found silent before it answered")
            return reply

        def prepare_retry(_: Exception) -> None:
            connection.disconnect()

        def call(lent: Any) -> Any:
            nonlocal connection
            connection = lent
            try:
                return connection.retry.call_with_retry(send_and_read, prepare_retry)
            except ResponseError as error:
                if not is_moved(error):
                    raise
                connection.disconnect()  # nothing has begun, and the slot is elsewhere by now
                return send_and_read()

        try:
            return self._lend(call)
        except BaseException as error:
            error.owes_reply = times > isinstance(error, ResponseError)  # type: ignore[attr-defined]
            raise

    def run(self, command: Sequence[bytes], is_there: Callable[[], bool] | None) -> Any:
        """Run a command; ``is_there``, on one of several servers: see :meth:`exchange`."""
        return self.exchange(head((), len(command)) + packed(command), is_there=is_there)

    def traced(
        self, method: str, *arguments: Any, then: Callable[[Any], object] | None = None
    ) -> Any:
        """Call a method of redis-py's client, which a library has replaced to see each call.

        ``then`` gets the connection once the call was answered.
        """

        def call(connection: Any) -> Any:
            try:
                client = self._copies.pop()
            except IndexError:
                client = copy(self._client)
                client.auto_close_connection_pool = False
                client.response_callbacks = {}  # replies are read as they come
            client.connection = connection  # so it takes none from its pool
            try:
                reply = getattr(client, method)(*arguments)
            finally:
                client.connection = None  # and brings none there
                self._copies.append(client)
            if then is not None:
                then(connection)
            return reply

        return self._lend(call)

    def ask(self, *command: str, within: float) -> Any:
        """Run a command once, without retries; redis.TimeoutError: no reply came in time."""

        def call(connection: Any) -> Any:
            connection.send_command(*command)
            _await_reply(connection, within)
            return connection.read_response()

        return self._lend(call)

    def close(self) -> None:
        """Close idle connections; the wire may be used again."""
        with suppress(IndexError):  # other threads take them, and close them, meanwhile
            while True:
                self._idle.pop().disconnect()


def close_idle(pool: Any) -> None:
    """Close a pool's connections that wait for a call."""
    try:
        pool.disconnect(inuse_connections=False)
    except TypeError:  # an older BlockingConnectionPool closes all
        pool.disconnect()


def _await_reply(
    connection: Any, seconds: float, is_there: Callable[[], bool] = lambda: False
) -> None:
    """Wait for the reply, unless the server is silent."""
    if not _has_input(connection, seconds) and not is_there():
        raise redis.TimeoutError("no answer in time")


def _is_doubted(connection: Any) -> bool:
    return isinstance(connection, Looking) and connection.is_doubted


def _connect(connection: Any, *, soon: bool) -> None:
    """Connect, so that it is known whether a call was sent."""
    if connection._sock is None:  # noqa: SLF001 - connect() takes its time to see that
        connect_soon(connection) if soon else connection.connect()


def connect_soon(connection: Any) -> None:
    """Connect if necessary, within the time-out of a probe."""
    is_open: bool = connection._sock is not None  # noqa: SLF001
    if is_open:
        return
    given = {name: getattr(connection, name) for name in TIMEOUTS if hasattr(connection, name)}
    for name, seconds in given.items():
        setattr(connection, name, min(ASK_SECONDS, seconds or ASK_SECONDS))
    try:
        connection.connect()
    finally:
        for name, seconds in given.items():
            setattr(connection, name, seconds)
    connection._sock.settimeout(connection.socket_timeout)  # noqa: SLF001


def _has_input(connection: Any, seconds: float = 0.0) -> bool:
    opened = connection._sock  # noqa: SLF001 - can_read() asks it in four system calls
    if opened is None:
        return False
    if not isinstance(opened, socket.socket):
        return bool(connection.can_read(seconds))
    return is_readable([opened.fileno()], seconds)


class Replicas(NamedTuple):
    """How many replicas confirm a write before its call returns, and within which time."""

    least: int = 0
    seconds: float = 1.0


class Confirmation:
    """Waits for replicas behind each write of one client.

    While replicas are missing no write is sent, but for the ends of a process that stops: an
    unconfirmed claim would lease jobs that its worker never gets, and a publish would store a job
    although its caller gets an error.

    From Redis 7.2 on, WAIT waits only for writes of its own connection, and a repeated call may
    write nothing. So a mark gets another time to live, which a full Redis accepts; that answers 0
    if there is no mark yet, and then it is written.
    """

    def __init__(self, wire: Wire, replicas: Replicas, mark: str) -> None:
        self._wire, self._replicas = wire, replicas
        limit, seconds = wire.pool.connection_kwargs.get("socket_timeout"), replicas.seconds
        seconds = min(seconds, SHARE_OF_TIMEOUT * limit) if limit else seconds
        wait = head(["WAIT", str(replicas.least), str(max(1, round(seconds * 1000)))], 0)
        self.packed = head(["PEXPIRE", mark, MARK_MS], 0) + wait
        self._first = head(["SET", mark, "", "PX", MARK_MS], 0) + wait

    def ensure(self) -> None:
        """Raise TooFewReplicas if replicas were missing at the last write, and still are."""
        if self._wire.lacks_replicas:
            self.ask()

    def ask(self) -> None:
        """Raise TooFewReplicas if replicas are missing now."""
        self._wire.exchange(self.packed, read=partial(self._look, sent=False))

    def read(self, connection: Any) -> Any:
        """Read the reply, and those of the commands behind it, so that none is left over."""
        reply, *marked = [_read_any(connection) for _ in range(1 + REPLIES)]
        if isinstance(reply, ResponseError):
            raise reply
        self._note(connection, marked)
        return reply

    def wait(self, connection: Any) -> None:
        """Wait behind a call that was sent without a WAIT."""
        connection.send_packed_command((self.packed,))
        self._look(connection)

    def _look(self, connection: Any, *, sent: bool = True) -> None:
        self._note(connection, [_read_any(connection) for _ in range(REPLIES)], sent=sent)

    def _note(self, connection: Any, replies: Sequence[Any], *, sent: bool = True) -> None:
        """Note whether the mark was there, and how many replicas have confirmed."""
        for reply in replies:
            if isinstance(reply, ResponseError):
                raise reply
        is_marked, confirmed = replies
        if not is_marked:
            connection.send_packed_command((self._first,))
            self._look(connection, sent=sent)
            return
        least = self._replicas.least
        self._wire.lacks_replicas = confirmed < least
        if self._wire.lacks_replicas:
            repeat = "the primary has it, and loses it if it fails now: repeat the call"
            raise TooFewReplicas(
                f"{confirmed} of min_replicas={least} replicas confirmed a write in time; "
                f"{repeat if sent else 'nothing was sent'}. Bring the replicas back, or lower "
                "min_replicas"
            )


def _read_any(connection: Any) -> Any:
    """Read one reply, also one that is an error."""
    try:
        return connection.read_response()
    except ResponseError as error:
        return error
