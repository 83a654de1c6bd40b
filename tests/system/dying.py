"""Workers that tick a schedule while they are killed and stopped at random."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from typing import Any

from fairqueue import FairQueue
from tests.system.ledger import Ledger, wait_for


def let_them_die(
    alive: list[Any],
    start: Callable[[], Any],
    send: Callable[[int, signal.Signals], object],
    *,
    seconds: float,
) -> None:
    """Kill one and start another, or stop one for longer than the turn of its ticker."""
    rng, until = random.Random(7), time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(rng.uniform(1, 2))
        n = rng.randrange(len(alive))
        if rng.random() < 0.5:
            alive[n].kill()
            alive[n] = start()
        else:
            send(alive[n].pid, signal.SIGSTOP)
            time.sleep(rng.uniform(3.2, 4))
            send(alive[n].pid, signal.SIGCONT)


def each_tick_ran_once(core: FairQueue, ledger: Ledger, *, seconds: float) -> None:
    """A schedule of one tick a second that is paused has published each tick as one job."""

    def jobs() -> dict[str, float]:
        return {line["job"]: line["tick"] for line in ledger.lines("tick")}

    ticks = core.views.totals().ticks
    assert ticks.keys() == {"published"}
    assert ticks["published"] >= seconds - 5
    wait_for(lambda: len(jobs()) >= ticks["published"])
    found = sorted(jobs().values())  # a job that was redelivered has several lines
    assert len(found) == ticks["published"]
    assert found == [found[0] + n for n in range(len(found))]
