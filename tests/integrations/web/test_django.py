"""Django: the middleware under WSGI and ASGI, on_commit, the settings and the command."""

from __future__ import annotations

import asyncio
import gc
import io
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command, load_command_class
from django.core.management.base import SystemCheckError
from django.http import StreamingHttpResponse

import fairqueue
from fairqueue import CapacityExceeded, FairQueue
from fairqueue.adapters import current_workspace
from fairqueue_web._visit import Visit
from fairqueue_web.django import conf, on_commit
from fairqueue_web.django.middleware import _end_with
from tests.integrations.web import django_site
from tests.system.ledger import wait_for

django_site.configure()

from django.db import connection, transaction  # noqa: E402
from django.test import AsyncClient, Client, override_settings  # noqa: E402

BY_HEADER = {"workspace_from": ["header:X-Org"]}


@pytest.fixture(autouse=True)
def _database() -> Iterator[None]:
    """A table, and no connection left."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS t (n int)")
    yield
    connection.close()


def get(path: str, workspace: str | None = "acme", **options: Any) -> Any:
    """One request under WSGI, with these options in the setting FAIRQUEUE."""
    headers = {} if workspace is None else {"HTTP_X_ORG": workspace}
    with override_settings(FAIRQUEUE={**BY_HEADER, **options}):
        return Client(raise_request_exception=False).get(path, **headers)


def get_async(path: str, workspace: str = "acme", **options: Any) -> Any:
    """One request under ASGI."""
    with override_settings(FAIRQUEUE={**BY_HEADER, **options}):
        return asyncio.run(AsyncClient().get(path, headers={"X-Org": workspace}))


def shared(queue: FairQueue) -> dict[str, Any]:
    """The setting for this queue, which is in the memory of this process."""
    return {"url": "memory://", "namespace": queue.settings.namespace}


@pytest.mark.parametrize("path", ["/whose", "/whose-async"])
@pytest.mark.parametrize("ask", [get, get_async])
def test_views_run_in_the_workspace_of_their_request(path: str, ask: Any) -> None:
    """Both kinds, under WSGI and ASGI; afterwards it is over."""
    assert ask(path).content == b"acme"
    assert current_workspace() is None


def test_a_request_without_an_answer_is_as_without_the_middleware() -> None:
    """Unless a workspace is required."""
    assert get("/whose", None).content == b"None"
    assert get("/whose", None, require_workspace=True).status_code == 400


def test_the_user_names_the_workspace() -> None:
    """That AuthenticationMiddleware has found; an anonymous one names none."""
    assert get("/whose", workspace_from="user:org.id").content == b"None"
    user = SimpleNamespace(org=SimpleNamespace(id=7), is_authenticated=True)
    found = get("/whose", workspace_from=lambda request: user.org.id)
    assert found.content == b"7"


@pytest.mark.parametrize("ask", [get, get_async])
def test_rejections_are_answered(ask: Any, queue: FairQueue, full: CapacityExceeded) -> None:
    """A publish of a view, and a request without a place."""
    django_site.RAISED.append(full)
    rejected = ask("/fail")
    assert (rejected.status_code, int(rejected["Retry-After"]) >= 1) == (429, True)
    with queue.requests.admit("acme"):
        assert ask("/whose", **shared(queue)).status_code == 429
        assert ask("/whose", "other", **shared(queue)).content == b"other"


def test_other_errors_are_djangos(queue: FairQueue) -> None:
    """And keep no place."""
    django_site.RAISED.append(ZeroDivisionError())
    assert get("/fail", **shared(queue)).status_code == 500
    assert queue.requests.in_flight("acme") == (0, 0, 0)


def test_a_body_is_streamed_in_the_workspace_and_keeps_the_place(queue: FairQueue) -> None:
    """Until Django closes the response."""
    response = get("/stream", **shared(queue))
    assert queue.requests.in_flight("acme") == (1, 1, 0)
    assert b"".join(response.streaming_content) == b"acme acme "
    response.close()
    assert queue.requests.in_flight("acme") == (0, 0, 0)


async def read(queue: FairQueue, path: str) -> tuple[bytes, int]:
    """Read a streamed body under ASGI; how many requests were in flight before that."""
    response: Any = await AsyncClient().get(path, headers={"X-Org": "acme"})
    held, parts = queue.requests.in_flight("acme")[1], response.streaming_content
    return b"".join([part async for part in parts] if response.is_async else parts), held


@pytest.mark.parametrize("path", ["/stream", "/stream-async"])
def test_a_body_is_streamed_so_under_asgi(queue: FairQueue, path: str) -> None:
    """Of both kinds. Django does not close the response of a body that it cannot send."""

    async def serve() -> None:
        assert await read(queue, path) == (b"acme acme ", 1)
        with pytest.raises(ZeroDivisionError):
            await read(queue, f"{path}?fails")
        gc.collect()

    with override_settings(FAIRQUEUE={**BY_HEADER, **shared(queue)}):
        asyncio.run(serve())
        wait_for(lambda: queue.requests.in_flight("acme") == (0, 0, 0))
        conf.front_door().close()


def test_a_response_that_was_not_sent_ends_its_visit_without_a_lock() -> None:
    """The garbage collector may find it inside a call that holds the lock that an end takes.

    One that was closed is not ended again.
    """
    lock, ended = threading.Lock(), list[bool]()
    closed, lost = StreamingHttpResponse([b""]), StreamingHttpResponse([b""])
    for each in (closed, lost):
        _end_with(each, Visit("acme", lambda: ended.append(lock.acquire(timeout=5))))
    closed.close()
    del closed, lost, each
    gc.collect()
    lock.release()
    wait_for(lambda: len(ended) > 1)
    assert ended == [True, True]


@pytest.mark.parametrize("ask", [get, get_async])
def test_the_admin_is_left_alone(ask: Any, queue: FairQueue) -> None:
    """Its pages need no workspace and no place, wherever they are mounted."""
    options = {**shared(queue), "require_workspace": True, "workspace_from": []}
    assert ask("/whose", **options).status_code == 400
    assert ask("/back-office/login/", **options).status_code == 200


def test_a_publish_waits_for_the_commit() -> None:
    """It runs in the workspace in which it was asked for; after a rollback, never."""
    seen: list[str | None] = []

    def publish() -> None:
        seen.append(current_workspace())

    with transaction.atomic():
        with fairqueue.workspace("acme"):
            on_commit(publish)
        on_commit(publish)
        assert seen == []
    assert seen == ["acme", None]
    with fairqueue.workspace("b"):
        on_commit(publish)
    assert seen == ["acme", None, "b"]
    with transaction.atomic():
        on_commit(publish)
        transaction.set_rollback(True)
    assert len(seen) == 3


def test_the_check_names_a_wrong_setting() -> None:
    """``manage.py check``, and so runserver and migrate, refuse it."""
    call_command("check", stdout=io.StringIO())
    wrong = override_settings(FAIRQUEUE={"url": "redis://localhost", "total_request": 3})
    with wrong, pytest.raises(SystemCheckError, match="total_requests"):
        call_command("check")
    with override_settings(FAIRQUEUE=["x"]), pytest.raises(SystemCheckError, match="a dict"):
        call_command("check")


def test_the_check_names_an_attribute_that_users_have_not() -> None:
    """Also behind a relation; what is no relation may have any."""
    for path in ("username", "username.any", "pk", "groups.name"):
        with override_settings(FAIRQUEUE={"workspace_from": f"user:{path}"}):
            call_command("check", stdout=io.StringIO())
    for path, missing in (("org", "User has no 'org'"), ("groups.org", "Group has no 'org'")):
        wrong = override_settings(FAIRQUEUE={"workspace_from": ["header:a", f"user:{path}"]})
        with wrong, pytest.raises(SystemCheckError, match=missing):
            call_command("check")


def test_the_command_line_uses_the_setting(
    redis_url: str, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """``manage.py fairqueue stats`` shows the queue of the setting; an option still counts more."""
    with FairQueue(redis_url, namespace=namespace) as queue:
        queue.publish(b"", queue="q", workspace="acme")
    with override_settings(FAIRQUEUE={"url": redis_url, "namespace": namespace}):
        call_command("fairqueue", "stats")
        assert "acme" in capsys.readouterr().out
        command = load_command_class("fairqueue_web.django", "fairqueue")
        with pytest.raises(SystemExit):
            command.run_from_argv(["./manage.py", "fairqueue", "workspace", "--help"])
        assert "manage.py fairqueue workspace" in capsys.readouterr().out
