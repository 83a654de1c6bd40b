"""From a message to a job in the core: its workspace, its delay, and whether it may be refused."""

from __future__ import annotations

import logging
import secrets
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from itertools import count
from typing import Any

from kombu.serialization import dumps, registry
from kombu.serialization import loads as deserialize
from kombu.utils import json as kombu_json

from fairqueue import FairQueue, JobContext, JobId, NewJob, Outcome, StoreUnavailable, adapters
from fairqueue.adapters import Source
from fairqueue_celery._publish.batch import batches, block_seconds, named, until_answered
from fairqueue_celery._publish.call import (
    EXPLICIT,
    Call,
    first_of_chord,
    is_first_try,
    noted_call,
)
from fairqueue_celery._publish.unavailable import on_unavailable, run_inline_after
from fairqueue_celery._publish.unique import Unique, key_of, without_key
from fairqueue_celery.errors import let_through

logger = logging.getLogger("fairqueue_celery.publish")

TAG_PREFIX = f"{secrets.token_hex(8)}."
_tags = count()

JSON = "application/json"

child_waits = adapters.ChildWaits()
"""What this process has sent, by task ids."""

CHORD_UNLOCK = "celery.chord_unlock"
"""It publishes the body of a chord, where the result backend does not count the header's parts."""

HOUSEKEEPING = frozenset({"celery.backend_cleanup", CHORD_UNLOCK})
"""Tasks that Celery publishes for itself: ``workspace_from`` does not know their arguments."""

encoded = kombu_json.JSONEncoder().encode
"""What kombu's own dumps() does, without making an encoder for each message."""


@dataclass(slots=True)
class Publication(NewJob):
    """The job of one message, and what else is known of it."""

    workspace: str | None = None
    task_id: str = ""
    is_child: bool = False
    """The task that runs here sends it with ``step.send``, maybe again."""
    canvas: str | None = None
    """The id of its group or chord; ``group`` is another one where a batch sends it."""


def next_delivery_tag() -> str:
    """Unique like stock's UUID, for those that read the message elsewhere; made faster."""
    return f"{TAG_PREFIX}{adapters.this_process.pid:x}.{next(_tags):x}"


def dumped(body: Any, serializer: str | None) -> tuple[str, str, str | bytes]:
    """The content type, the encoding and the text of a body, as kombu's own dumps gives them."""
    if serializer == "json" and uses_own_json():
        try:
            return JSON, "utf-8", encoded(body)
        except Exception:  # noqa: BLE001, S110 - kombu raises its own
            pass
    kind, encoding, text = dumps(body, serializer=serializer)
    return kind, encoding, text


def uses_own_json() -> bool:
    """Whether kombu's JSON is what an app gets, and not another that took its name."""
    return registry._encoders["json"][2] is kombu_json.dumps  # noqa: SLF001


def publish(
    core: FairQueue,
    queue: str,
    message: dict[str, Any],
    *,
    priority: int,
    stored: Callable[[], object] = lambda: None,
) -> None:
    """Enqueue one message as a job, or add it to the batch that collects here.

    Raises CapacityExceeded if it is refused. ``stored`` is called once it is stored.
    """
    job = describe(message, core, queue, priority)
    collected = _is_collected(job)
    with core.tracing.publishing(
        message["headers"] if "task" in message["headers"] else {},
        queue=queue,
        task=job.task,
        workspace=job.workspace,
        message_id=job.task_id,
        is_collected=collected,
    ):
        job.payload = encoded(without_key(message)).encode()
        (_collect if collected else _send)(core, job, stored)


def _stored(
    core: FairQueue, job: Publication, stored: Callable[[], object], stored_job: JobId
) -> None:
    stored()
    where, keyed = (job.workspace, job.queue), job.unique_key is not None
    child_waits.published(core, job.task_id, *where, job.task, stored_job, keyed=keyed)
    if job.canvas and stored_job.outcome is Outcome.EXISTING:
        logger.warning(
            "task %r of group %s was not sent, since task %s has its unique_key %r: the group "
            "never completes, and the callback of its chord never runs",
            job.task,
            job.canvas,
            adapters.message_id_of(stored_job),
            job.unique_key,
        )


