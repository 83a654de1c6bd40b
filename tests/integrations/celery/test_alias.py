"""``fairqueue://`` works without an import by the user."""

from __future__ import annotations

import subprocess
import sys

import pytest


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


@pytest.mark.parametrize(
    ("imports", "app"),
    [
        ("from celery import Celery, group", "Celery('x', broker=URL)"),
        ("from celery import group, Celery", "Celery('x', broker=URL)"),
        ("from kombu import Queue; from celery import Celery, group", "Celery('x', broker=URL)"),
        ("from celery import Celery, group", "configured(Celery('x'))"),
    ],
    ids=["celery-first", "group-first", "kombu-first", "settings-later"],
)
@pytest.mark.parametrize("by_name", [False, True])
def test_the_first_group_of_a_process_is_admitted_whole(
    imports: str, app: str, *, by_name: bool
) -> None:
    """The transport is there before it is sent, whatever is imported first."""
    task = "app.signature('work')" if by_name else "app.task(work, name='work').s()"
    out = run(
        f"{imports}\n"
        "URL = 'fairqueue+memory://first?workspace_capacity=5'\n"
        "def configured(app):\n"
        "    app.config_from_object({'broker_url': URL})\n"
        "    return app\n"
        "def work():\n"
        "    pass\n"
        f"app = {app}\n"
        f"task = {task}.set(workspace='ada')\n"
        "try:\n"
        "    group([task.clone() for _ in range(6)]).apply_async()\n"
        "except Exception as error:\n"
        "    print(type(error).__name__)\n"
        "import fairqueue_celery\n"
        "print(fairqueue_celery.queue_of(app).depth('celery'))\n"
    )
    assert out.splitlines() == ["CapacityExceeded", "0"]


def test_another_broker_loads_nothing() -> None:
    """An app with another URL does not import the adapter."""
    out = run(
        "from celery import Celery\n"
        "import sys\n"
        "app = Celery('x', broker='memory://')\n"
        "app.send_task('work')\n"
        "print('fairqueue_celery' in sys.modules)\n"
    )
    assert out == "False"
