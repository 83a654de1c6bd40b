"""Calls of one task that are sent together: Celery makes the first message, the others are filled.

Messages of one task with the same options differ in their ids, their arguments and the texts of
these. A template is Celery's own message with holes there. It is used only if it gives that message
back, character by character, and if no one could notice (``unwatched``).
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, NamedTuple

from celery.backends.base import Backend
from celery.utils import uuid
from celery.utils.saferepr import saferepr

from fairqueue import NewJob, adapters
from fairqueue_celery._publish import unwatched
from fairqueue_celery._publish.batch import batches
from fairqueue_celery._publish.call import Call, forget_call
from fairqueue_celery._publish.publish import (
    child_waits,
    encoded,
    follows_from_job,
    next_delivery_tag,
    workspace_or_default,
)

logger = logging.getLogger("fairqueue_celery.publish")

OF_EACH_CALL = frozenset({"task_id", "group_index", "add_to_parent"})
SCALARS = frozenset({str, int, bool, type(None)})
NUMBERS = frozenset({int, float, bool, type(None)})

HOLE = secrets.token_hex(16)
HOLES = re.compile(f'"{HOLE}([a-z_]+)"')

Apply = Callable[..., Any]


def adapt(task_class: Any) -> None:
    """Let calls inside a batch be filled in."""
    own: Apply = task_class.apply_async

    @wraps(own)
    def apply_async(
        self: Any, args: Any = None, kwargs: Any = None, *more: Any, **options: Any
    ) -> Any:
        batch = batches.active
        if more or batch is None:
            return own(self, args, kwargs, *more, **options)
        return _apply(batch, own, self, args or (), kwargs or {}, options)

    apply_async.adapted_by_fairqueue = True  # type: ignore[attr-defined]
    task_class.apply_async = apply_async


def _apply(
    batch: adapters.Batch, own: Apply, task: Any, args: Any, kwargs: Any, options: dict[str, Any]
) -> Any:
    """Fill in the template of this kind of call, or let Celery make the message."""
    kind = _kind(task, options)
    if kind is None or type(args) not in {tuple, list} or type(kwargs) is not dict:
        return own(task, args, kwargs, **options)
    options["task_id"] = options.get("task_id") or uuid()
    if kind in batch.kept:
        template = batch.kept[kind]
        if template is not None and template.send(batch, args, kwargs, options):
            return template.result(options) if _is_asked_for(batch, task, options) else None
        return own(task, args, kwargs, **options)
    result = own(task, args, kwargs, **options)
    batch.kept[kind] = _template(batch, own, task, args, kwargs, options, result)
    return result


def _is_asked_for(batch: adapters.Batch, task: Any, options: Mapping[str, Any]) -> bool:
    """Whether anyone sees the result of the call; a group has its own, from before."""
    is_of_group = batch.group is not None and options.get("producer") is not None
    return not (is_of_group and hasattr(type(task).apply_async, "adapted_by_fairqueue"))


def _kind(task: Any, options: Mapping[str, Any]) -> Any:
    """What calls must share to share a template; None: this one has a message of its own.

    A signal that is followed from now on makes it another kind.
    """
    parent = task.app.current_worker_task
    within = None if parent is None else (parent.request.id, parent.request.root_id)
    if parent is not None and options.get("add_to_parent", True):
        return None  # the trail of the running task has its result
    kind: list[Any] = [task, options.get("producer"), threading.get_ident(), within]
    kind += [len(signal.receivers or ()) for signal in unwatched.OBSERVED]
    for name, value in options.items():
        if name in OF_EACH_CALL or name == "producer":
            continue
        if name == "chord" and value is not None:
            kind.append(("chord", id(value)))  # the calls of one header have the same
        elif type(value) in SCALARS:
            kind.append((name, type(value), value))
        else:
            return None
    return tuple(kind)


def _template(
    batch: adapters.Batch,
    own: Apply,
    task: Any,
    args: Any,
    kwargs: Any,
    options: dict[str, Any],
    result: Any,
) -> Template | None:
    """The template of the message that was just collected, or None, with a debug line."""
    sent, why = batch.latest, next(unwatched.reasons(own, task, options), None)
    if why is None and (sent is None or sent.name != options["task_id"]):
        why = "the first was not collected"
    elif why is None and sent is not None:
        why = _needs_more_than_a_template(sent)
        template = None if why else Template.of(sent, task, args, kwargs, options, result)
        if template is not None:
            return template
        why = why or "the message has another form"
    logger.debug("Celery makes each message of task %s in this batch: %s", task.name, why)
    return None


def _needs_more_than_a_template(sent: adapters.Collected) -> str | None:
    if sent.core.tracing.is_on:
        return "publishes are traced"
    if sent.admission.exempt:
        return "it follows from a job"
    timed = sent.job.delay_seconds or sent.job.expires_seconds is not None
    return "it has a time" if timed else None


class Template(NamedTuple):
    """Celery's message of one kind of call, and what it takes to send another."""

    text: str
    """With a place for each of ``_values``, in the format of ``%``."""
    first: adapters.Collected
    headers: Mapping[str, Any]
    tail: str
    """The body after the arguments."""
    has_own_root: bool
    """The root is the task itself."""
    encodes_body: bool
    task: Any
    amqp: Any
    producer: Any
    chord: Any
    """Kept, for its id is a part of the kind."""
    first_result: Any

    @classmethod
    def of(
        cls,
        sent: adapters.Collected,
        task: Any,
        args: Any,
        kwargs: Any,
        options: Mapping[str, Any],
        result: Any,
    ) -> Template | None:
        """None: the message is not as it is expected to be."""
        stored = sent.job.payload.decode()
        message = json.loads(stored)
        headers, properties = message["headers"], message["properties"]
        encodes_body = properties.get("body_encoding") == "base64"
        body = b64decode(message["body"]).decode() if encodes_body else message["body"]
        start, own_root = _arguments(args, kwargs), not options.get("root_id")
        has_own_root = own_root and headers["root_id"] == headers["id"]
        tag = properties["delivery_tag"]
        message["body"] = f"{HOLE}body"
        properties |= {"correlation_id": f"{HOLE}id", "delivery_tag": f"{HOLE}tag"}
        holes = dict.fromkeys(("id", "group_index", "argsrepr", "kwargsrepr"))
        message["headers"] = headers | {name: f"{HOLE}{name}" for name in holes}
        if has_own_root:
            message["headers"]["root_id"] = f"{HOLE}id"
        text = HOLES.sub(r"%(\1)s", encoded(message).replace("%", "%%"))
        template = cls(
            text,
            sent,
            headers,
            body.removeprefix(start),
            has_own_root,
            encodes_body,
            task,
            task.app.amqp,
            options.get("producer"),
            options.get("chord"),
            result,
        )
        filled, _ = template.fill(args, kwargs, options, tag)
        return template if filled == stored else None

    def send(
        self, batch: adapters.Batch, args: Any, kwargs: Any, options: Mapping[str, Any]
    ) -> bool:
        """Collect another call; False: Celery must, for what it says or raises."""
        first, task_id = self.first, options["task_id"]
        core = first.core
        if not isinstance(task_id, str) or follows_from_job(self.headers, core):
            return False
        try:
            if self.task.typing:
                self.task.__header__(*args, **kwargs)
            text, headers = self.fill(args, kwargs, options, next_delivery_tag())
        except Exception:  # noqa: BLE001 - raised again by Celery
            return False
        batch.begin()
        call = Call(self.task.name, args, kwargs, headers, headers)
        workspace = workspace_or_default(call, core, must_publish=False)
        self._tell_backend(task_id)
        job_id, other_id = adapters.job_ids(task_id)
        job = NewJob(
            text.encode(),
            first.job.queue,
            workspace,
            first.job.task,
            first.job.priority,
            job_id=job_id,
            other_id=other_id,
            group=first.admission.group,
            parent_fence=adapters.parent_fence(core.store),
            on_unavailable=first.admission.on_unavailable,
        )

        where = workspace, job.queue, job.task
        stored = partial(child_waits.published, core, task_id, *where)
        batch.add(core, job, name=task_id, stored=stored)
        forget_call()
        return True

    def fill(
        self, args: Any, kwargs: Any, options: Mapping[str, Any], tag: str
    ) -> tuple[str, dict[str, Any]]:
        """The message of a call, and its headers."""
        task_id, amqp = options["task_id"], self.amqp
        own = {
            "id": task_id,
            "group_index": options.get("group_index"),
            "argsrepr": self._shown(args, amqp.argsrepr_maxsize),
            "kwargsrepr": self._shown(kwargs, amqp.kwargsrepr_maxsize),
        }
        body = _arguments(args, kwargs) + self.tail
        if self.encodes_body:
            body = b64encode(body.encode()).decode()
        values = {
            "body": quoted(body),
            "id": quoted(task_id),
            "group_index": encoded(own["group_index"]),
            "argsrepr": quoted(own["argsrepr"]),
            "kwargsrepr": quoted(own["kwargsrepr"]),
            "tag": quoted(tag),
        }
        if self.has_own_root:
            own["root_id"] = task_id
        return self.text % values, {**self.headers, **own}

    def _shown(self, value: Any, most: int) -> str:
        """What Celery shows of arguments; of plain ones that is what Python does, and quicker."""
        if _is_plain(value):
            text = repr(value)
            if len(text) < most:
                return text
        deepest = self.task.app.conf.get("task_repr_maxlevels", 3)
        return str(saferepr(value, most, deepest))

    def _tell_backend(self, task_id: str) -> None:
        """Celery does it before each publish whose result is wanted."""
        app = self.task.app
        if self.headers.get("ignore_result") or not _listens(app.backend):
            return
        acquired = app.producer_or_acquire(self.producer)
        with acquired as producer, producer.connection._reraise_as_library_errors():  # noqa: SLF001
            app.backend.on_task_call(producer, task_id)

    def result(self, options: Mapping[str, Any]) -> Any:
        """What the call returns."""
        result = self.task.AsyncResult(options["task_id"])
        result.ignored = self.first_result.ignored
        return result


def _arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """How the body begins."""
    return f"{encoded((args, kwargs))[:-1]}, "


def _listens(backend: Any) -> bool:
    return type(backend).on_task_call is not Backend.on_task_call


def _is_plain(value: Sequence[Any] | Mapping[str, Any]) -> bool:
    """Whether it holds only numbers and simple text: Celery quotes other text in its own way."""
    if isinstance(value, dict):
        return all(map(_is_plain_item, value)) and all(map(_is_plain_item, value.values()))
    return all(map(_is_plain_item, value))


def _is_plain_item(item: Any) -> bool:
    if type(item) is str:
        return item.isprintable() and "'" not in item and "\\" not in item
    return type(item) in NUMBERS
