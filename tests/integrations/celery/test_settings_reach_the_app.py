"""A wrong setting raises at the publish, with the setting's name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from fairqueue import ConfigurationError, FairQueue

BUSY = """
from celery import Celery

app = Celery("busy", broker="fairqueue+memory://busy")
app.conf.broker_transport_options = {"workspace_from": "busy:tenant_of"}
app.send_task("work")

def tenant_of(task, args, kwargs, headers):
    return "acme"
"""


@pytest.fixture
def core(redis_url: str, namespace: str) -> FairQueue:
    return FairQueue(redis_url, namespace=namespace)


def publish(socket_url: str, **options: Any) -> None:
    app = Celery("publisher", broker=socket_url)
    app.conf.broker_transport_options = options
    try:
        app.send_task("shop.work", (1,), {"customer": "ada"})
    finally:
        app.close()


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"workspace_concurency": 2}, "workspace_concurrency"),
        ({"workspace_concurrency": -1}, "workspace_concurrency"),
        ({"lease_seconds": "soon"}, "lease_seconds"),
        ({"workspace_from": "customer"}, "workspace_from"),
        ({"workspace_from": "no.such:function"}, "no.such:function"),
        ({"max_payload_bytes": 200}, r"task 'shop\.work' of workspace.* 200: store the data"),
    ],
)
def test_bad_settings_are_refused(
    socket_url: str, core: FairQueue, options: Any, about: str
) -> None:
    """Unknown and impossible settings raise with the setting's name; nothing is published."""
    with pytest.raises(ConfigurationError, match=about):
        publish(socket_url, **options)
    assert core.depth("celery") == 0


def test_the_module_of_a_resolver_may_publish(tmp_path: Path) -> None:
    """A publish while it is imported fails with the resolver's name, and does not hang."""
    (tmp_path / "busy.py").write_text(BUSY)
    command = [sys.executable, "busy.py"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "cannot import 'busy:tenant_of'" in done.stderr
