"""Runs the tests of Dramatiq's own sdist on brokers with the middleware: ``make dramatiq-own``."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).parent

LEFT_OUT = {
    "test_cli.py": "the command line: its brokers are made in the test files, on the default port",
    "test_pidfile.py": "the same",
    "test_watch.py": "the same",
    "test_rabbitmq.py": "every test names the default port of somebody's RabbitMQ",
}

EXCEPTIONS = {
    "test_redis.py::test_redis_broker_can_connect_via_url": "names the default port",
    "test_redis.py::test_redis_broker_can_connect_via_client": "names the default port",
    "test_redis.py::test_redis_dead_lettered_messages_are_cleaned_up": "needs a broker with other "
    "settings than the fixtures here make (fails without the middleware, too)",
    "test_actors.py::test_actors_can_be_sent_messages": "looks into the StubBroker's queue",
    "test_stub_broker.py::test_stub_broker_can_be_flushed": "looks into the StubBroker's queue",
    "test_stub_broker.py::test_stub_broker_respects_prefetch": "counts messages in the broker",
    "test_actors.py::test_actors_can_prioritize_work": "wants all messages prefetched by a worker: "
    "here they wait in the core, in the order of their priority",
    "test_worker.py::test_workers_process_messages_in_order": "the same",
    "test_worker.py::test_exception_from_actor_doesnt_leak": "replaces a method of a private "
    "class of the StubBroker's; tests/integrations/dramatiq/test_features.py has the same for ours",
    "test_redis.py::test_redis_consumer_ack_can_retry_on_connection_error": "mocks do_ack",
    "test_redis.py::test_redis_consumer_nack_can_retry_on_connection_error": "mocks do_nack",
    "test_redis.py::test_redis_consumer_nack_does_not_raise_on_missing_id": "makes a message that "
    "no consumer has given",
    "test_redis.py::test_redis_messages_belonging_to_missing_actors_are_rejected": "looks into "
    "the broker's keys at once: here the message waits for a newer worker for up to an hour; "
    "tests/system/dramatiq/test_worker.py has what we do",
    "test_redis.py::test_redis_join_race_condition": "mocks do_qsize",
    "test_redis.py::test_redis_unacked_messages_can_be_requeued": "looks into the broker's keys",
    "test_redis.py::test_redis_requeues_unhandled_messages_on_shutdown": "the same",
    "test_redis.py::test_redis_requeues_unhandled_delay_messages_on_shutdown": "the same",
}


def unpack(folder: Path) -> Path:
    """Fetch the sdist of the installed version; return its tests, with the fixtures it lacks."""
    version = importlib.metadata.version("dramatiq")
    options = ["--quiet", "--no-deps", "--no-binary", "dramatiq", "--dest", str(folder)]
    fetch = [sys.executable, "-m", "pip", "download", *options, f"dramatiq=={version}"]
    subprocess.run(fetch, check=True)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    tests = folder / f"dramatiq-{version}" / "tests"
    (tests / "__init__.py").touch()
    (tests / "conftest.py").write_text((HERE / "fixtures.py").read_text())
    (tests / "common.py").write_text((HERE / "common.py").read_text())
    return tests


def run() -> int:
    """Print which tests are left out and why, then run the others."""
    for name, reason in {**LEFT_OUT, **EXCEPTIONS}.items():
        print(f"left out: {name}: {reason}")  # noqa: T201
    with tempfile.TemporaryDirectory(prefix="dramatiq-own-") as folder:
        tests = unpack(Path(folder))
        options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tests.parent)]
        options += [f"--ignore={tests / name}" for name in LEFT_OUT]
        options += [f"--deselect=tests/{name}" for name in EXCEPTIONS]
        command = [sys.executable, "-m", "pytest", *options, *sys.argv[1:], str(tests)]
        return subprocess.run(command, cwd=tests.parent, check=False).returncode


if __name__ == "__main__":
    sys.exit(run())
