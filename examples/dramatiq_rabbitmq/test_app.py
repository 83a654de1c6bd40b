"""Unit tests of the app, without a server."""

import os

os.environ["APP_ENV"] = "test"

import pytest
from app import broker, mail, sent
from dramatiq import Worker

import fairqueue


@pytest.fixture
def worker():
    """A worker in this process."""
    worker = Worker(broker, worker_timeout=100, worker_threads=2)
    worker.start()
    yield worker
    worker.stop()
    broker.flush_all()


def test_a_mail_is_sent(worker):
    """Send and join, as with any StubBroker."""
    mail.send("welcome", tenant_id="ada")
    broker.join(mail.queue_name)
    worker.join()
    assert sent == [("ada", "welcome")]


def test_a_name_that_cannot_be_one_is_refused():
    """A customer without a name would be a mistake."""
    with pytest.raises(fairqueue.ConfigurationError):
        mail.send("welcome", tenant_id="x" * 300)
