"""What kombu's connection shows, and how it reads failover URLs."""

from __future__ import annotations

import subprocess
import sys

from kombu import Connection

from fairqueue_celery._config.address import read_address

SECRET = "sesame"


def test_inspect_does_not_show_the_password() -> None:
    """The password is only in ``password``, which Celery does not show, and is still used."""
    for url in (
        f"fairqueue://me:{SECRET}@h:1/2?lease_seconds=3",
        f"fairqueue+socket://:{SECRET}@/p",
    ):
        connection = Connection(url)
        transport = connection.transport
        shown = {name: value for name, value in connection.info().items() if name != "password"}
        assert SECRET not in str(shown)
        assert connection.info()["password"] == SECRET
        clone = connection.clone()
        assert read_address(clone).password == SECRET
        assert clone.transport.broker is transport.broker


def test_failover_urls_may_carry_settings() -> None:
    """The settings of each URL hold for all, and kombu can switch to the next URL."""
    connection = Connection("fairqueue://dead:1/0;fairqueue://live:2/0?workspace_from=kwarg:t")
    sources = connection.transport.broker.settings.workspace_from
    connection.maybe_switch_next()
    assert (connection.hostname, connection.port) == ("live", 2)
    assert sources == connection.transport.broker.settings.workspace_from == ("kwarg:t",)


def test_kombu_alone_does_not_import_celery() -> None:
    """A process that uses kombu without Celery starts without it, also after a publish."""
    code = (
        "import sys, kombu; connection = kombu.Connection('fairqueue+memory://alone'); "
        "connection.SimpleQueue('plain').put('x'); sys.exit('celery' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
