"""Kills and stops workers at random."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from typing import Any


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
