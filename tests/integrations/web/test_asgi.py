"""The ASGI middleware around Starlette applications, and around a bare one."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from fairqueue import CapacityExceeded, ConfigurationError, FairQueue, StoreUnavailable
from fairqueue.adapters import current_workspace
from fairqueue_web import FrontDoor
from fairqueue_web._door import THREADS
from fairqueue_web.asgi import FairQueueMiddleware


def whose(request: Request) -> Response:
    """Runs in a thread."""
    return PlainTextResponse(str(current_workspace()))


async def whose_async(request: Request) -> Response:
    return PlainTextResponse(str(current_workspace()))


async def stream(request: Request) -> Response:
    async def body() -> AsyncIterator[str]:
        for _ in range(2):
            yield f"{current_workspace()} "

    return StreamingResponse(body())


async def echo(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text(str(current_workspace()))
    await websocket.close()


def application(*routes: Any, middleware: Any = (), **options: Any) -> Starlette:
    """An application with the middleware."""
    of_all = [
        Route("/sync", whose),
        Route("/async", whose_async),
        Route("/stream", stream),
        WebSocketRoute("/ws", echo),
    ]
    options = options if "door" in options else {"workspace_from": "header:X-Org", **options}
    front = Middleware(FairQueueMiddleware, **options)
    return Starlette(routes=[*of_all, *routes], middleware=[*middleware, front])


def get(app: Any, path: str, workspace: str | None = "acme") -> httpx.Response:
    """One request."""
    return asyncio.run(get_async(app, path, workspace))


async def get_async(app: Any, path: str, workspace: str | None = "acme") -> httpx.Response:
    headers = {} if workspace is None else {"X-Org": workspace}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.get(path, headers=headers)


@pytest.mark.parametrize("path", ["/sync", "/async"])
def test_endpoints_run_in_the_workspace_of_their_request(path: str) -> None:
    """Those in threads and those in the event loop; without an answer, as without it."""
    app = application()
    assert get(app, path).text == "acme"
    assert get(app, path, None).text == "None"


def test_a_repeated_header_is_refused() -> None:
    """Each server and framework takes another one of them."""
    app = application()
    transport = httpx.ASGITransport(app)

    async def twice() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get("/sync", headers=[("X-Org", "acme"), ("X-Org", "globex")])

    assert asyncio.run(twice()).status_code == 400


def test_a_body_is_streamed_in_the_workspace() -> None:
    """Each of its steps."""
    assert get(application(), "/stream").text == "acme acme "


def sent_over_a_websocket(app: Any, workspace: str | None) -> list[Any]:
    """What the application sends over one connection."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [] if workspace is None else [(b"x-org", workspace.encode())]
    scope = {"type": "websocket", "path": "/ws", "headers": headers, "query_string": b""}
    asyncio.run(app(scope, receive, send))
    return sent


def test_a_websocket_has_a_workspace(queue: FairQueue) -> None:
    """And takes no place."""
    with queue.requests.admit("acme"):
        sent = sent_over_a_websocket(application(queue=queue), "acme")
    assert sent[1] == {"type": "websocket.send", "text": "acme"}


def test_a_websocket_that_must_name_a_workspace_is_closed() -> None:
    """As a request is answered with 400."""
    app = application(require_workspace=True)
    assert get(app, "/sync", None).status_code == 400
    assert sent_over_a_websocket(app, None) == [{"type": "websocket.close", "code": 1008}]


def test_an_asynchronous_function_names_the_workspace() -> None:
    """It gets the scope."""

    async def look_up(scope: Any) -> int:
        await asyncio.sleep(0)
        return len(scope["path"])

    assert get(application(workspace_from=look_up), "/sync").text == "5"


def test_the_user_names_the_workspace() -> None:
    """If the authentication middleware stands outside of this one."""

    class Backend(AuthenticationBackend):
        async def authenticate(self, conn: Any) -> Any:
            return AuthCredentials(), SimpleUser("anna")

    outside = Middleware(AuthenticationMiddleware, backend=Backend())
    app = application(middleware=[outside], workspace_from="user:username")
    assert get(app, "/async").text == "anna"


def test_a_publish_that_is_rejected_becomes_429(full: CapacityExceeded) -> None:
    """With Retry-After, from a thread too."""

    def raise_it(request: Request) -> Response:
        raise full

    response = get(application(Route("/full", raise_it)), "/full")
    assert response.status_code == 429
    assert int(response.headers["retry-after"]) >= 1
    assert response.json() == {"detail": "Too many requests of this workspace: try again later."}