def job_of(result: Any) -> str:
    """The id under which ``queue.job`` finds what this process has just sent, given its result.

    It is the task's own id, unless another job had that when it was sent.
    """
    return child_waits.job_of(getattr(result, "id", result))


def unique_outcome(result: Any) -> Unique | None:
    """What became of an ``apply_async(unique_key=…)`` of this process, given its result or id.

    If the outcome is ``existing``, nothing was sent and that result will never arrive: use
    ``task_id`` instead. None: it had no key, or 1,000 others with a key came after it.
    """
    found = child_waits.unique(getattr(result, "id", result))
    return None if found is None else Unique(*found)


def _is_collected(job: Publication) -> bool:
    """Whether a batch waits for it; a retry would be lost with a block that it leaves."""
    batch = batches.active
    return batch is not None and (batch.group is not None or not job.exempt)


def _collect(core: FairQueue, job: Publication, stored: Callable[[], object]) -> None:
    batch = batches.active
    if batch is not None:
        batch.add(core, job, name=job.task_id, stored=partial(_stored, core, job, stored))


def _send(core: FairQueue, job: Publication, stored: Callable[[], object]) -> None:
    follows = job.exempt and adapters.running_job(core.store) is not None
    if follows:
        job.job_id = job.job_id or adapters.new_job_id()  # the same for each try

    def publish_job() -> JobId:
        is_new = job.job_id is None or is_first_try(job.queue, job.job_id)
        is_new = is_new and not job.is_child
        return core.publish_job(job, is_new=is_new, block_seconds=block_seconds(core))

    with let_through:
        try:
            done = until_answered(publish_job, named(job.task)) if follows else publish_job()
        except StoreUnavailable as error:
            run_inline_after(error, core.settings)
            raise
        _stored(core, job, stored, done)


def is_task(message: Mapping[str, Any]) -> bool:
    """Whether a message is a task: protocol 2 says so in a header, protocol 1 in the body."""
    headers = message["headers"]
    return "task" in headers or noted_call(headers) is not None


def describe(
    message: Mapping[str, Any], core: FairQueue, queue: str = "", priority: int = 0
) -> Publication:
    """Read a job from a message, without its payload; raises WorkspaceUnresolved."""
    noted = noted_call(message["headers"])
    call, publish_id = noted or (foreign_call(message, core.settings.workspace_from), None)
    running = adapters.running_job(core.store)
    exempt, is_child = _is_exempt(call.fields, running), _is_child(call.fields, running)
    task_id, job_id, other_id = adapters.plain_str(call.fields.get("id") or ""), None, None
    goes_on = running is not None and _goes_on(call.fields)
    if publish_id is not None:
        job_id, other_id = adapters.job_ids(task_id, start=publish_id)
        if goes_on:
            job_id = other_id or job_id
        if goes_on or is_child:
            other_id = None
    unique_key, unique_for = key_of(message)
    group = _group(call)
    return Publication(
        b"",
        queue,
        _workspace(call, core, exempt=exempt),
        call.task,
        priority,
        seconds_until(call.fields.get("eta")) or 0.0,
        job_id,
        exempt,
        group,
        running.fence if running is not None and running.redeliverable else None,
        seconds_until(call.fields.get("expires")),
        unique_key,
        unique_for,
        running.fence if running is not None and goes_on else None,
        other_id,
        adapters.tick_of(task_id),
        on_unavailable(core.settings),
        task_id,
        is_child,
        group,
    )


def _workspace(call: Call, core: FairQueue, *, exempt: bool) -> str | None:
    find = partial(workspace_or_default, call, core, must_publish=exempt)
    return adapters.workspace_or_current(named(call.task), find) if exempt else find()


