"""What a soak looks at each minute: processes, the server, and the keys of each kind."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import redis

from fairqueue._keys import TYPES

SIZES = {"hash": "hlen", "list": "llen", "zset": "zcard", "set": "scard", "string": "strlen"}
OF_SERVER = (
    "used_memory",
    "used_memory_rss",
    "used_memory_functions",
    "mem_clients_normal",
    "connected_clients",
    "total_commands_processed",
)
MEMORY, AT_ONCE = ("Pss:", "Rss:"), 500

Sample = Mapping[str, Any]


def family(pid: int) -> Iterator[int]:
    """Give a process and those below it."""
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from family(int(child))


def of_process(pid: int) -> dict[str, float]:
    """Return its memory in MB, its descriptors and its threads."""
    of = Path(f"/proc/{pid}")
    rows = (line.split() for line in (of / "smaps_rollup").read_text().splitlines())
    kb = {row[0]: int(row[1]) for row in rows if row[0] in MEMORY}
    found = {name[:-1].lower(): size / 1024 for name, size in kb.items()}
    return {
        **found,
        "fds": len([*(of / "fd").iterdir()]),
        "threads": len([*(of / "task").iterdir()]),
    }


def of_processes(roots: Mapping[str, int]) -> dict[str, dict[str, float]]:
    """Return the sum for each worker, its children apart from its first process."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for name, root in roots.items():
        for pid in family(root):
            with contextlib.suppress(OSError):
                part = name if pid == root else f"{name} below"
                found[part].update({**of_process(pid), "processes": 1})
    return {name: dict(measured) for name, measured in found.items()}


def of_server(client: redis.Redis) -> dict[str, float]:
    """Return the server's own numbers."""
    info: Any = client.info()
    return {**{name: info[name] for name in OF_SERVER}, "keys": client.dbsize()}


def of_keys(client: redis.Redis) -> dict[str, dict[str, int]]:
    """Return for each kind how many keys there are, their elements and bytes, and the largest.

    Fields of the shard's hash are counted by what they begin with.
    """
    found: dict[str, dict[str, int]] = {}
    keys: list[bytes] = [*client.scan_iter(count=AT_ONCE)]
    for start in range(0, len(keys), AT_ONCE):
        some = keys[start : start + AT_ONCE]
        kinds = [key.decode().partition("}:")[2].partition(":")[0] for key in some]
        pipe = client.pipeline(transaction=False)
        for key, kind in zip(some, kinds, strict=True):
            getattr(pipe, SIZES[TYPES.get(kind, "string")])(key)
            pipe.memory_usage(key)
        answers = pipe.execute(raise_on_error=False)
        for kind, size, used in zip(kinds, answers[::2], answers[1::2], strict=True):
            n = size if isinstance(size, int) else 0
            row = found.setdefault(kind, dict.fromkeys(("keys", "elements", "bytes", "largest"), 0))
            row["keys"] += 1
            row["elements"] += n
            row["bytes"] += used or 0
            row["largest"] = max(row["largest"], n)
    names: Any = client.hkeys("{soak:0}:shard")
    fields = Counter(name.decode().partition(":")[0] for name in names)
    return found | {f"shard {name}": {"elements": n} for name, n in fields.items()}


def flat(sample: Sample, path: str = "") -> Iterator[tuple[str, float]]:
    """Give each number of a sample, by its path."""
    for name, value in sample.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{path}{name} / ")
        else:
            yield f"{path}{name}", value


def growth(samples: Sequence[Sample]) -> Iterator[tuple[str, float, float, float]]:
    """Give each number: its mean after the first sixth and at the end, and its largest."""
    sixth = max(1, len(samples) // 6)
    rows = [dict(flat(sample)) for sample in samples]
    for name in sorted({name for row in rows for name in row}):
        early, late = (
            sum(row.get(name, 0) for row in part) / len(part)
            for part in (rows[sixth : 2 * sixth] or rows, rows[-sixth:])
        )
        yield name, early, late, max(row.get(name, 0) for row in rows)
