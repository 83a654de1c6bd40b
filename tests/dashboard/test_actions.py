"""What an operator's forms do, and what an open page is sent."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import weakref
from collections.abc import Sequence
from html.parser import HTMLParser
from urllib.parse import urlencode

import pytest

from fairqueue import FairQueue, NewJob, Pause, Scope, StoreUnavailable
from fairqueue._stores.engine import WorkspaceMoves
from fairqueue.dashboard._view import MOST, Remembered
from tests.dashboard.serving import Visitor
from tests.pauses import paused
from tests.system.ledger import wait_for


def test_pause_drain_and_resume(queue: FairQueue, visitor: Visitor) -> None:
    """Of a workspace, a queue, a task and everything; the page says what was done."""
    assert "Paused queue q." in visitor.act("pause", scope="queue", name="q")
    assert "Draining workspace a." in visitor.act("drain", scope="workspace", name="a")
    assert "Paused everything." in visitor.act("pause", scope="total")
    held = {("queue", "q"): Pause.PAUSED, ("workspace", "a"): Pause.DRAINING}
    assert paused(queue) == held | {("total", ""): Pause.PAUSED}
    for scope, name in (("queue", "q"), ("workspace", "a"), ("total", "")):
        assert "Resumed" in visitor.act("resume", scope=scope, name=name)
    assert paused(queue) == {}
    assert "Nothing was paused" in visitor.act("resume", scope="queue", name="q")


def test_schedules(queue: FairQueue, visitor: Visitor) -> None:
    """They are paused, resumed, triggered and removed; the page says what is due soon."""
    job = NewJob(b"", queue="q", task="<b>")
    queue.schedules.put("<i>", job, workspace="acme", every=60)
    queue.schedules.put("later", job, workspace="acme", every=7200)
    page = visitor.page("/schedules")
    assert "1 due within the next hour" in page
    assert "&lt;i&gt;" in page
    assert "is paused" in visitor.act("pause-schedule", name="acme", id="<i>")
    assert [row.paused for row in queue.schedules.list()] == [False, True]
    assert "goes on from now" in visitor.act("resume-schedule", name="acme", id="<i>")
    assert "within a second" in visitor.act("trigger-schedule", name="acme", id="<i>")
    assert "is removed" in visitor.act("remove-schedule", name="acme", id="<i>")
    assert [row.name for row in queue.schedules.list()] == ["later"]
    assert '/schedules">nightly</a>' in visitor.page("/job?id=tick,1795784884641,nightly,x")


SCOPES = {
    "workspace": ("rate", "workspace q"),
    "queue": ("concurrency", "queue q"),
    "task": ("workspace_rate", "task q"),
    "default": ("concurrency", "each workspace without its own"),
    "total": ("capacity", "everything"),
}


@pytest.mark.parametrize("scope", SCOPES)
def test_limits_of_any_scope_are_edited(queue: FairQueue, visitor: Visitor, scope: str) -> None:
    """The page has a field for each limit, and what is in force; an empty field changes nothing."""
    limit, words = SCOPES[scope]
    page = f"/limits?{urlencode({'scope': scope, 'name': 'q'})}"
    assert f'name="{limit}"' in visitor.page(page)
    assert ('name="parent"' in visitor.page(page)) is (scope == "workspace")
    form = {"scope": scope, "name": "q", "back": page, limit: "4", "concurrency": ""} | {limit: "4"}
    told = visitor.act("set-limits", code=200, **form)
    assert f"Live limits of {words}: {limit} 4." in told
    (row,) = queue.limits.list()
    assert (row.scope, row.limits) == (scope, {limit: 4})
    assert limit.replace("_", " ") in visitor.page("/limits")
    told = visitor.act("unset-limits", scope=scope, name="q")
    assert f"Removed the live limits of {words}." in told
    assert queue.limits.list() == []


def test_dead_letters_of_all_workspaces_are_chosen(queue: FairQueue, visitor: Visitor) -> None:
    """By task, reason, error and time: shown, replayed or deleted with their number; or one."""
    for n, workspace in enumerate(("acme", "globex", "acme", "initech")):
        queue.publish(b"", queue="q", workspace=workspace, task="ab"[n // 2], job_id=f"dead-{n}")
    for lease in queue.claim(["q"], 4).leases:
        reason = "bad" if lease.job.task == "a" else "worse"
        queue.reject(lease, reason=reason, details=f"File x\nValueError: {lease.job.id}!")
    page = visitor.page("/dead?reason=bad&since=1h")
    assert "dead-0" in page
    assert "dead-1" in page
    assert "dead-2" not in page
    assert "that match" in visitor.page("/dead?until=1h")
    assert all(f"dead-{n}" in visitor.page("/dead") for n in range(4))
    assert "All that match" not in visitor.page("/dead")
    assert "Replay all 4<" in visitor.page("/dead?error=ValueError")
    assert "Delete all 1<" in visitor.page("/dead?error=dead-3!")
    assert "2 jobs replayed" in visitor.act("replay-dead", reason="bad", since="1h")
    assert queue.depth("q") == 2
    assert "1 job deleted" in visitor.act("delete-dead", task="b", workspace="initech")
    assert [letter.job.id for letter in queue.dead.list()] == ["dead-2"]
    assert "1 job replayed" in visitor.act("replay-dead", workspace="acme", job_id="dead-2")
    assert queue.depth("q") == 3
    assert "0 jobs deleted" in visitor.act("delete-dead", workspace="acme", job_id="dead-2")


def test_what_blocks_leads_to_where_it_is_ended(queue: FairQueue, visitor: Visitor) -> None:
    """A pause to the pauses, a limit to the form of its scope."""
    for _ in range(2):
        queue.publish(b"", queue="q", workspace="acme", task="a&b")
    queue.limits.set(Scope.task("a&b"), concurrency=0)
    queue.limits.set(Scope.workspace("acme"), concurrency=0)
    queue.pauses.pause(Scope.queue("q"))
    page = visitor.page("/workspace?name=acme")
    assert '<a href="/pauses">Resume</a>' in page
    assert '<a href="/limits?scope=task&amp;name=a%26b">Limits</a>' in page
    assert '<a href="/limits?scope=workspace&amp;name=acme">Limits</a>' in page
    assert '"concurrency"' in visitor.page("/limits?scope=task&name=a%26b")


def test_all_jobs_that_match_are_cancelled(queue: FairQueue, visitor: Visitor) -> None:
    """The button says how many, and what was done is noted; without a filter there is none."""
    for workspace, task in (("acme", "a"), ("acme", "b"), ("globex", "a")):
        queue.publish(b"", queue="q", workspace=workspace, task=task)
    queue.publish(b"", queue="q", workspace="acme", task="a", delay_seconds=60)
    (lease,) = queue.claim(["q"], 1).leases
    of_task = f"/waiting?task={lease.job.task}"
    assert "Cancel all" not in visitor.page("/waiting")
    assert "Cancel all" not in visitor.page(f"/running?task={lease.job.task}&worker=x")
    assert "Cancel all 3" in visitor.page(of_task)
    assert "Cancel all 3" in visitor.page(f"/running?task={lease.job.task}")
    form = _Forms(visitor.page(of_task)).found["/act/cancel-matching"]
    visitor.post("/act/cancel-matching", data=form)
    assert "No matching job" in visitor.page(of_task)
    assert queue.depth("q") == 1
    act = queue.acts.list()[0]
    assert (act.act, act.of) == ("jobs cancel_matching", f"task {lease.job.task}")
    assert act.new == "removed 2, signalled 1"
    assert "name a workspace" in visitor.act("cancel-matching", code=400)
    job = queue.publish(b"", queue="q", workspace="acme")
    assert "was removed" in visitor.act("cancel", id=job)
    assert "neither waits nor runs" in visitor.act("cancel", id=job)


class _Forms(HTMLParser):
    """The forms of a page, with the fields that a browser would send."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found = dict[str, dict[str, str]]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form":
            self.fields = self.found[str(given.get("action"))] = {}
        elif tag == "input" and given.get("name"):
            plain = str(given.get("value") or "").replace("\0", "\ufffd")
            lines = plain.replace("\r\n", "\n").replace("\r", "\n")
            self.fields[str(given["name"])] = lines.replace("\n", "\r\n")


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\0b", " a ", "a&name=b", "a%0Ab"])
def test_a_form_acts_on_the_name_that_its_page_shows(
    queue: FairQueue, visitor: Visitor, name: str
) -> None:
    """A browser changes line ends and NUL of a plain field."""
    queue.publish(b"", queue="q", workspace=name)
    queue.publish(b"", queue="q", workspace=name.strip() + "x", job_id="other")
    for lease in queue.claim(["q"], 2).leases:
        queue.reject(lease, reason="bad")
    page = _Forms(visitor.page(f"/workspace?{urlencode({'name': name})}")).found
    visitor.post("/act/pause", data=page["/act/pause"])
    visitor.post("/act/set-limits", data=page["/act/set-limits"] | {"concurrency": "3"})
    assert paused(queue) == {("workspace", name): Pause.PAUSED}
    assert queue.limits.get(Scope.workspace(name))["concurrency"].value == 3
    page = _Forms(visitor.page(f"/dead?{urlencode({'workspace': name})}")).found
    visitor.post("/act/delete-dead", data=page["/act/delete-dead"])
    assert [letter.job.id for letter in queue.dead.list()] == ["other"]


