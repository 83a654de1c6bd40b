"""What a fresh process does: ``fairqueue://`` without an import, versions, other packages."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fairqueue import ConfigurationError
from fairqueue_celery._config.versions import check_versions, refuse_unsupported


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_celery_knows_the_scheme() -> None:
    """Celery resolves the transport; the alias module imports neither redis nor the adapter.

    The entry point does not change kombu's serializers.
    """
    out = run(
        "import celery, sys\n"
        "from kombu import Connection\n"
        "import kombu.serialization\n"
        "print('redis' in sys.modules, 'fairqueue_celery' in sys.modules)\n"
        "print(Connection('fairqueue://localhost/0').transport_cls)\n"
        "from kombu.transport import get_transport_cls\n"
        "print(get_transport_cls('fairqueues').__module__)\n"
        "from kombu.serialization import registry\n"
        "print('application/x-fairqueue' in registry._decoders, 'fairqueue' in registry._encoders)"
    )
    transports = ["fairqueue", "fairqueue_celery.transport"]
    assert out.splitlines() == ["False False", *transports, "False False"]


def test_it_never_raises() -> None:
    """The alias module loads even if kombu is missing or has changed."""
    out = run(
        "import sys\n"
        "sys.modules['kombu'] = None\n"
        "import fairqueue_kombu_alias\n"
        "print(fairqueue_kombu_alias.no_serializer)"
    )
    assert out == "(None, None, 'application/x-fairqueue')"


def test_celerys_program_imports_no_commands_before_they_are_called() -> None:
    """Also a worker of another broker loads the groups of all packages at its start."""
    out = run(
        "import sys\n"
        "from celery.bin.celery import celery\n"
        "print(celery.commands['fairqueue'].get_short_help_str())\n"
        "print('fairqueue' in sys.modules, 'pydantic' in sys.modules)\n"
        "from fairqueue.cli import of_celery\n"
        "print(of_celery.get_short_help_str())"
    )
    help_text, imported, of_group = out.splitlines()
    assert imported == "False False"
    assert help_text == of_group


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


def test_each_app_of_a_process_publishes_the_short_way() -> None:
    """Also an app that reads its settings after the transport was loaded."""
    out = run(
        "import celery\n"
        "from fairqueue_celery._channel.direct import producer_of\n"
        "def work(): pass\n"
        "for name in 'ab':\n"
        "    app = celery.Celery(name, broker='fairqueue+memory://', set_as_current=False)\n"
        "    task = app.task(name='work', shared=False)(work)\n"
        "    task.delay()\n"
        "    print(type(producer_of(app)).__name__)"
    )
    assert out.splitlines() == ["DirectProducer", "DirectProducer"]


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


def refused(installed: str) -> str:
    """What is said of this version of Celery; empty: nothing."""
    try:
        refuse_unsupported("celery", installed)
    except ConfigurationError as error:
        return str(error)
    return ""


def test_supported_versions() -> None:
    """Every 5.x from 5.3 on, and so the installed one; an error names what to install instead."""
    check_versions()
    assert [refused(f"5.{n}") for n in ("3.0", "3.6", "7.0", "8.0rc1", "10.2")] == [""] * 5
    for installed in ("4.4.7", "5.2.7", "6.0.0", "6.0.0b1"):
        assert f"{installed} is installed: pip install" in refused(installed)


@pytest.mark.parametrize("package", ["celery", "kombu"])
def test_the_url_of_an_unsupported_version_is_refused(package: str) -> None:
    """An app that only has the URL gets the reason from its first connection."""
    script = (
        "import sys\n"
        "from celery import Celery\n"
        "sys.modules[sys.argv[1]].__version__ = '6.1.0'\n"
        "Celery(broker='fairqueue://localhost').connection().transport\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, package],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert f"supports {package} from 5.3 up to, but not including, 6; 6.1.0 is" in done.stderr


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
