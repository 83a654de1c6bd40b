"""(d) Redis's memory per waiting job, in addition to its payload."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from _bench.bulk import fill
from _bench.messages import QUEUE, WORKSPACES, Traffic
from _bench.options import Options, main
from _bench.progress import Progress
from _bench.report import Report, Row, Target
from _bench.turns import OURS, STOCK, Side, own_server, sides_on

NAMESPACE = "fairqueue"
SIZES = (16, 200, 1000, 10_000)
AT_ONCE = 50
FEW = 10_000  # for large payloads and whole messages; more give the same result
_NOTES = [
    f"Jobs of {WORKSPACES} workspaces, except in the last line, and growth of used_memory.",
    "The peer: the same payloads in a Redis list; for messages of Celery's, kombu.",
]


def measure(options: Options, progress: Progress) -> Report:
    """Fill an empty server for each row; the peer is a Redis list of the same payloads."""
    count = options.size(50_000, 500)
    rows = [_payloads(size, count, progress) for size in SIZES]
    rows += [_celery(options, min(count, FEW), progress), _workspaces(count, progress)]
    title = f"(d) Redis's memory per waiting job, above its payload, {count:,} jobs"
    return Report(title, OURS, STOCK, rows, (), _NOTES)


def _used(client: Any) -> int:
    """Memory in use, without Lua and client buffers, which vary."""
    memory = client.info("memory")
    passing = memory["used_memory_lua"] + memory["mem_clients_normal"]
    return int(memory["used_memory"] - passing)


@contextmanager
def _growth(client: Any) -> Iterator[list[int]]:
    before = _used(client)
    grown: list[int] = []
    yield grown
    grown.append(_used(client) - before)


def _payloads(size: int, count: int, progress: Progress) -> Row:
    count = min(count, FEW) if size > FEW // 10 else count
    payload = b"x" * size
    names = [f"client-{n % WORKSPACES}" for n in range(count)]
    ours = _grown_by_fill(names, payload, progress)
    with own_server() as server, server.client() as client, _growth(client) as grown:
        for _ in range(count // AT_ONCE):
            client.lpush(QUEUE, *[payload] * AT_ONCE)
    return Row(
        f"payload of {size:,} bytes",
        "bytes/job",
        [ours / count - size],
        [grown[0] / count - size],
        Target(at_most=250, absolute=True),
    )


def _grown_by_fill(names: list[str], payload: bytes, progress: Progress) -> int:
    with own_server() as server, server.client() as client:
        fill(
            server.url, NAMESPACE, names[:1], payload, progress, id_prefix="one"
        )  # loads the script
        with _growth(client) as grown:
            fill(server.url, NAMESPACE, names, payload, progress)
    return grown[0]


def _celery(options: Options, count: int, progress: Progress) -> Row:
    with own_server() as server, server.client() as client:
        sides = sides_on(server, options)
        ours, peer = (_published(side, client, count, progress) for side in sides)
        with server.client(db=1) as stock:
            size = len(stock.lindex(QUEUE, 0))
    what = f"a message of Celery's ({size:,} bytes)"
    return Row(what, "bytes/job", [ours - size], [peer - size], Target(at_most=250, absolute=True))


def _published(side: Side, client: Any, count: int, progress: Progress) -> float:
    work = progress.start(f"(d) {side.name}", count)
    with Traffic(side.url) as traffic:
        traffic.publish(traffic.batch(WORKSPACES))
        with _growth(client) as grown:
            for _ in range(count // 100):
                traffic.publish(traffic.batch(100))
                work.step(100)
    work.done()
    return grown[0] / (count // 100 * 100)


def _workspaces(count: int, progress: Progress) -> Row:
    """Measure the other extreme: a workspace for each job."""
    count = min(count, FEW)
    size = 200
    names = [f"client-{n}" for n in range(count)]
    ours = _grown_by_fill(names, b"x" * size, progress) / count - size
    with own_server() as server, server.client() as client, _growth(client) as grown:
        for name in names:
            client.lpush(f"{QUEUE}:{name}", b"x" * size)
    return Row(
        "a workspace for each job (peer: a list)",
        "bytes/job",
        [ours],
        [grown[0] / count - size],
    )


if __name__ == "__main__":
    main(measure)