@pytest.mark.parametrize(
    ("action", "form"),
    [
        ("pause", {}),
        ("pause", {"scope": "workspace", "name": ""}),
        ("pause", {"scope": "galaxy", "name": "x"}),
        ("set-limits", {"name": "acme"}),
        ("set-limits", {"name": "acme", "concurrency": "many"}),
        ("set-limits", {"name": "acme", "concurrency": "-1"}),
        ("set-limits", {"name": "acme", "rate": "10/fortnight"}),
        ("set-limits", {"name": "", "concurrency": "1"}),
        ("set-limits", {"scope": "queue", "name": "q", "weight": "2"}),
        ("set-limits", {"scope": "galaxy", "name": "q", "concurrency": "2"}),
        ("unset-limits", {"scope": "queue", "name": ""}),
        ("replay-dead", {}),
        ("delete-dead", {"since": "yesterday"}),
        ("cancel", {}),
        ("explode", {}),
    ],
)
def test_a_bad_form_is_a_sentence(visitor: Visitor, action: str, form: dict[str, str]) -> None:
    """With code 400, and 404 where there is no such action."""
    assert "Problem" in visitor.act(action, code=404 if action == "explode" else 400, **form)


def test_an_open_page_follows(queue: FairQueue, visitor: Visitor) -> None:
    """It is sent its changing part at once, and again when that has changed."""
    queue.publish(b"", queue="q", workspace="acme")
    with visitor.stream("GET", "/live?page=/workspace&name=acme", timeout=20) as answer:
        lines = (line for line in answer.iter_lines() if line)
        assert next(lines) == "event: part"
        queue.publish(b"", queue="q", workspace="acme", task="new_task")
        assert any("new_task" in line for line in lines)


