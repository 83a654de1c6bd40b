"""Only those see and change it that may: tokens, roles, forms of other sites, several queues."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount
from starlette.types import ASGIApp

from fairqueue import ConfigurationError, FairQueue, Pause
from fairqueue.dashboard import Role, app, only_this_host, several
from fairqueue.dashboard._access import Access
from tests.dashboard.serving import Visitor, served
from tests.pauses import paused

TOKEN, READ_TOKEN = "operator-token-0123", "support-token-01234"
PAUSED = {("workspace", "acme"): Pause.PAUSED}


@contextmanager
def _visiting(site: ASGIApp, path: str = "") -> Iterator[Visitor]:
    with served(site) as url, Visitor(base_url=url + path) as visitor:
        yield visitor


def _form(visitor: Visitor, **more: str) -> dict[str, str]:
    return {"csrf": visitor.csrf(), "scope": "workspace", "name": "acme", "back": "/", **more}


def test_every_answer_has_the_headers(visitor: Visitor) -> None:
    """Pages, files, redirects and refusals: no script of others, no frame, nothing kept."""
    for path in ("/", "/nothing", "/static/dashboard.js", "/find?q=x", "/live?page=/nothing"):
        headers = visitor.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
    assert visitor.get("/").headers["cache-control"] == "no-store"
    assert "immutable" in visitor.get("/static/dashboard.css").headers["cache-control"]


@pytest.mark.parametrize(
    "name", ["Host", "Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Real-IP", "Via"]
)
def test_without_a_token_only_this_host_is_answered(site: str, name: str) -> None:
    """A name that leads here is refused with the remedy, and so is what a proxy passes on."""
    answer = httpx.get(site, headers={name: "evil.example" if name == "Host" else "127.0.0.1"})
    assert answer.status_code == 403
    assert "proxy" in answer.text
    assert "--token" in answer.text
    assert httpx.get(site, headers={"host": "localhost:1"}).status_code == 200


@pytest.mark.parametrize(
    ("peer", "host", "version", "role"),
    [
        (("127.0.0.1", 5), "localhost", "1.1", Role.OPERATOR),
        (("::1", 5), "[::1]", "2", Role.OPERATOR),
        (None, "localhost", "1.1", None),
        (("127.0.0.1", 5), "127.0.0.1", "1.0", None),
        (("192.0.2.1", 5), "localhost", "1.1", None),
        (("127.0.0.1", 5), "shop.example", "1.1", None),
    ],
)
def test_only_a_browser_on_this_host_is_known(
    peer: tuple[str, int] | None, host: str, version: str, role: Role | None
) -> None:
    """A unix socket names no peer, and nginx speaks HTTP/1.0 unless it is told otherwise."""
    headers = [(b"host", host.encode())]
    scope: dict[str, Any] = {"type": "http", "client": peer, "headers": headers}
    scope |= {
        "http_version": version,
        "scheme": "http",
        "path": "/",
        "query_string": b"",
        "server": ("127.0.0.1", 80),
    }
    assert only_this_host(Request(scope)) is role


def test_a_dashboard_says_who_may_visit_it(queue: FairQueue) -> None:
    """By a token, a hook, or by saying that anyone may: then it asks nothing."""
    with pytest.raises(ConfigurationError, match="allow_anyone=True"):
        app(queue)
    with pytest.raises(ConfigurationError, match="leave one out"):
        app(queue, token=TOKEN, allow_anyone=True)
    with _visiting(app(queue, allow_anyone=True)) as visitor:
        answer = visitor.get("/", headers={"host": "shop.example", "x-forwarded-for": "192.0.2.1"})
        assert answer.status_code == 200


@pytest.mark.parametrize(
    ("changed", "headers"),
    [
        ({"csrf": ""}, {}),
        ({"csrf": "0" * 32}, {}),
        ({"csrf": "ä"}, {}),
        ({"name": "x" * 100_000}, {}),
        ({}, {"origin": "https://evil.example"}),
        ({}, {"origin": "null"}),
        ({}, {"origin": "http://["}),
        ({}, {"sec-fetch-site": "cross-site"}),
        ({}, {"sec-fetch-site": "same-site"}),
    ],
    ids=str,
)
def test_a_foreign_form_is_refused(
    queue: FairQueue, visitor: Visitor, changed: dict[str, str], headers: dict[str, str]
) -> None:
    """Without its field, of another site that knew the field, or too long; and so is a link."""
    answer = visitor.post("/act/pause", data=_form(visitor, **changed), headers=headers)
    assert answer.status_code == 403
    assert visitor.get("/act/pause", params=_form(visitor)).status_code == 405
    assert paused(queue) == {}


def test_a_proxy_may_send_another_host(queue: FairQueue, visitor: Visitor) -> None:
    """Where the browser itself tells that the form is this site's own, as it does over TLS."""
    told = {"origin": "https://queues.example", "sec-fetch-site": "same-origin"}
    visitor.post("/act/pause", data=_form(visitor), headers=told)
    assert paused(queue) != {}


