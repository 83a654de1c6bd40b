"""(k) Waiting jobs moved out of fairqueue and in again, as a change of the stored format may ask.

Both commands are those of a user, with their start; nothing else uses the server.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from _bench.messages import Traffic
from _bench.options import Options, main
from _bench.progress import Progress
from _bench.report import Report, Row, Target
from _bench.turns import own_server

COMMAND = (str(Path(sys.executable).with_name("fairqueue")), "migrate", "celery")
OUT, IN = "--back", "migrate"
SECONDS_OF_A_PAUSE = Target(at_most=120, absolute=True)
"""How long 100,000 jobs may take to move out, while nothing runs."""


def measure(options: Options, progress: Progress) -> Report:
    """Time each command from its start to its end."""
    count, turns = options.size(100_000, 200), options.turns_of(3)
    found: dict[str, list[float]] = {OUT: [], IN: []}
    work = progress.start("(k) moved jobs", 2 * turns + 1)
    with own_server() as server:
        lists, ours = f"redis://{server.tcp_address}/1", f"fairqueue://{server.tcp_address}/0"
        _fill(lists, count)
        work.step()
        for _ in range(turns):
            found[IN].append(_moved(count, "--from", lists, "--to", ours))
            work.step()
            found[OUT].append(_moved(count, "--back", "--from", ours, "--to", lists))
            work.step()
    work.done()
    row = Row(f"{count:,} jobs", "seconds", found[OUT], found[IN], SECONDS_OF_A_PAUSE)
    return Report("(k) waiting jobs moved one way", OUT, IN, [row], [])


def _fill(url: str, count: int) -> None:
    traffic = Traffic(url)
    for _ in range(0, count, 100):
        traffic.publish(traffic.batch(100))
    traffic.connection.close()


def _moved(count: int, *options: str) -> float:
    began = time.perf_counter()
    done = subprocess.run([*COMMAND, *options], capture_output=True, text=True, check=True)
    assert f"in all: {count:,} jobs moved" in done.stdout, done.stdout
    return time.perf_counter() - began


if __name__ == "__main__":
    main(measure)
