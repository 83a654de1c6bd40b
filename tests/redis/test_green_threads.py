"""Native threads of a process with greenlets keep to connections of their own."""

from __future__ import annotations

import pytest

from tests.scripts import failure_of
from tests.system.needs import needs

pytestmark = pytest.mark.system

HISTORY = """
from gevent import monkey, sleep
monkey.patch_all()
import sys
from fairqueue import FairQueue

url, namespace = sys.argv[1:]
with FairQueue(url, namespace=namespace, history=10) as queue:
    queue.publish(b"", queue="q", workspace="w")
    queue.ack(queue.claim(["q"], 1).leases[0])
    while not queue.history.list():
        queue.store.close()  # as after an outage: the next call connects
        sleep(0.3)
"""


def test_a_history_that_writes_after_an_outage(redis_url: str, namespace: str) -> None:
    """A greenlet cannot wait on a socket that another thread's event loop has opened."""
    needs("gevent")
    assert not failure_of(HISTORY, redis_url, namespace)
