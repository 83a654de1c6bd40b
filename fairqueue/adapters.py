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
    new_job_id                 a random job id
    job_id_ending_in           one that ends in the id of the framework's message
    UniqueOutcomes             what became of publishes under a unique key
    translate_errors           raises the core's errors as the adapter's own subclasses

In a worker
    LeaseKeeper                renews leases and reports lost and cancelled ones
    wrong_kind                 which field of a message is of a wrong type
    early_seconds              how long before its end no run begins on a lease
    ClaimAhead                 how many jobs to claim before a slot is free for them
    Waiter                     a wait for jobs that an event loop can watch
    Claimed, Finish, Ending    the reply to a claim; how a job ended
    run_context                declares the job that runs here
    mark_body                  makes a task's function record when it begins and returns
    UnknownTaskBackoff,        when to retry a job whose task this worker does not know, and the
    UNKNOWN_TASK                 reason of its dead letter when it gives up
    failure_reason             the reason of a dead letter, from an error
    FailureReporter            reports jobs that died or expired without the framework's knowledge
    lost_worker_message        what to say of a job whose every start ended in a lost worker
    SilenceWatch               lets go of a store that is silent while a worker stops
    settings_summary           the line that a worker logs when it starts
    SOCKET_TIMEOUT_SECONDS     how long a connection waits for a silent store by default

For tools
    Store, Admission, Published, Renewed      the store: one method per operation
    split_settings, mask_password             read a URL, and show it
    similar_names                             names of workspaces that differ only in case or spaces
    Throttle                                  lets something through once in a while
"""

from __future__ import annotations

from fairqueue._claim_ahead import ClaimAhead
from fairqueue._context import current_workspace, mark_body, parent_fence, run_context
from fairqueue._continuation import publish_until_answered
from fairqueue._error_translation import translate_errors
from fairqueue._failures import FailureReporter, failure_reason, lost_worker_message
from fairqueue._fallback_workspace import publish_or_default, workspace_or_current
from fairqueue._keeper import LeaseKeeper, early_seconds
from fairqueue._settings import mask_password, split_settings
from fairqueue._settings_summary import settings_summary
from fairqueue._silence import SilenceWatch
from fairqueue._similar_names import similar_names
from fairqueue._stores.redis.address import SOCKET_TIMEOUT_SECONDS
from fairqueue._stores.store import Store
from fairqueue._stores.waiter import Waiter
from fairqueue._types import Admission, Claimed, Ending, Finish, Published, Renewed
from fairqueue._unique_outcomes import UniqueOutcomes, job_id_ending_in
from fairqueue._unknown_task import UNKNOWN_TASK, UnknownTaskBackoff
from fairqueue._utils import Throttle
from fairqueue._validation import new_job_id, wrong_kind
from fairqueue._workspace_from import Call, Source, check_sources, looked_for, named_workspace

__all__ = [
    "SOCKET_TIMEOUT_SECONDS",
    "UNKNOWN_TASK",
    "Admission",
    "Call",
    "ClaimAhead",
    "Claimed",
    "Ending",
    "FailureReporter",
    "Finish",
    "LeaseKeeper",
    "Published",
    "Renewed",
    "SilenceWatch",
    "Source",
    "Store",
    "Throttle",
    "UniqueOutcomes",
    "UnknownTaskBackoff",
    "Waiter",
    "check_sources",
    "current_workspace",
    "early_seconds",
    "failure_reason",
    "job_id_ending_in",
    "looked_for",
    "lost_worker_message",
    "mark_body",
    "mask_password",
    "named_workspace",
    "new_job_id",
    "parent_fence",
    "publish_or_default",
    "publish_until_answered",
    "run_context",
    "settings_summary",
    "similar_names",
    "split_settings",
    "translate_errors",
    "workspace_or_current",
    "wrong_kind",
]
