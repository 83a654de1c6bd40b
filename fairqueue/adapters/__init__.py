"""What the integration of a framework needs, beside what users import from ``fairqueue``.

Before a publish
    Call, named_workspace      a call of a task, and the workspace that it names
    looked_for                 where a workspace was looked for that was not found
    Source, check_sources      one item of ``workspace_from``; checks ``workspace_from`` at start-up
    current_workspace          the workspace of the surrounding block or running job
    parent_fence               the fence that a publish of the running job depends on
    workspace_or_current,      for what must not be lost: falls back to the workspace of the
    publish_or_default           running job, or the default one
    publish_until_answered     for what follows from a job: tries again while the store is away
    check_on_unavailable       checks the option ``on_unavailable``
    new_job_id                 a random job id
    job_ids, message_id_of     the ids that the job of a framework's message may have, and back
    UniqueOutcomes             what became of publishes under a unique key
    translate_errors           raises the core's errors as the adapter's own subclasses
    translated_redis_errors    raises redis-py's errors as the core's, with the remedy
    remedy_of                  what to do about a refusal of Redis, such as one that is full
    Batches, Batch, Collected  collect publishes, and send them together; one of them

In a worker
    LeaseKeeper                renews leases and reports lost and cancelled ones
    wrong_kind                 which field of a message is of a wrong type
    early_seconds              how long before its end no run begins on a lease
    ClaimAhead                 how many jobs to claim before a slot is free for them
    Waiter                     a wait for jobs that an event loop can watch
    Claimed, Finish, Ending    the reply to a claim; how a job ended
    Tracing, TracedDelivery,   spans of OpenTelemetry: what is said of a job, and the span of
      TracedRun                  its run
    run_context                declares the job that runs here
    running_job                that job, and never a stand-in
    end_steps                  drops the steps of a task that has ended well, and counts them
    wake_parent, PARENT        tells the parent of a child that this has ended, and what names it
    Child, Ended,              a child of a running task, its end, and after how long its parent
      POLL_SECONDS               looks by itself
    mark_body                  makes a task's function record when it begins and returns
    UnknownTaskBackoff,        when to retry a job whose task this worker does not know, and the
    UNKNOWN_TASK                 reason of its dead letter when it gives up
    failure_reason             the reason of a dead letter, from an error
    ChildWaits                 what this process has sent; warns of a job that waits for one of
                                 these which has no slot meanwhile
    Chores                     a thread of a worker for what it does now and then, such as:
    FailureReporter            reports jobs that died or expired without the framework's knowledge
    lost_worker_message        what to say of a job whose every start ended in a lost worker
    SilenceWatch               lets go of a store that is silent while a worker stops
    settings_summary           the line that a worker logs when it starts
    SOCKET_TIMEOUT_SECONDS     how long a connection waits for a silent store by default
    is_resolved_at_connect,    a URL whose server is found at each connect (Sentinels, Cluster),
      resolving_pool,            redis-py's pool of connections that do so, and their classes
      resolving_connections
    is_cluster                 a URL that names the nodes of a Redis Cluster
    following_primary,         redis-py's connections that leave a server that has stepped down,
      following_client           and a client of redis-py over such connections

Where a task runs without a queue
    run_stand_in, stand_in_for    what ``fairqueue.current()`` gives there

In a web process
    Ticket                     a place for one request, or a turn to get one, of ``queue.requests``
    JobWatch                   looks what has become of a job

For tools
    Store, Admission, Published, Renewed      the store: one method per operation
    split_settings, mask_password             read a URL, and show it
    check_name, load_function                 check a name; import ``package.module:function``
    similar_names                             names of workspaces that differ only in case or spaces
    Throttle                                  lets something through once in a while
    needs_extra                               the error of a framework that is not installed
    this_process                              its id, without a system call
    native_lock                               a lock for native threads and greenlets
"""

from __future__ import annotations