def test_an_answer_that_has_begun_is_not_answered_again(full: CapacityExceeded) -> None:
    """The error goes to the server, which breaks the connection off."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise full

    with pytest.raises(CapacityExceeded):
        get(FairQueueMiddleware(app), "/")


async def until(condition: Callable[[], object]) -> None:
    """Wait for what threads bring about."""
    while not condition():  # noqa: ASYNC110 - threads set no event of asyncio
        await asyncio.sleep(0.001)


def blocked(
    queue: FairQueue, **options: Any
) -> tuple[Starlette, asyncio.Event, Callable[[], Awaitable[None]]]:
    """An application whose requests to /wait are in flight until the event is set."""
    go_on = asyncio.Event()

    async def wait(request: Request) -> Response:
        await go_on.wait()
        return PlainTextResponse(str(current_workspace()))

    async def one_is_in_flight() -> None:
        await until(lambda: queue.requests.in_flight("acme")[0])

    return application(Route("/wait", wait), queue=queue, **options), go_on, one_is_in_flight


def test_a_request_without_a_place_is_rejected(queue: FairQueue) -> None:
    """429 for its workspace, another one is served; the place is free again after the response."""

    async def play() -> None:
        app, go_on, one_is_in_flight = blocked(queue)
        first = asyncio.create_task(get_async(app, "/wait"))
        await one_is_in_flight()
        assert (await get_async(app, "/sync")).status_code == 429
        assert (await get_async(app, "/sync", "other")).text == "other"
        go_on.set()
        assert (await first).text == "acme"

    asyncio.run(play())
    _await_none(queue)


def _await_none(queue: FairQueue) -> None:
    """Places are freed from a thread."""
    asyncio.run(until(lambda: queue.requests.in_flight("acme") == (0, 0, 0)))


def test_a_request_waits_for_its_turn(queue: FairQueue) -> None:
    """Without blocking the event loop, in which the first one goes on."""

    async def play() -> None:
        app, go_on, one_is_in_flight = blocked(queue, wait_seconds=30)
        first = asyncio.create_task(get_async(app, "/wait"))
        await one_is_in_flight()
        second = asyncio.create_task(get_async(app, "/sync"))
        await until(lambda: queue.requests.in_flight("acme")[2])
        go_on.set()
        assert (await first).text == (await second).text == "acme"

    asyncio.run(play())
    _await_none(queue)


@pytest.mark.parametrize("waits", [False, True])
def test_a_request_that_is_cancelled_leaves_nothing(queue: FairQueue, waits: bool) -> None:
    """Whether it was in flight or waited when its client went away."""

    async def play() -> None:
        app, go_on, one_is_in_flight = blocked(queue, wait_seconds=30)
        first = asyncio.create_task(get_async(app, "/wait"))
        await one_is_in_flight()
        gone = asyncio.create_task(get_async(app, "/sync")) if waits else first
        await until(lambda: not waits or queue.requests.in_flight("acme")[2])
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        go_on.set()
        if waits:
            await first

    asyncio.run(play())
    _await_none(queue)


def test_a_request_that_is_cancelled_while_it_asks_leaves_nothing(
    queue: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place that the store gives then is given back."""

    async def play() -> None:
        door = FrontDoor(queue)
        assert door._queue is not None
        store, going = door._queue.store, asyncio.Event()
        loop, admit = asyncio.get_running_loop(), store.admit_request

        def slow(*args: Any, **options: Any) -> Any:
            loop.call_soon_threadsafe(asking.cancel)
            asyncio.run_coroutine_threadsafe(going.wait(), loop).result(10)
            return admit(*args, **options)

        monkeypatch.setattr(store, "admit_request", slow)
        asking = asyncio.create_task(door.visit("acme"))
        with pytest.raises(asyncio.CancelledError):
            await asking
        going.set()
        requests = door._queue.requests
        await until(lambda: not requests._held and queue.requests.in_flight("acme")[0] == 0)
        await loop.run_in_executor(None, door.close)

    asyncio.run(asyncio.wait_for(play(), 20))
    _await_none(queue)


