"""An app with celery-redbeat needs a URL for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys, types
from celery import Celery
sys.modules["redbeat"] = types.ModuleType("redbeat")  # stands for the package
app = Celery(broker=sys.argv[1])
app.conf.redbeat_redis_url = sys.argv[2] or None
app.connection().as_uri()
app.connection().as_uri()
"""


@pytest.mark.parametrize(
    ("broker", "url", "warnings"),
    [
        ("fairqueue://localhost", "", 1),
        ("fairqueue://localhost", "redis://localhost/1", 0),
        ("redis://localhost", "", 0),
    ],
)
def test_a_missing_redbeat_redis_url_is_told(broker: str, url: str, warnings: int) -> None:
    """Once, when the process first connects, which beat does before it starts."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, broker, url], check=True, capture_output=True, text=True
    )
    assert done.stderr.count("set redbeat_redis_url to the redis:// URL") == warnings