from fairqueue._chores import Chores
from fairqueue._context import (
    current_workspace,
    mark_body,
    parent_fence,
    run_context,
    run_stand_in,
    running_job,
    stand_in_for,
    tick_of,
)
from fairqueue._publish.continuation import publish_until_answered
from fairqueue._publish.fallback_workspace import publish_or_default, workspace_or_current
from fairqueue._publish.new_job import check_on_unavailable
from fairqueue._publish.unique_outcomes import UniqueOutcomes, job_ids, message_id_of
from fairqueue._publish.workspace_from import (
    Call,
    Source,
    check_sources,
    looked_for,
    named_workspace,
)
from fairqueue._requests import Ticket
from fairqueue._settings import mask_password, split_settings
from fairqueue._stores.redis.address import (
    is_resolved_at_connect,
    resolving_connections,
    resolving_pool,
)
from fairqueue._stores.redis.cluster import is_cluster
from fairqueue._stores.redis.errors import guarded as translated_redis_errors
from fairqueue._stores.redis.errors import remedy_of
from fairqueue._stores.redis.following import following_client, following_primary
from fairqueue._stores.redis.looking import SOCKET_TIMEOUT_SECONDS
from fairqueue._stores.store import Store
from fairqueue._stores.waiter import Waiter
from fairqueue._threads import native_lock
from fairqueue._tracing import Delivery as TracedDelivery
from fairqueue._tracing import Run as TracedRun
from fairqueue._tracing import Tracing
from fairqueue._types import Admission, Claimed, Ending, Finish, Published, Renewed
from fairqueue._utils import Throttle, load_function, needs_extra, this_process
from fairqueue._validation import check_name, new_job_id, wrong_kind
from fairqueue._worker.child_waits import ChildWaits
from fairqueue._worker.children import POLL_SECONDS, Child, Ended, wake_parent
from fairqueue._worker.claim_ahead import ClaimAhead
from fairqueue._worker.failures import FailureReporter, failure_reason, lost_worker_message
from fairqueue._worker.keeper import LeaseKeeper, early_seconds
from fairqueue._worker.settings_summary import settings_summary
from fairqueue._worker.silence import SilenceWatch
from fairqueue._worker.unknown_task import UNKNOWN_TASK, UnknownTaskBackoff
from fairqueue.adapters.batch import Batch, Batches, Collected
from fairqueue.adapters.error_translation import translate_errors
from fairqueue.messages import PARENT
from fairqueue.operate.similar_names import similar_names
from fairqueue.operate.statuses import Watch as JobWatch
from fairqueue.schedules import Core, Due, Placed, Runner, Schedules, Ticker
from fairqueue.step import end_steps

__all__ = [
    "PARENT",
    "POLL_SECONDS",
    "SOCKET_TIMEOUT_SECONDS",
    "UNKNOWN_TASK",
    "Admission",
    "Batch",
    "Batches",
    "Call",
    "Child",
    "ChildWaits",
    "Chores",
    "ClaimAhead",
    "Claimed",
    "Collected",
    "Core",
    "Due",
    "Ended",
    "Ending",
    "FailureReporter",
    "Finish",
    "JobWatch",
    "LeaseKeeper",
    "Placed",
    "Published",
    "Renewed",
    "Runner",
    "Schedules",
    "SilenceWatch",
    "Source",
    "Store",
    "Throttle",
    "Ticker",
    "Ticket",
    "TracedDelivery",
    "TracedRun",
    "Tracing",
    "UniqueOutcomes",
    "UnknownTaskBackoff",
    "Waiter",
    "check_name",
    "check_on_unavailable",
    "check_sources",
    "current_workspace",
    "early_seconds",
    "end_steps",
    "failure_reason",
    "following_client",
    "following_primary",
    "is_cluster",
    "is_resolved_at_connect",
    "job_ids",
    "load_function",
    "looked_for",
    "lost_worker_message",
    "mark_body",
    "mask_password",
    "message_id_of",
    "named_workspace",
    "native_lock",
    "needs_extra",
    "new_job_id",
    "parent_fence",
    "publish_or_default",
    "publish_until_answered",
    "remedy_of",
    "resolving_connections",
    "resolving_pool",
    "run_context",
    "run_stand_in",
    "running_job",
    "settings_summary",
    "similar_names",
    "split_settings",
    "stand_in_for",
    "this_process",
    "tick_of",
    "translate_errors",
    "translated_redis_errors",
    "wake_parent",
    "workspace_or_current",
    "wrong_kind",
]