def test_a_call_during_a_close_is_made(queue: FairQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the place of its request would stay taken for a lease."""
    door = FrontDoor(queue)
    door._submit("end", int).result(10)
    submit = door._pools["end"].submit

    def late(call: Any) -> Any:
        door.close()
        return submit(call)

    monkeypatch.setattr(door._pools["end"], "submit", late)
    assert door._submit("end", int).result(10) == 0
    door.close()


# eventlet, once another test has imported it, warns of a fork in its own callback
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_asks_in_threads_of_its_own(queue: FairQueue) -> None:
    """A server that forks after a request was served has none of its parent's threads there."""
    door = FrontDoor(queue)
    asyncio.run(door.visit("acme"))
    child = os.fork()
    if not child:
        try:
            os._exit(door._submit("ask", lambda: 7).result(10))
        finally:
            os._exit(1)  # no second run of the tests
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("kind", [StoreUnavailable, ConfigurationError])
def test_requests_are_served_while_the_store_is_away(
    queue: FairQueue,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: type[Exception],
) -> None:
    """With one warning, and without asking for each; so, too, once Redis refuses its user."""
    asked = 0

    def fail(*args: Any, **options: Any) -> Any:
        nonlocal asked
        asked += 1
        raise kind("Redis is away")

    door = FrontDoor(queue, workspace_from="header:X-Org")
    app = application(door=door)
    assert get(app, "/sync").text == "acme"
    assert door._queue is not None
    monkeypatch.setattr(door._queue.store, "admit_request", fail)
    monkeypatch.setattr("fairqueue_web._door.AWAY_SECONDS", 60.0)
    for _ in range(3):
        assert get(app, "/sync").text == "acme"
    assert asked == 1
    assert caplog.text.count("served without asking for a place: Redis is away") == 1


def test_requests_at_once_wait_for_one_time_out(
    queue: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that have waited for a thread are served when an earlier one finds the store away."""
    called = list[str]()

    def fail(*args: Any, **options: Any) -> Any:
        called.append("admit")
        time.sleep(0.05)
        raise StoreUnavailable("Redis is away")

    door = FrontDoor(queue)
    assert door._queue is not None
    monkeypatch.setattr(door._queue.store, "admit_request", fail)
    monkeypatch.setattr(door._queue.store, "end_request", lambda *_: called.append("end"))
    monkeypatch.setattr("fairqueue_web._door.AWAY_SECONDS", 60.0)

    async def play() -> None:
        await asyncio.gather(*(door.visit("acme") for _ in range(5 * THREADS)))
        await asyncio.to_thread(door.close)

    asyncio.run(play())
    assert 0 < len(called) <= THREADS
    assert set(called) == {"admit"}


def test_one_failure_lets_requests_in_for_one_moment(
    queue: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the event loop is busy until that moment is over."""
    failed = threading.Event()

    def fail(*args: Any, **options: Any) -> Any:
        failed.set()
        raise StoreUnavailable("Redis is away")

    door = FrontDoor(queue)
    assert door._queue is not None
    monkeypatch.setattr(door._queue.store, "admit_request", fail)
    monkeypatch.setattr("fairqueue_web._door.AWAY_SECONDS", 0.1)

    async def play() -> None:
        visit = asyncio.create_task(door.visit("acme"))
        await asyncio.sleep(0)
        failed.wait(10)
        time.sleep(0.3)  # noqa: ASYNC251 - the loop is busy
        await visit
        assert not door._is_away
        await asyncio.to_thread(door.close)

    asyncio.run(play())


def test_no_request_waits_for_the_ends_of_others(
    namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes a time-out when the store falls silent."""
    go_on = threading.Event()

    async def play(door: FrontDoor) -> None:
        for visit in [await door.visit(f"w{n}") for n in range(THREADS)]:
            visit.end()
        await asyncio.wait_for(door.visit("late"), 10)
        go_on.set()
        await asyncio.to_thread(door.close)

    with FairQueue("memory://", namespace=namespace, workspace_requests=1) as queue:
        door = FrontDoor(queue)
        assert door._queue is not None
        monkeypatch.setattr(door._queue.store, "end_request", lambda *_: go_on.wait(30))
        asyncio.run(play(door))


def test_a_mistake_that_no_request_has_passed_is_an_error(
    queue: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a wrong password: it is found when the application is deployed."""

    def refuse(*args: Any, **options: Any) -> Any:
        raise ConfigurationError("Redis refuses this user")

    door = FrontDoor(queue, workspace_from="header:X-Org")
    assert door._queue is not None
    monkeypatch.setattr(door._queue.store, "admit_request", refuse)
    app = application(door=door)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="refuses this user"):
            get(app, "/sync")


def test_exempt_paths_are_left_alone(queue: FairQueue) -> None:
    """A health check must work while the service is full."""
    app = application(queue=queue, exempt=["/sync"])
    with queue.requests.admit("acme"):
        assert get(app, "/sync").text == "None"
        assert get(app, "/async").status_code == 429


def test_other_kinds_of_connections_pass() -> None:
    """Such as the lifespan of a server."""
    kinds = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        kinds.append(scope["type"])

    asyncio.run(FairQueueMiddleware(app)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert kinds == ["lifespan"]