def workspace_or_default(call: Call, core: FairQueue, *, must_publish: bool) -> str | None:
    """None: for the default one, after the setting on_missing_workspace was applied."""
    settings = core.settings
    if call.task in HOUSEKEEPING:
        of_chord = first_of_chord() if call.task == CHORD_UNLOCK else None
        of_user = of_chord and adapters.workspace_of(of_chord, settings.workspace_from)
        return of_user or adapters.workspace_of(call, ()) or settings.default_workspace
    missing = core.missing_workspace
    return adapters.workspace_to_publish(call, settings, missing, must_publish=must_publish)


def follows_from_job(fields: Mapping[str, Any], core: FairQueue) -> bool:
    """Whether a job of this core's store runs here, and this call is its retry or continuation."""
    running = adapters.running_job(core.store)
    return running is not None and _is_exempt(fields, running)


def _is_exempt(fields: Mapping[str, Any], running: JobContext | None) -> bool:
    """Retries, replacements and what follows a task's body: Celery would lose them if refused.

    Headers alone cannot tell a continuation from a user's own publish inside a task.
    """
    if running is not None and running.body_returned:
        return True
    return _goes_on(fields) or _is_child(fields, running)


def _goes_on(fields: Mapping[str, Any]) -> bool:
    return bool(fields.get("retries") or fields.get("replaced_task_nesting"))


def _is_child(fields: Mapping[str, Any], running: JobContext | None) -> bool:
    """Whether ``step.send`` sends it; a child that retries or is replaced has the header, too."""
    if running is None or running.body_returned:
        return False
    return adapters.PARENT in fields and not _goes_on(fields)


def _group(call: Call) -> str | None:
    """The group that is admitted whole; of a chain inside one, only the last task carries it."""
    group = call.fields.get("group")
    if not group and call.chain:
        options = call.chain[0].get("options") or {}
        group = options.get("group_id")
    return str(group) if group else None


def are_headers(sources: Sequence[Source]) -> bool:
    """Whether a message's headers say its workspace, so that its body need not be read."""
    return all(isinstance(source, str) and source.startswith("header:") for source in sources)


def foreign_call(message: Mapping[str, Any], sources: Sequence[Source]) -> Call:
    """The call inside a message that this process did not make itself."""
    headers = _named_headers(message)
    if "task" in headers and are_headers(sources):
        return Call(str(headers["task"]), (), {}, headers, headers)
    body = json_body(message)
    if isinstance(body, dict) and "task" not in headers:  # protocol 1
        args, kwargs, fields = body.get("args"), body.get("kwargs"), body
    else:
        args, kwargs = body[:2] if isinstance(body, list) and len(body) > 1 else ((), {})
        fields = headers
    return Call(
        str(fields.get("task") or ""),
        args if isinstance(args, list) else (),
        kwargs if isinstance(kwargs, dict) else {},
        headers,
        fields,
    )


def _named_headers(message: Mapping[str, Any]) -> dict[str, Any]:
    """The headers; the option ``workspace`` of a producer without fairqueue is a property."""
    headers, workspace = message["headers"], message["properties"].get(EXPLICIT)
    return headers if workspace is None else {**headers, EXPLICIT: workspace}


def json_body(message: Mapping[str, Any]) -> Any:
    """The value of a JSON body; None for any other body, which is not decoded."""
    if message.get("content-type") != JSON or message["headers"].get("compression"):
        return None
    try:
        body = message["body"]
        if message["properties"].get("body_encoding") == "base64":
            body = b64decode(body)
        return deserialize(body, JSON, message.get("content-encoding"), force=True)
    except Exception:  # noqa: BLE001 - a foreign message that cannot be read goes on unread
        return None


def seconds_until(time: Any, *, ago: float = 0.0) -> float | None:
    """By this process's clock, as it stood ``ago`` seconds earlier; None if it is no time."""
    if not time:
        return None
    when = time if isinstance(time, datetime) else _parsed(str(time))
    if when is None:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=timezone.utc)  # as Celery's worker reads it, in any timezone
    return max(0.0, ago + (when - datetime.now(timezone.utc)).total_seconds())


def _parsed(text: str) -> datetime | None:
    """None if it is no time: the worker that receives it says so, as with any broker."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