@pytest.mark.parametrize(
    "back",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "/nothing",
        "x\r\ny: z",
        "http://[",
    ],
)
def test_a_form_leads_back_to_a_page_of_the_dashboard(visitor: Visitor, back: str) -> None:
    """And nowhere else."""
    answer = visitor.post("/act/pause", data=_form(visitor, back=back))
    assert answer.headers["location"] == "/"


def test_a_token_signs_in(queue: FairQueue) -> None:
    """An operator changes things; before that there is only the page that asks for the token."""
    with _visiting(app(queue, token=TOKEN)) as visitor:
        assert visitor.get("/").status_code == 401
        answer = visitor.get("/", headers={"accept": "text/html"})
        assert answer.headers["location"] == "/sign-in"
        assert "Token" in visitor.page("/sign-in")
        wrong = visitor.post("/sign-in", data={"csrf": visitor.csrf(), "token": "guess"})
        assert wrong.status_code == 401
        visitor.post("/sign-in", data={"csrf": visitor.csrf(), "token": TOKEN})
        assert TOKEN not in str(dict(visitor.cookies))
        visitor.act("pause", scope="workspace", name="acme")
    assert paused(queue) == PAUSED


def test_a_session_ends_on_the_server(queue: FairQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cookie that a browser has kept for longer is refused, and so is one with another end."""
    access = Access(token=TOKEN)
    good = access.sign_in(TOKEN)
    monkeypatch.setattr("fairqueue.dashboard._access.SESSION_SECONDS", -1)
    ended = access.sign_in(TOKEN)
    assert good
    assert ended
    end, _, signature = ended.partition(".")
    forged = [f"{int(end) + 60}.{signature}", f"{'9' * 5000}.{signature}", f"²{end}.{signature}"]
    with _visiting(app(queue, token=TOKEN)) as visitor:
        for session, code in ((good, 200), *((each, 401) for each in (ended, *forged, ".", ""))):
            cookie = [(b"cookie", f"fairqueue_session={session}".encode())]
            assert visitor.get("/", headers=cookie).status_code == code


def test_a_visitor_signs_out(queue: FairQueue) -> None:
    """With a form of the dashboard; a reader, too."""
    with _visiting(app(queue, read_token=READ_TOKEN)) as visitor:
        visitor.post("/sign-in", data={"csrf": visitor.csrf(), "token": READ_TOKEN})
        assert 'action="/sign-out"' in visitor.page("/")
        assert visitor.post("/sign-out", data={}).status_code == 403
        assert visitor.get("/").status_code == 200
        answer = visitor.post("/sign-out", data={"csrf": visitor.csrf()})
        assert answer.headers["location"] == "/sign-in"
        assert visitor.get("/").status_code == 401
        assert "/sign-out" not in visitor.page("/sign-in")


@pytest.mark.parametrize(
    ("headers", "is_secure"),
    [
        ({}, False),
        ({"origin": "http://shop.example"}, False),
        ({"origin": "https://shop.example"}, True),
        ({"x-forwarded-proto": "https, http"}, True),
    ],
)
def test_cookies_are_secure_where_the_browser_speaks_tls(
    queue: FairQueue, headers: dict[str, str], is_secure: bool
) -> None:
    """Also behind a proxy with which the dashboard speaks plain HTTP."""
    with _visiting(app(queue, token=TOKEN)) as visitor:
        data = {"csrf": visitor.csrf(), "token": TOKEN}
        headers = {"host": "shop.example", **headers}
        cookie = {"cookie": f"fairqueue_csrf={data['csrf']}"}
        answer = visitor.post("/sign-in", data=data, headers=headers | cookie)
        assert answer.status_code == 303
        assert ("Secure" in answer.headers["set-cookie"]) is is_secure


def test_an_open_page_ends_with_the_right_to_see_it(
    queue: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook is asked again before each part."""
    monkeypatch.setattr("fairqueue.dashboard._app.EVERY_SECONDS", 0.01)
    roles = [Role.OPERATOR, Role.OPERATOR, Role.READER]

    def authorize(_: Request) -> Role | None:
        return roles.pop(0) if roles else None

    with _visiting(app(queue, authorize=authorize)) as visitor:
        text = visitor.get("/live?page=/pauses", timeout=20).text
        assert "event: part" in text
        assert text.rstrip().endswith("data: You may not look at this any more: sign in again.")
        assert visitor.get("/live?page=/pauses").status_code == 403


def test_no_token_is_shown() -> None:
    """Not even where the rules are logged."""
    assert TOKEN not in repr(Access(token=TOKEN, read_token=READ_TOKEN))
    assert READ_TOKEN not in repr(Access(token=TOKEN, read_token=READ_TOKEN))


def test_a_bearer_token_reads_pages(queue: FairQueue) -> None:
    """For scripts; a wrong one is refused, whatever its characters."""
    with _visiting(app(queue, token=TOKEN)) as visitor:
        good, wrong = ({"authorization": f"Bearer {token}"} for token in (TOKEN, "x"))
        assert visitor.get("/", headers=good).status_code == 200
        assert visitor.get("/", headers=wrong).status_code == 401
        assert visitor.get("/", headers={"cookie": "fairqueue_session=x"}).status_code == 401


@pytest.mark.parametrize("read_only", [False, True])
def test_a_reader_sees_and_changes_nothing(queue: FairQueue, read_only: bool) -> None:
    """Pages have no buttons, and a form sent by hand is refused; read_only is for all tokens."""
    queue.publish(b"", queue="q", workspace="acme")
    site = app(queue, token=TOKEN, read_token=READ_TOKEN, read_only=read_only)
    with _visiting(site) as visitor:
        token = TOKEN if read_only else READ_TOKEN
        visitor.post("/sign-in", data={"csrf": visitor.csrf(), "token": token})
        for path in ("/", "/workspace?name=acme", "/waiting?queue=q", "/dead?queue=q", "/doctor"):
            page = visitor.page(path)
            assert "/act/" not in page
            assert "read only" in page
        assert visitor.post("/act/pause", data=_form(visitor)).status_code == 403
    assert paused(queue) == {}


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ({"token": "short"}, "token of the dashboard has 5"),
        ({"read_token": ""}, "read_token of the dashboard has 0"),
        ({"token": TOKEN, "read_token": TOKEN}, "must differ"),
        ({"token": {"anna": TOKEN, "ben": TOKEN}}, "each name has its own"),
        ({"token": {"anna": TOKEN, "ben": "short"}}, "token 'ben' of the dashboard has 5"),
    ],
)
def test_weak_tokens_are_refused(tokens: dict[str, Any], said: str) -> None:
    """Short ones, one token for two roles, and one for two visitors."""
    with pytest.raises(ConfigurationError, match=said):
        app("memory://", **tokens)


