"""The front door in several processes, with shards on two Redis servers: its limits hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fairqueue import FairQueue
from fairqueue._shards.placement import shard_of
from tests.nodes import data_node

PROCESSES, TOTAL, OF_WORKSPACE = 3, 6, 2
SETTINGS = f"?total_requests={TOTAL}&workspace_requests={OF_WORKSPACE}"
NAMES = [
    name
    for home in (0, 1)
    for name in [name for name in "abcdefghij" if shard_of(name, 2) == home][:2]
]
PROCESS = """
import json, sys, threading, time, redis
from fairqueue_web.wsgi import FairQueueMiddleware

url, namespace, ledger, seconds, *names = sys.argv[1:]
ledger, most, answers = redis.Redis.from_url(ledger), {}, []

def site(environ, start_response):
    places = [environ["HTTP_X_ORG"], "total"]
    try:
        for place, inside in [(each, ledger.incr(each)) for each in places]:
            most[place] = max(most.get(place, 0), inside)
        time.sleep(0.02)
        start_response("200 OK", [])
        return [b"served"]
    finally:
        for place in places:
            ledger.decr(place)

app = FairQueueMiddleware(site, url, namespace=namespace, workspace_from="header:X-Org",
                          wait_seconds=1.0, timeout_seconds=30.0)

def ask(name):
    body = app({"HTTP_X_ORG": name}, lambda status, headers: answers.append(int(status[:3])))
    try:
        list(body)
    finally:
        getattr(body, "close", lambda: None)()

def serve(name):
    until = time.monotonic() + float(seconds)
    while time.monotonic() < until:
        ask(name)

threads = [threading.Thread(target=serve, args=[name]) for name in names for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps([most, {each: answers.count(each) for each in set(answers)}]))
"""


@pytest.fixture
def hosts() -> Iterator[list[str]]:
    """Two servers."""
    nodes = [data_node().start() for _ in range(2)]
    yield [f"127.0.0.1:{node.port}" for node in nodes]
    for node in nodes:
        node.close()


def test_the_front_door_holds_its_limits_over_two_servers(hosts: list[str], namespace: str) -> None:
    """No more of a workspace, or of all, are inside than may be; and each shard serves its own."""
    url, ledger = f"redis://{','.join(hosts)}/0{SETTINGS}", f"redis://{hosts[0]}/0"
    command = [sys.executable, "-c", PROCESS, url, namespace, ledger, "1.5", *NAMES]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    children = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env=env) for _ in range(PROCESSES)
    ]
    try:
        found = [json.loads(child.communicate(timeout=60)[0]) for child in children]
    finally:
        for child in children:
            child.kill()
    inside = {place: max(most.get(place, 0) for most, _ in found) for place in (*NAMES, "total")}
    assert OF_WORKSPACE < inside["total"] <= TOTAL
    assert {inside[name] for name in NAMES} <= set(range(1, OF_WORKSPACE + 1))
    assert all(
        answers.get("200") and answers.keys() <= {"200", "429", "503"} for _, answers in found
    )
    with FairQueue(url, namespace=namespace) as queue:
        assert [queue.requests.in_flight(name) for name in NAMES] == [(0, 0, 0)] * len(NAMES)
