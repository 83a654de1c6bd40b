"""What the integration of a framework needs, beside what users import from ``fairqueue``.

Publishing: the workspace of a call (``Call``, ``workspace_of``), ids (``job_ids``), the
batches, what must not be lost (``workspace_or_current``, ``publish_until_answered``), and errors as
the framework lets them through (``translate_errors``). A worker: leases (``ClaimAhead``,
``LeaseKeeper``, ``Finish``), the running job (``run_context``, ``mark_body``), children, and what
goes on beside (``Chores``, ``FailureReporter``, ``Ticker``). A web process: ``JobWatch``.
Connections to Redis as the core makes them, and small tools.
"""

from __future__ import annotations

from fairqueue._background import BackgroundLoop as BackgroundLoop
from fairqueue._chores import Chores as Chores
from fairqueue._context import current_workspace as current_workspace
from fairqueue._context import direct_calls as direct_calls
from fairqueue._context import enter_run as enter_run
from fairqueue._context import leave_run as leave_run
from fairqueue._context import mark_body as mark_body
from fairqueue._context import parent_fence as parent_fence
from fairqueue._context import run_context as run_context
from fairqueue._context import run_stand_in as run_stand_in
from fairqueue._context import running_job as running_job
from fairqueue._context import tick_of as tick_of
from fairqueue._publish.framework_ids import job_ids as job_ids
from fairqueue._publish.framework_ids import message_id_of as message_id_of
from fairqueue._publish.must_publish import publish_until_answered as publish_until_answered
from fairqueue._publish.must_publish import workspace_or_current as workspace_or_current
from fairqueue._publish.new_job import check_on_unavailable as check_on_unavailable
from fairqueue._publish.workspace_from import Call as Call
from fairqueue._publish.workspace_from import Source as Source
from fairqueue._publish.workspace_from import check_sources as check_sources
from fairqueue._publish.workspace_from import expected_workspace as expected_workspace
from fairqueue._publish.workspace_from import workspace_of as workspace_of
from fairqueue._publish.workspace_from import workspace_to_publish as workspace_to_publish
from fairqueue._settings import mask_password as mask_password
from fairqueue._settings import split_settings as split_settings
from fairqueue._shards.placement import SHARDS_MOST as SHARDS_MOST
from fairqueue._stores import BROKER_SCHEMES as BROKER_SCHEMES
from fairqueue._stores.redis.address import following_client as following_client
from fairqueue._stores.redis.address import following_primary as following_primary
from fairqueue._stores.redis.address import is_resolved_at_connect as is_resolved_at_connect
from fairqueue._stores.redis.address import resolving_connections as resolving_connections
from fairqueue._stores.redis.address import resolving_pool as resolving_pool
from fairqueue._stores.redis.cluster import is_cluster as is_cluster
from fairqueue._stores.redis.errors import remedy_of as remedy_of
from fairqueue._stores.redis.errors import translated_redis_errors as translated_redis_errors
from fairqueue._stores.redis.looking import CREDENTIALS as CREDENTIALS
from fairqueue._stores.redis.looking import SOCKET_TIMEOUT_SECONDS as SOCKET_TIMEOUT_SECONDS
from fairqueue._stores.redis.looking import load_credentials as load_credentials
from fairqueue._stores.replies import rejected as rejected
from fairqueue._stores.replies import released as released
from fairqueue._stores.store import Store as Store
from fairqueue._stores.waiter import Waiter as Waiter
from fairqueue._threads import native_lock as native_lock
from fairqueue._tracing import TracedDelivery as TracedDelivery
from fairqueue._tracing import TracedRun as TracedRun
from fairqueue._tracing import Tracing as Tracing
from fairqueue._types import Admission as Admission
from fairqueue._types import Claimed as Claimed
from fairqueue._types import Ending as Ending
from fairqueue._types import Finish as Finish
from fairqueue._types import Renewed as Renewed
from fairqueue._utils import Throttle as Throttle
from fairqueue._utils import load_function as load_function
from fairqueue._utils import needs_extra as needs_extra
from fairqueue._utils import this_process as this_process
from fairqueue._validation import check_name as check_name
from fairqueue._validation import new_job_id as new_job_id
from fairqueue._validation import plain_str as plain_str
from fairqueue._validation import seconds_from_zero as seconds_from_zero
from fairqueue._validation import wrong_kind as wrong_kind
from fairqueue._worker.child_waits import ChildWaits as ChildWaits
from fairqueue._worker.children import POLL_SECONDS as POLL_SECONDS
from fairqueue._worker.children import Child as Child
from fairqueue._worker.children import Ended as Ended
from fairqueue._worker.children import wake_parent as wake_parent
from fairqueue._worker.claim_ahead import ClaimAhead as ClaimAhead
from fairqueue._worker.failures import FailureReporter as FailureReporter
from fairqueue._worker.failures import failure_reason as failure_reason
from fairqueue._worker.failures import lost_worker_message as lost_worker_message
from fairqueue._worker.keeper import LeaseKeeper as LeaseKeeper
from fairqueue._worker.keeper import early_seconds as early_seconds
from fairqueue._worker.settings_summary import settings_summary as settings_summary
from fairqueue._worker.unknown_task import UNKNOWN_TASK as UNKNOWN_TASK
from fairqueue._worker.unknown_task import UnknownTaskBackoff as UnknownTaskBackoff
from fairqueue.adapters.batch import Batch as Batch
from fairqueue.adapters.batch import Batches as Batches
from fairqueue.adapters.batch import Collected as Collected
from fairqueue.adapters.error_translation import translate_errors as translate_errors
from fairqueue.messages import PARENT as PARENT
from fairqueue.operate.statuses import JobWatch as JobWatch
from fairqueue.schedules import Core as Core
from fairqueue.schedules import Due as Due
from fairqueue.schedules import Placed as Placed
from fairqueue.schedules import Runner as Runner
from fairqueue.schedules import Schedules as Schedules
from fairqueue.schedules import Ticker as Ticker
from fairqueue.step import end_steps as end_steps
