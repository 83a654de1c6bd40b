"""Every page answers, shows names from outside as text, and says in a sentence what is wrong."""

from __future__ import annotations

import json
import re
from urllib.parse import urlencode

import pytest

from fairqueue import FairQueue, Scope
from fairqueue.dashboard import app
from tests.dashboard.serving import Visitor, served

PAGES = (
    "/",
    "/workspaces",
    "/queues",
    "/tasks",
    "/queue?name=q",
    "/task?name=t",
    "/limits",
    "/limits?scope=total",
    "/running",
    "/waiting",
    "/dead",
    "/pauses",
    "/schedules",
    "/acts",
    "/history",
    "/workers",
    "/doctor",
)
VALUE = re.compile(r'value="[^"]*"')  # a field of a form has the name as it is
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 'laid-out-' * 2 }}{% raw %}",
    "javascript:alert(1)",
    "\x1b[2J\x1b]0;title\x07",
    "a\r\nset-cookie: x=1",
    "\u202egnp.exe",
    "../../etc/passwd",
    "a&b=c#d?e%00",
)


def _fill(queue: FairQueue, name: str) -> str:
    """Use a name wherever a page shows one; return the id of a dead job."""
    queue.presence.describe(name, software=name)
    for _ in range(4):
        queue.publish(name.encode(), queue=name, workspace=name, task=name)
    queue.publish(b"", queue=name, workspace=name, task=name, job_id=name, delay_seconds=60)
    lease, done, _ = queue.claim([name], 3).leases
    queue.reject(lease, reason=name)
    queue.ack(done, seconds=1.0)
    queue.note_stop()
    queue.pauses.pause(Scope.workspace(name))
    queue.pauses.drain(Scope.queue(name))
    for scope in (Scope.queue(name), Scope.task(name)):
        queue.limits.set(scope, concurrency=9)
    return lease.job.id