def test_the_doctor_mends_what_it_has_found(queue: FairQueue, visitor: Visitor) -> None:
    """The page has a button for that, what was done, and a remedy where no repair acts."""
    queue.publish(b"", queue="q", workspace="acme")
    engine = queue.store.shards[0].engine
    engine.command("HSET", engine.keys.key("progress"), "77", "nonsense")
    engine.command("SET", engine.keys.prefix + "strange", "x")
    visitor.act("examine")
    _wait_for(visitor, "Repair 1 finding")
    page = visitor.page("/doctor")
    assert "fairqueue doctor --repair" in page
    assert "give that one another prefix" in page
    assert "The repair has started." in visitor.act("repair")
    page = _wait_for(visitor, "What was done")
    assert "it was removed" in page
    assert "Repair 1 finding" not in page
    assert "nonsense" not in str(engine.command("HGETALL", engine.keys.key("progress")))
    engine.command("HSET", engine.keys.key("set_aside"), "job q x", "1 {}", "#job", 1)
    visitor.act("examine")  # what was read is remembered for a second, until something is done
    assert "Forget them" in visitor.page("/doctor")
    assert "Forgotten: 1 record." in visitor.act("forget-aside")
    assert queue.views.stats().set_aside == {}


def test_a_doctor_that_fails_says_so(
    queue: FairQueue, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The doctor can be asked again after an error that was not foreseen."""
    with monkeypatch.context() as patch:
        patch.setattr(type(queue.doctor), "checkup", lambda *_, **__: int("unforeseen"))
        visitor.act("examine")
        _wait_for(visitor, "ValueError")
    visitor.act("examine")
    _wait_for(visitor, "Every invariant holds.")


def _wait_for(visitor: Visitor, text: str) -> str:
    """Load the doctor's page until it has this."""
    found: str = wait_for(lambda: (page := visitor.page("/doctor")) and text in page and page)
    return found


@pytest.mark.parametrize("times", [1, 10])
def test_what_was_read_is_remembered_for_a_second(times: int) -> None:
    """However many visitors look, or some times as long; names do not pile up."""
    now, reads = [0.0], itertools.count(1)
    remembered = Remembered(lambda: now[0])

    def look(name: str = "x") -> int:
        return remembered.get(name, lambda: next(reads), times=times)

    assert (look(), look()) == (1, 1)
    now[0] = 0.9 * times
    assert look() == 1
    now[0] = 1.1 * times
    assert look() == 2
    remembered.forget()  # a change is seen at once
    assert look() == 3
    for n in range(2 * MOST):
        look(f"name {n}")
    assert len(remembered._values) <= MOST
    assert len(remembered._locks) <= MOST


def test_an_outage_is_remembered_for_a_second() -> None:
    """Visitors who look at once wait for one time-out, and are told what the first one is."""
    now, reads = [0.0], itertools.count(1)
    remembered = Remembered(lambda: now[0])

    def away() -> None:
        raise WorkspaceMoves(f"read {next(reads)}")

    def look() -> str:
        with pytest.raises(StoreUnavailable) as error:
            remembered.get("x", away, times=10)
        return str(error.value)

    assert [look(), look()] == [str(WorkspaceMoves("read 1"))] * 2
    now[0] = 1.1
    assert "read 2" in look()


def test_a_remembered_outage_holds_no_request() -> None:
    """Its traceback would lead to the request of the visitor who has met it."""
    remembered = Remembered()

    class Request:
        pass

    def away() -> None:
        try:
            os.close(-1)
        except OSError as error:
            raise StoreUnavailable("away") from error

    def visit() -> weakref.ref[Request]:
        request = Request()
        with contextlib.suppress(StoreUnavailable):
            remembered.get("x", away)
        return weakref.ref(request)

    visits = [visit() for _ in range(2)]
    gc.collect()
    assert [each() for each in visits] == [None, None]
