"""The peers: which adapter plays them, in which environment, with which settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SLOTS, LIMIT = 8, 4


@dataclass(frozen=True)
class Peer:
    """One side of the comparison. ``recover``: its own time-out in the test of recovery."""

    name: str
    environment: str
    adapter: str
    settings: str
    recovery: str
    recover: int = 10
    variant: str = ""
    scheme: str = "redis"
    query: str = ""
    limited: bool = False
    one_worker: bool = False
    """A second worker of the same name would take the first one for dead."""

    @property
    def ours(self) -> bool:
        """Whether it is fairqueue."""
        return self.environment == "fairqueue"


CELERY = "prefork, late acks, `task_reject_on_worker_lost`, `worker_prefetch_multiplier=1`"
LEASE = "leases, 30 s by default"
VISIBLE = "`visibility_timeout`, 1 h by default, looked for each 100 s (here each second)"
BEATS = "`heartbeat_timeout`, 60 s by default, looked for by one command in 1,000"
OURS = "?workspace_from=kwarg:workspace"
AT_MOST = f"at most {LIMIT} running jobs of a workspace"

PEERS: Sequence[Peer] = (
    Peer("fairqueue (Celery)", "fairqueue", "celery_app.py", CELERY, LEASE,
         scheme="fairqueue", query=OURS),
    Peer("fairqueue (Dramatiq)", "fairqueue", "dramatiq_app.py", "threads", LEASE,
         variant="fairqueue"),
    Peer("fairqueue (Celery), a limit", "fairqueue", "celery_app.py",
         f"`workspace_concurrency={LIMIT}`", LEASE,
         scheme="fairqueue", query=f"{OURS}&workspace_concurrency={LIMIT}", limited=True),
    Peer("fairqueue (Dramatiq), a limit", "fairqueue", "dramatiq_app.py",
         f"threads, `workspace_concurrency={LIMIT}`", LEASE,
         variant="fairqueue-limit", limited=True),
    Peer("Celery", "celery", "celery_app.py", CELERY, VISIBLE),
    Peer("Celery, a queue per workspace", "celery", "celery_app.py",
         f"{CELERY}, one worker for ten queues", VISIBLE, variant="queues"),
    Peer("Dramatiq", "dramatiq", "dramatiq_app.py", "threads", BEATS),
    Peer("Dramatiq, ConcurrentRateLimiter", "dramatiq", "dramatiq_app.py",
         f"threads; {AT_MOST}; back-off from 0.2 to 2 s",
         f"{BEATS}; a killed run keeps its permit for 15 min", variant="limiter", limited=True),
    Peer("rq", "rq", "rq_app.py", "`worker-pool`, a fork for each job, `Retry(max=3)`",
         "heartbeats, 90 s by default (here 70, longer than was watched), looked for each 10 min"),
    Peer("arq", "arq", "arq_app.py", "an event loop, polled each 50 ms (0.5 s by default)",
         "`job_timeout` + 10 s, 310 s by default"),
    Peer("saq", "saq", "saq_app.py", "an event loop, `retries=3`",
         "the job's `timeout`, 10 s by default, looked for each 60 s"),
    Peer("huey", "huey", "huey_app.py", "threads, no results", "none: a taken job is lost"),
    Peer("taskiq", "taskiq", "taskiq_app.py", "an event loop, `RedisStreamBroker`",
         "`idle_timeout`, 10 min by default, looked for after a new job only"),
    Peer("streaq", "streaq", "streaq_app.py", "an event loop", "`idle_timeout`, 60 s by default"),
    Peer("docket", "pydocket", "docket_app.py",
         "an event loop; with full slots it looks each 100 ms, by default",
         "`redelivery_timeout`, 5 min by default"),
    Peer("docket, ConcurrencyLimit", "pydocket", "docket_app.py", f"an event loop; {AT_MOST}",
         "`redelivery_timeout`, 5 min by default", variant="limit", limited=True),
    Peer("procrastinate", "procrastinate", "procrastinate_app.py", "an event loop, PostgreSQL",
         "heartbeats, 30 s by default, and a periodic task of your own", scheme="postgresql"),
    Peer("DBOS", "dbos", "dbos_app.py", "threads, PostgreSQL",
         "at the start of the executor of the same name", scheme="postgresql", one_worker=True),
    Peer("DBOS, a partition per workspace", "dbos", "dbos_app.py",
         f"threads, PostgreSQL, polled each 50 ms; {AT_MOST}",
         "at the start of the executor of the same name",
         variant="limit", scheme="postgresql", limited=True, one_worker=True),
    Peer("BullMQ", "bullmq", "bullmq_app.cjs", "one process of Node",
         "`lockDuration` and `stalledInterval`, 30 s each by default"),
)  # fmt: skip

REQUIREMENTS = {
    "fairqueue": ("celery", "dramatiq"),  # extras of this checkout
    "celery": ("celery[redis]",),
    "dramatiq": ("dramatiq[redis]",),
    "rq": ("rq",),
    "arq": ("arq",),
    "saq": ("saq[redis]", "typing_extensions"),  # which it imports, and does not require
    "huey": ("huey", "redis"),
    "taskiq": ("taskiq", "taskiq-redis"),
    "streaq": ("streaq",),
    "pydocket": ("pydocket",),
    "procrastinate": ("procrastinate", "psycopg[binary]"),
    "dbos": ("dbos",),
    "bullmq": ("bullmq", "ioredis"),  # by npm
}

NOT_PLAYED = {
    "Hatchet": "its engine is a server of its own, as a container image or Go program; "
    "no package registry of Python, Node or Debian has it",
    "BullMQ with groups": "groups are in BullMQ Pro only, which is sold",
}
