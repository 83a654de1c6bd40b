"""``fairqueue://`` works without an import by the user."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_celery_knows_the_scheme() -> None:
    """Celery resolves the transport; the alias module imports neither redis nor the adapter."""
    out = run(
        "import celery, sys\n"
        "from kombu import Connection\n"
        "import kombu.serialization\n"
        "print('redis' in sys.modules, 'fairqueue_celery' in sys.modules)\n"
        "print(Connection('fairqueue://localhost/0').transport_cls)\n"
        "from kombu.transport import get_transport_cls\n"
        "print(get_transport_cls('fairqueues').__module__)\n"
    )
    assert out.splitlines() == ["False False", "fairqueue", "fairqueue_celery.transport"]


def test_no_decoder_is_registered() -> None:
    """The entry point does not change kombu's serializers."""
    out = run(
        "from kombu.serialization import registry\n"
        "print('application/x-fairqueue' in registry._decoders, 'fairqueue' in registry._encoders)"
    )
    assert out == "False False"


def test_it_never_raises() -> None:
    """The alias module loads even if kombu is missing or has changed."""
    out = run(
        "import sys\n"
        "sys.modules['kombu'] = None\n"
        "import fairqueue_kombu_alias\n"
        "print(fairqueue_kombu_alias.no_serializer)"
    )
    assert out == "(None, None, 'application/x-fairqueue')"


def test_importing_the_package_is_enough_without_entry_points() -> None:
    """A frozen app imports fairqueue_celery itself."""
    out = run(
        "import kombu.transport as t\n"
        "t.TRANSPORT_ALIASES.pop('fairqueue', None)\n"
        "import fairqueue_celery\n"
        "print(t.TRANSPORT_ALIASES['fairqueue'])"
    )
    assert out == "fairqueue_celery.transport:Transport"
