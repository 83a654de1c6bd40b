"""Makes ``fairqueue://`` known to kombu and Celery without an import of fairqueue_celery.

kombu has no entry-point group for transports, but it loads the group ``kombu.serializers`` before
Celery reads its broker URL. What it loads is star-unpacked into ``register()``; a tuple of Nones
registers no decoder. An exception here would break kombu for the whole environment, so this module
never raises, and it imports neither Celery nor redis nor fairqueue_celery.

kombu loads the transport of a URL at the first publish. That is too late for a group, which has
begun to send its tasks one by one by then, a task that is run eagerly never publishes, and a call
while Redis is away may run its task. So the first group, ``Task.apply`` and ``send_task`` of an app
with such a URL load it.

A plugin of pytest may load it before pytest rewrites the assertions of packages with plugins. This
one has no assertion, and says PYTEST_DONT_REWRITE, so that pytest does not warn of that.

The program ``celery`` loads the commands of all packages at each start, for any broker. So it gets
a stand-in for ``celery fairqueue``, which imports the commands when it is called.
"""

from __future__ import annotations

import functools
import importlib
import sys
from contextlib import suppress
from importlib.abc import MetaPathFinder
from typing import Any

no_serializer = (None, None, "application/x-fairqueue")

SCHEMES = (
    "fairqueue",
    "fairqueues",
    "fairqueue+socket",
    "fairqueue+sentinel",
    "fairqueues+sentinel",
    "fairqueue+cluster",
    "fairqueues+cluster",
    "fairqueue+memory",
)
TRANSPORT = "fairqueue_celery.transport:Transport"


def add_aliases() -> None:
    """Add our schemes to kombu's table of transports."""
    from kombu.transport import TRANSPORT_ALIASES  # noqa: PLC0415 - may fail, see above

    for scheme in SCHEMES:
        TRANSPORT_ALIASES.setdefault(scheme, TRANSPORT)


def __getattr__(name: str) -> Any:
    """Make ``celery_commands``, which needs click: only Celery's program asks for it."""
    if name != "celery_commands":
        raise AttributeError(name)
    import click  # noqa: PLC0415 - see above

    class Commands(click.Command):
        """Becomes the group of commands when it is called."""

        def make_context(self, *args: Any, **options: Any) -> click.Context:
            group: click.Group = importlib.import_module("fairqueue.cli").of_celery
            return group.make_context(*args, **options)

    return Commands("fairqueue", help="See and steer this app's fair queues.")


class _BeforeApps(MetaPathFinder):
    """Finds nothing: it is asked for ``celery.app.base`` when ``celery._state`` is complete."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:  # noqa: ARG002
        if name == "celery.app.base":
            sys.meta_path.remove(self)
            with suppress(Exception):
                _watch_apps(sys.modules["celery._state"])


def _watch_apps(state: Any) -> None:
    """Let every app tell when it has read its settings."""
    register = state._register_app  # noqa: SLF001 - no public hook comes before the first group

    def register_and_watch(app: Any) -> None:
        register(app)
        app.on_after_configure.connect(_watch_calls)

    state._register_app = register_and_watch  # noqa: SLF001


def _watch_calls(source: Any, **_signal: Any) -> None:
    """Let groups, chords, calls and eager runs load the transport of these settings, if it is ours.

    Settings may be read while gevent patches the process, which is too early to load it.
    """
    if any(f"{scheme}://" in str(source.broker_write_url) for scheme in SCHEMES):
        with suppress(Exception):
            canvas = importlib.import_module("celery.canvas")
            _load_before(canvas.group, "_apply_tasks")
            _load_before(canvas._chord, "run")  # noqa: SLF001 - no public hook
            _load_before(importlib.import_module("celery.app.task").Task, "apply")
            _load_before(importlib.import_module("celery.app.base").Celery, "send_task")


def _load_before(owner: Any, name: str) -> None:
    """Let the first call of this method load the transport, which puts its own in place."""
    method = getattr(owner, name)
    if hasattr(method, "of_celery"):
        return  # another app waits for its first call, or the transport has replaced it

    @functools.wraps(method)
    def load_first(self: Any, *args: Any, **options: Any) -> Any:
        if getattr(owner, name) is not load_first:  # it was loaded meanwhile
            return method(self, *args, **options)
        setattr(owner, name, method)
        with suppress(Exception):  # kombu will tell what is wrong
            importlib.import_module(TRANSPORT.partition(":")[0])
        return getattr(owner, name)(self, *args, **options)

    load_first.of_celery = method  # type: ignore[attr-defined]
    setattr(owner, name, load_first)


with suppress(Exception):
    add_aliases()
    sys.meta_path.insert(0, _BeforeApps())
