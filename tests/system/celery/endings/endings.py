"""How each ending is brought about, in a worker of its own or in one that many endings share."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

LEASE_SECONDS = 3.0
"""Short, if nothing can see the ending and the lease has to expire."""

STOPPED_SECONDS = 2 * LEASE_SECONDS

Provoke = Callable[[Any], None]
"""Called with the bench once all victims of the ending run."""


def nothing(_bench: Any) -> None:
    """The task ends by itself."""


def revoke(bench: Any) -> None:
    for trial in bench.trials:
        bench.control.revoke(trial.id)


def terminate(bench: Any) -> None:
    for trial in bench.trials:
        bench.control.revoke(trial.id, terminate=True)


def send_signal(number: signal.Signals) -> Provoke:
    def send(bench: Any) -> None:
        bench.worker.process.send_signal(number)

    return send


def kill_worker(bench: Any) -> None:
    bench.worker.kill()


def freeze_worker(bench: Any) -> None:
    """Stop for longer than the lease, then go on."""
    bench.worker.process.send_signal(signal.SIGSTOP)
    for trial in bench.trials:
        trial.over = time.monotonic()
    time.sleep(STOPPED_SECONDS)
    bench.worker.process.send_signal(signal.SIGCONT)
    time.sleep(1)


def see_it_grow(bench: Any) -> None:
    bench.note_size(lambda size: size > 1)


def see_it_shrink(bench: Any) -> None:
    """Before Celery 5.7 a gevent pool counts the greenlets that run, and has none at rest."""
    bench.note_size(lambda size: size in {0, 1})


def await_results(bench: Any) -> None:
    """Workers look every second or two for what has expired in the store."""
    bench.wait(lambda: all(trial.result.ready() for trial in bench.trials))


def restart_pool(bench: Any) -> None:
    bench.control.pool_restart(reply=True, timeout=30, limit=1)


@dataclass(frozen=True)
class Ending:
    """One way for a task to end."""

    title: str
    how: str = "run_on"
    seconds: float = 0.2
    """The victim shows signs of life for this long before it does ``how``."""
    provoke: Provoke = nothing
    afterwards: Provoke = nothing
    """Called with the bench once nothing runs."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the victim's publish."""
    prefix: str = ""
    """Of the victim's task."""
    first: Mapping[str, Any] | None = None
    """A job of the same workspace before the victim: its arguments."""
    starts: bool = True
    """The victim starts; ``provoke`` waits for it."""
    worker: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    own_worker: bool = False
    """It would disturb other endings in the same worker."""
    successor: bool = False
    """A second worker is needed, since the first is gone afterwards."""
    ends_worker_of: tuple[str, ...] = ()
    """In these pools it needs both."""
    alone_in: tuple[str, ...] = ()
    """In these pools one variant is played at a time."""
    lease_seconds: float = 8.0
    environment: Mapping[str, str] = field(default_factory=dict)

    def needs_worker(self, pool: str) -> bool:
        return self.own_worker or pool in self.ends_worker_of

    def needs_successor(self, pool: str) -> bool:
        return self.successor or pool in self.ends_worker_of


def of_worker(title: str, provoke: Provoke, **kwargs: Any) -> Ending:
    """An ending of a whole worker, with another one standing by."""
    return Ending(title, provoke=provoke, own_worker=True, successor=True, **kwargs)


ENDINGS = {
    "success": Ending("success"),
    "error": Ending("error", "fail"),
    "retry": Ending("`Retry`", "retry"),
    "reject": Ending("`Reject`", "reject"),
    "reject_requeue": Ending("`Reject(requeue=True)`", "reject_requeue"),
    "ignore": Ending("`Ignore`", "ignore"),
    "system_exit": Ending("`SystemExit`", "leave", ends_worker_of=("solo",)),
    "child_killed": Ending("child SIGKILLed", "kill_child"),
    "out_of_memory": Ending(
        "out of memory",
        "exhaust_memory",
        seconds=1.0,
        ends_worker_of=("prefork", "solo"),
        alone_in=("prefork",),
    ),
    "soft_limit": Ending("soft time limit", seconds=20, options={"soft_time_limit": 1}),
    "hard_limit": Ending("hard time limit", seconds=20, options={"time_limit": 1}),
    "revoke": Ending("revoke while it runs", seconds=1.0, provoke=revoke),
    "terminate": Ending("revoke(terminate=True)", seconds=2.5, provoke=terminate),
    "revoked_before_eta": Ending(
        "revoked before its ETA", options={"countdown": 1.5}, provoke=revoke, starts=False
    ),
    "expired": Ending(
        "expired while it waited",
        options={"expires": 0.3},
        first={"seconds": 0.8},
        starts=False,
        afterwards=await_results,
    ),
    "rate_limited": Ending(
        "above its `rate_limit`, beside short tasks", seconds=0.05, prefix="paced_", starts=False
    ),
    "warm": of_worker("warm shutdown", send_signal(signal.SIGTERM), seconds=1.5),
    "soft": of_worker(
        "soft shutdown",
        send_signal(signal.SIGQUIT),
        seconds=1.5,
        config={"worker_soft_shutdown_timeout": 4.0},
    ),
    "cold": of_worker(
        # Celery cancels in the signal handler, where greenlets cannot wait for a connection: the
        # first one to need it is the last one to be cancelled.
        "cold shutdown",
        send_signal(signal.SIGQUIT),
        seconds=6.0,
        alone_in=("gevent", "eventlet"),
    ),
    "worker_killed": of_worker(
        "main process SIGKILLed", kill_worker, seconds=12.0, lease_seconds=LEASE_SECONDS
    ),
    "frozen": of_worker(
        "SIGSTOP longer than the lease, SIGCONT",
        freeze_worker,
        seconds=STOPPED_SECONDS + 3,
        lease_seconds=LEASE_SECONDS,
    ),
    "autoscale": Ending(
        "`--autoscale` up and down",
        seconds=3.0,
        provoke=see_it_grow,
        afterwards=see_it_shrink,
        worker=("--autoscale", "8,1"),
        environment={"AUTOSCALE_KEEPALIVE": "1"},
        own_worker=True,
    ),
    "pool_restart": Ending(
        "`pool_restart`",
        seconds=2.5,
        provoke=restart_pool,
        config={"worker_pool_restarts": True},
        own_worker=True,
    ),
    "max_tasks": Ending(
        "`worker_max_tasks_per_child`", config={"worker_max_tasks_per_child": 1}, own_worker=True
    ),
    "max_memory": Ending(
        "`worker_max_memory_per_child`",
        "grow_fat",
        config={"worker_max_memory_per_child": 90_000},
        own_worker=True,
    ),
}