def test_it_is_mounted_in_another_app(queue: FairQueue) -> None:
    """Under any path, with the roles of that app's own users."""

    async def authorize(request: Request) -> Role | None:
        return {"ann": Role.OPERATOR, "bob": Role.READER}.get(request.headers.get("user", ""))

    outer = Starlette(routes=[Mount("/admin/queues", app(queue, authorize=authorize))])
    with _visiting(outer, "/admin/queues") as visitor:
        assert visitor.get("/").status_code == 403
        visitor.headers["user"] = "bob"
        assert "/act/" not in visitor.page("/pauses")
        assert 'href="/admin/queues/workspaces"' in visitor.page("/")
        assert visitor.get("/static/dashboard.css").status_code == 200
        visitor.headers["user"] = "ann"
        answer = visitor.post("/act/pause", data=_form(visitor, back="/pauses"))
        assert answer.headers["location"] == "/admin/queues/pauses"
        assert "Paused workspace acme" in visitor.page("/pauses")
    assert paused(queue) == PAUSED


def test_acts_have_the_name_of_a_token_or_a_user(queue: FairQueue) -> None:
    """Of several tokens each has its own; a hook may name the user."""
    tokens = {"anna": TOKEN, "ben": TOKEN[::-1]}
    with served(app(queue, token=tokens, read_token={"support": READ_TOKEN})) as url:
        for token in tokens.values():
            with Visitor(base_url=url) as visitor:
                visitor.post("/sign-in", data={"csrf": visitor.csrf(), "token": token})
                visitor.act("pause", scope="workspace", name="acme")
    with _visiting(app(queue, authorize=lambda _: (Role.OPERATOR, "carla"))) as visitor:
        visitor.act("resume", scope="workspace", name="acme")
        assert "carla at 127.0.0.1 (dashboard)" in visitor.page("/acts")
    names = [act.by.partition(" at ")[0] for act in queue.acts.list()]
    assert names == ["carla", "ben", "anna"]