def test_a_time_that_no_calendar_has_is_shown(
    queue: FairQueue, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that was stored with one is seen, and can be taken away."""
    monkeypatch.setattr("fairqueue._validation.MOST_DELAY_SECONDS", 1e300)
    queue.publish(b"", queue="q", workspace="acme", job_id="never", delay_seconds=3e11)
    for path in ("/", "/waiting", "/workspace?name=acme", "/job?id=never"):
        visitor.page(path)
    assert "s after 1970, which no calendar has" in visitor.page("/waiting")
    assert "was removed" in visitor.act("cancel", id="never")


def test_progress_is_a_bar(queue: FairQueue, visitor: Visitor) -> None:
    """Where a total is known; on the job's page, too, with the steps. Else it is a number."""
    for n, said in enumerate(("3 12 rows", "4 - %")):
        queue.publish(b"", queue="q", workspace="acme", job_id=f"j{n}")
        (lease,) = queue.claim(["q"]).leases
        queue.store.note_progress(lease.fence, "acme", said)
    bar = '<progress value="3.0" max="12.0"></progress>'
    page = visitor.page("/running")
    assert f"{bar} 3/12 rows, " in page
    assert page.count("<progress") == 1
    queue.store.note_step(lease.fence, "acme", "j1", "one", "one 2 null", early=False)
    assert bar in visitor.page("/job?id=j0&workspace=acme")
    assert "steps: one (2.0 s); this run continues" in visitor.page("/job?id=j1&workspace=acme")


def test_long_lists_are_shown_in_pages(
    queue: FairQueue, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open page is sent again with each change, so it has a bounded number of rows."""
    monkeypatch.setattr("fairqueue.dashboard._pages.PAGE", 3)
    for n in range(7):
        queue.publish(b"", queue=f"q{n}", workspace=f"w{n}", task=f"t{n}")
        queue.pauses.pause(Scope.queue(f"q{n}"))
        queue.limits.set(Scope.task(f"t{n}"), concurrency=1)
    queue.claim([f"q{n}" for n in range(7)])
    for path in ("/queues", "/tasks", "/pauses", "/limits", "/workspaces"):
        starts, seen, address = [0, 3, 6], list[str](), path
        for start in starts:
            page = visitor.page(address)
            assert f"{start + 1} to {min(start + 3, 7)} of 7" in page
            assert page.count("<tr data-row>") == min(3, 7 - start)
            seen += re.findall(r"<tr data-row>.*?(?:[qtw](\d))\b", page)
            (address,) = re.findall(r'<a href="([^"]+)">Next</a>', page) or [""]
            address = address.replace("&amp;", "&")
        assert (sorted(seen), address) == (list("0123456"), ""), path
        visitor.page(f"{path}?start=x", 400)
    assert re.findall(r">(w\d)</a>", visitor.page("/workspaces?by=name&filter=W5")) == ["w5"]


def test_long_texts_are_cut(queue: FairQueue, visitor: Visitor) -> None:
    """The reason of a dead letter may have any length; its own page has more of it."""
    queue.publish(b"", queue="q", workspace="acme", job_id="j" * 5000)
    (lease,) = queue.claim(["q"]).leases
    queue.reject(lease, reason="<bad> " * 20_000)
    assert 200 < visitor.page("/dead").count("&lt;bad&gt;") * 6 <= 300
    page = visitor.page(f"/job?{urlencode({'workspace': 'acme', 'id': lease.job.id})}")
    assert 3900 < page.count("&lt;bad&gt;") * 6 <= 4000
    assert f">{'j' * 300}…<" in page


@pytest.mark.parametrize("path", PAGES)
def test_a_page_of_nothing(visitor: Visitor, path: str) -> None:
    """An empty queue is no error, and an empty list says so in a sentence."""
    page = visitor.page(path)
    assert "<h1" in page
    assert "None" not in page


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_shown_as_text(queue: FairQueue, visitor: Visitor, name: str) -> None:
    """No name becomes markup, script, a header or an address, and none hides what it is."""
    dead = _fill(queue, name)
    one = {"name": name, "workspace": name, "queue": name, "task": name, "id": name, "filter": name}
    addresses = [*PAGES, f"/job?{urlencode({'workspace': name, 'id': dead})}"]
    addresses += [f"{path}?{urlencode(one)}" for path in ("/workspace", "/job", "/workspaces")]
    addresses += [f"{path}?{urlencode(one)}" for path in ("/running", "/waiting", "/dead")]
    addresses += [f"/limits?{urlencode({'scope': kind, **one})}" for kind in ("queue", "task")]
    for address in addresses:
        answer = visitor.get(address)
        assert answer.status_code == 200, (address, answer.text)
        assert "x" not in answer.cookies
        for bad in ("<script>alert", "<img src=x", "' onmouseover='alert", "\x1b", "\u202e"):
            assert bad not in VALUE.sub("", answer.text), address
        assert 'href="javascript:' not in answer.text
        assert "laid-out-laid-out-" not in answer.text


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/nothing", 404),
        ("/static/..%2F_app.py", 404),
        ("/static/_app.py", 404),
        ("/workspace", 400),
        ("/workspace?name=" + "x" * 300, 400),
        ("/job", 400),
        ("/workspaces?by=nonsense", 400),
        ("/workspaces?start=-1", 400),
        ("/dead?cursor=x", 400),
        ("/dead?cursor=1..2+acme+e+b", 400),
        ("/limits?scope=galaxy", 400),
        ("/limits?scope=queue", 400),
        ("/limits?start=x", 400),
        ("/waiting?cursor=nonsense", 400),
        ("/running?queue=" + "x" * 300, 400),
        ("/find?q=never-seen", 404),
        ("/find?q=" + "x" * 300, 404),
        ("/find", 400),
        ("/live?page=/nothing", 404),
    ],
)
def test_bad_input_is_a_sentence(visitor: Visitor, path: str, code: int) -> None:
    """Whatever an address asks for, the answer is a page that says what is wrong."""
    assert "Problem" in visitor.page(path, code)


def test_a_store_that_is_away_is_a_sentence() -> None:
    """Code 503, and no traceback."""
    queue = FairQueue("redis://127.0.0.1:1/0", brings_limits=False)
    with served(app(queue, allow_anyone=True)) as url, Visitor(base_url=url) as visitor:
        assert "Redis" in visitor.page("/", 503)


def test_the_search_finds_workspaces_jobs_tasks_and_errors(
    queue: FairQueue, visitor: Visitor
) -> None:
    """A name leads to its workspace, task or queue, an id to its job, a text to its letters.

    Ids and texts may be longer than a name.
    """
    queue.publish(b"", queue="p", workspace="b", task="render")
    long = "x" * 300
    queue.reject(queue.claim(["p"]).leases[0], reason=f"ValueError: no page {long}")
    queue.publish(b"", queue="q", workspace="acme corp", job_id="job/1")
    queue.publish(b"", queue="q", workspace="acme corp", job_id="j" * 300)
    queue.publish(b"", queue="q", workspace="Acme Corp")
    wanted = {
        "acme corp": "/workspace?name=acme+corp",
        "job/1": "/job?id=job%2F1&workspace=acme+corp",
        "render": "/task?name=render",
        "p": "/queue?name=p",
        "no page": "/dead?error=no+page",
        long: f"/dead?error={long}",
        "j" * 300: f"/job?id={'j' * 300}&workspace=acme+corp",
    }
    found = {q: visitor.get(f"/find?{urlencode({'q': q})}") for q in wanted}
    assert {q: answer.headers["location"] for q, answer in found.items()} == wanted
    for path in wanted.values():
        assert "Problem" not in visitor.page(path)


def test_a_workspace_says_why_it_waits(queue: FairQueue, visitor: Visitor) -> None:
    """Its limits with their sources, its blockers, what runs, and what is next; its queue, too."""
    queue.limits.set(Scope.workspace("acme"), concurrency=1)
    for _ in range(3):
        queue.publish(b"", queue="q", workspace="acme", task="render")
    queue.claim(["q"], 2)
    page = visitor.page("/workspace?name=acme")
    for text in ("workspace acme runs 1 of 1", "1 / 1", "live", "render", "at limit"):
        assert text in page
    page = visitor.page("/queue?name=q")
    assert "<b>1</b><span>running" in page
    assert "<b>2</b><span>waiting" in page


def test_a_short_job_is_in_the_pictures(queue: FairQueue) -> None:
    """Of the overview, and of its workspace, queue and task, with the figures beside them."""
    queue.publish(b"", queue="mail", workspace="acme", task="t")
    (lease,) = queue.claim(["mail"]).leases
    queue.ack(lease, seconds=0.02)
    queue.note_stop()
    with served(app(queue, allow_anyone=True)) as url, Visitor(base_url=url) as visitor:
        overview = visitor.page("/")
        (area,) = re.findall(r'<polygon class="c0" points="([^"]*)"', overview)
        assert area.count(",") == 2 * 2 * 60, "each minute of the hour has its width"
        for path in ("/", "/workspace?name=acme", "/queue?name=mail", "/task?name=t"):
            page = visitor.page(path)
            assert "<title>Jobs started a minute</title><desc>started: at most 1</desc>" in page
            assert page.count('<tr data-row><td class="">20') == 1, path
        assert ">acme</a>" in page
        assert "Nothing in the last hour." in visitor.page("/queue?name=other")


def test_the_overview_begins_with_what_is_wrong(queue: FairQueue, visitor: Visitor) -> None:
    """The line of ``fairqueue status`` and its reasons; names are text."""
    queue.pauses.pause(Scope.workspace(HOSTILE[0]))
    page = visitor.page("/")
    assert "<b>1 warning: 0 running, 0 waiting, 0 workers</b>" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&#39; paused for" in page
    assert HOSTILE[0] not in page


def _message(task_id: str, **kwargs: str) -> bytes:
    message = {"message_id": task_id, "args": [7], "kwargs": kwargs}
    return json.dumps(message).encode()


def test_a_job_answers_what_it_is_called_with(queue: FairQueue, visitor: Visitor) -> None:
    """While it waits and while it runs: arguments without secrets, task, starts, and its worker."""
    queue.presence.describe("celery@one")
    payload = _message("m1", to=HOSTILE[0], password="hunter2")
    queue.publish(payload, queue="q", workspace="acme", task="t", job_id="j")
    for said in ("<dt>Starts</dt><dd>0<", "<dt>Starts</dt><dd>1<"):
        page = visitor.page("/job?id=j")
        assert said in page
        assert "7, to=&#34;&lt;script&gt;alert(1)&lt;/script&gt;&#34;, password=" in page
        assert "[hidden]" in page
        assert "m1" in page
        assert "hunter2" not in page
        assert HOSTILE[0] not in page
        if "0<" in said:
            queue.claim(["q"])
    assert ">celery@one</a>" in page


def test_a_dead_letter_says_what_failed(queue: FairQueue, visitor: Visitor) -> None:
    """Its error with the traceback, and its arguments, both without secrets."""
    queue.publish(_message("m1", password="hunter2"), queue="q", workspace="acme", job_id="j")
    (lease,) = queue.claim(["q"]).leases
    details = f"File x:\n  connect(token='hunter2')\nValueError: {HOSTILE[0]}"
    queue.reject(lease, reason="ValueError", details=details)
    page = visitor.page("/job?workspace=acme&id=j")
    assert "ValueError: &lt;script&gt;" in page
    assert "connect(token=[hidden])" in page
    assert "<dt>Error</dt><dd>ValueError: &lt;script&gt;" in page
    assert "ValueError: ValueError: &lt;script&gt;" in visitor.page("/dead")
    assert "Task id" in page
    assert "hunter2" not in page
    assert "connect" not in visitor.page("/job?workspace=acme&id=gone")