def test_wrong_tokens_are_logged_and_slowed(
    queue: FairQueue, caplog: pytest.LogCaptureFixture
) -> None:
    """Attempts beside each other wait for each other; the right token does not."""
    with served(app(queue, token=TOKEN)) as url, Visitor(base_url=url) as visitor:
        began = time.monotonic()
        for header in ("x", "y"):
            visitor.get("/", headers={"authorization": f"Bearer {header}"})
        assert time.monotonic() - began >= 1
        visitor.get("/", headers={"authorization": f"Bearer {TOKEN}"})
    assert caplog.text.count("a wrong token was sent to the dashboard from 127.0.0.1") == 2
    assert TOKEN not in caplog.text


OF_SEVERAL = "a-token-of-24-characters"


def test_each_has_its_pages_and_one_sign_in_serves_all(namespace: str) -> None:
    """The first is shown at the root; a form acts on its own queue only."""
    with (
        FairQueue("memory://", namespace=namespace) as one,
        FairQueue("memory://", namespace=f"{namespace}-2") as two,
        served(several({"prod": one, "eu-2": two}, token=OF_SEVERAL)) as url,
        Visitor(base_url=url, follow_redirects=True) as visitor,
    ):
        two.publish(b"", queue="q", workspace="of the second")
        assert "Sign in" in visitor.page("/", 200)
        csrf = visitor.cookies["fairqueue_csrf"]
        visitor.post("/prod/sign-in", data={"token": OF_SEVERAL, "csrf": csrf})
        first, second = visitor.page("/"), visitor.page("/eu-2/")
        assert 'href="/eu-2/"' in first
        assert "of the second" in second
        assert "of the second" not in first
        csrf = next(each.value for each in visitor.cookies.jar if each.path == "/eu-2") or ""
        visitor.post(
            "/eu-2/act/pause", data={"csrf": csrf, "scope": "queue", "name": "q", "back": "/"}
        )
        assert paused(two)
        assert not paused(one)


@pytest.mark.parametrize("queues", [{}, {"a/b": "memory://"}, {"..": "memory://"}])
def test_what_is_no_part_of_a_path_is_refused(queues: dict[str, FairQueue | str]) -> None:
    """So is a dashboard of nothing."""
    with pytest.raises(ConfigurationError):
        several(queues, token=OF_SEVERAL)
