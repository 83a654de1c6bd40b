"""The commands on the queue of a Celery app or a Dramatiq broker, without a URL."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner, Result

from fairqueue import FairQueue, Scope
from fairqueue._stores.layout import Mark, write_mark
from fairqueue.cli import main, of_celery
from fairqueue.cli._typed import PREFIX, as_typed
from tests.pauses import paused as held

BROKER = """
import os
from dramatiq.brokers.stub import StubBroker
from fairqueue_dramatiq import FairQueueMiddleware
import dramatiq

class Shop:
    broker = StubBroker()

Shop.broker.add_middleware(
    FairQueueMiddleware(url=os.environ["SHOP_URL"], namespace=os.environ["SHOP_NAMESPACE"])
)
dramatiq.set_broker(Shop.broker)
number = 5
"""


@pytest.fixture
def queue(queue: FairQueue) -> FairQueue:
    """A job of acme waits."""
    queue.publish(b"", queue="q", workspace="acme", task="t")
    return queue


def of_app(url: str, *command: str) -> Result:
    """Run a command as ``celery -A shop fairqueue`` does."""
    context = CLIContext(Celery("shop", broker=url), no_color=True, workdir=None)
    return CliRunner().invoke(of_celery, command, obj=context)


@pytest.mark.usefixtures("queue")
def test_celery_gives_the_commands_its_own_broker(redis_url: str, namespace: str) -> None:
    """With the app's namespace, and without storing its limits; a URL on the line overrides."""
    path = redis_url.removeprefix("unix://")
    url = f"fairqueue+socket://{path}?namespace={namespace}&workspace_concurrency=2"
    found = json.loads(of_app(url, "stats", "--json").stdout)
    assert [row["workspace"] for row in found["workspaces"]] == ["acme"]
    assert (found["url"], found["namespace"]) == (f"{url} (app shop)", namespace)
    assert json.loads(of_app(url, "doctor", "--json").stdout)["url"] == found["url"]
    assert json.loads(of_app(url, "limits", "get", "--json").stdout) == {"limits": []}
    assert of_app(url, "pause", "--workspace", "acme").exit_code == 0
    other = of_app("amqp://", "stats", "--json", "--url", redis_url, "--namespace", namespace)
    assert json.loads(other.stdout)["pauses"][0]["name"] == "acme"
    assert "demo" not in of_app(url, "--help").stdout


def test_problems_of_an_app_are_sentences(redis_url: str) -> None:
    """Another broker, no connection, and a namespace without a URL."""
    stock = of_app("redis://:hunter2@h", "stats")
    assert (stock.exit_code, "is not fairqueue" in stock.output) == (2, True)
    away = of_app("fairqueue://:hunter2@127.0.0.1:1/0", "ps")
    assert away.exit_code == 3
    assert "fairqueue://:**@127.0.0.1:1/0 (app shop): Redis cannot be reached" in away.output
    assert of_app("fairqueue://h", "ps", "--namespace", "x").exit_code == 2
    assert "hunter2" not in stock.output + away.output


@pytest.fixture
def shop_module(
    redis_url: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """A module with a broker, in the current folder."""
    name = f"shop_{os.urandom(4).hex()}"
    (tmp_path / f"{name}.py").write_text(BROKER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_URL", redis_url)
    monkeypatch.setenv("SHOP_NAMESPACE", namespace)
    return name


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize("name", ["", ":Shop.broker"])
def test_a_dramatiq_broker_is_imported(shop_module: str, name: str) -> None:
    """By the name in its module, or as the global one, in a process of its own."""
    command = ["-m", "fairqueue.cli", "--broker", shop_module + name, "jobs", "--json"]
    done = subprocess.run([sys.executable, *command], check=True, capture_output=True)
    assert [job["workspace"] for job in json.loads(done.stdout)["jobs"]] == ["acme"]


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("no_such_module", "cannot import --broker 'no_such_module': ModuleNotFoundError"),
        ("json:nothing", "AttributeError"),
        ("json:loads", "of type function, not a Dramatiq broker"),
        ("", "cannot import --broker ''"),
        ("\x1b[2J", "cannot import"),
        ("redis://:hunter2@h/0", "no URL"),
    ],
)
def test_a_broker_that_is_none_is_exit_code_2(reference: str, problem: str) -> None:
    """With a sentence that cannot steer the terminal."""
    result = CliRunner().invoke(main, ["--broker", reference, "ps"])
    assert result.exit_code == 2, result.output
    assert problem in result.output
    assert "\x1b" not in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("dramatiq", ["--broker", "shop", "ps"]),
        ("celery", ["migrate", "celery", "--from", "redis://h"]),
    ],
)
def test_a_framework_that_cannot_be_imported_is_a_sentence(
    tmp_path: Path, package: str, command: list[str]
) -> None:
    """Which names the file: often one of the user's that has the package's name."""
    (tmp_path / f"{package}.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "fairqueue.cli", *command],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 2
    assert re.match(r"Error: .* cannot import what it needs: cannot import", done.stderr)
    assert f"{tmp_path}/{package}.py" in done.stderr


REMEDY = r"to resume it: (.*)$"


def _remedy(said: str) -> str:
    found = re.search(REMEDY, said, re.MULTILINE)
    assert found is not None, said
    return found[1]


@pytest.fixture
def paused(queue: FairQueue) -> FairQueue:
    """The queue of the job is paused."""
    queue.pauses.pause(Scope.queue("q"))
    return queue


@pytest.mark.parametrize(
    "given",
    [
        ["--app=shops:app", "--no-color"],
        ["-A", "shops:app", "--workdir", "a folder; echo 'x'"],
    ],
)
def test_a_remedy_of_celery_is_a_command_of_celery(
    paused: FairQueue, redis_url: str, namespace: str, tmp_path: Path, given: list[str]
) -> None:
    """It begins as the user began, quoted, and can be run as it stands."""
    url = redis_url.replace("unix://", "fairqueue+socket://") + f"?namespace={namespace}"
    folder = tmp_path / "a folder; echo 'x'"
    folder.mkdir()
    for place in (tmp_path, folder):
        (place / "shops.py").write_text(
            f"import celery; app = celery.Celery('shop', broker={url!r})"
        )
    program = [sys.executable, "-m", "celery", *given, "fairqueue", "workspace", "acme"]
    done = subprocess.run(program, cwd=tmp_path, check=True, capture_output=True, text=True)
    remedy = _remedy(done.stdout)
    assert remedy == f"python -m celery {shlex.join(given)} fairqueue resume --queue q"
    words = shlex.split(remedy)
    assert words[0] == "python"
    subprocess.run([sys.executable, *words[1:]], cwd=tmp_path, check=True, capture_output=True)
    assert held(paused) == {}


def test_a_remedy_has_the_broker_of_dramatiq(paused: FairQueue, shop_module: str) -> None:
    """As it was given to the program."""
    reference = f"{shop_module}:Shop.broker"
    command = ["-m", "fairqueue.cli", "--broker", reference, "workspace", "acme"]
    done = subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True)
    said = _remedy(done.stdout)
    assert said == f"fairqueue --broker {reference} resume --queue q"
    again = [sys.executable, "-m", "fairqueue.cli", *shlex.split(said)[1:]]
    subprocess.run(again, check=True, capture_output=True)
    assert held(paused) == {}


def test_a_remedy_has_the_url_that_was_given(paused: FairQueue, redis_url: str) -> None:
    """Quoted for a shell, with its password masked, and behind the command that it is for."""
    namespace = paused.settings.namespace
    runner, url = CliRunner(), f"{redis_url}?client_name=a'b&password=hunter2"
    where = ["--url", url, "--namespace", namespace]
    shown = ["--url", url.replace("hunter2", "**"), "--namespace", namespace]
    told = runner.invoke(main, ["workspace", "acme", "--url", redis_url, "--namespace", namespace])
    resume = ["fairqueue", "resume", "--url", redis_url, "--namespace", namespace, "--queue", "q"]
    assert _remedy(told.output) == shlex.join(resume)
    by_name = runner.invoke(main, ["workspace", "acme"], env={"FAIRQUEUE_URL": redis_url})
    assert "--url" not in by_name.output
    paused.pauses.resume(Scope.queue("q"))
    paused.limits.set(Scope.workspace("acme"), concurrency=0)
    with click.Context(main, info_name="fairqueue") as root:
        parser = main.commands["workspace"].make_context("workspace", ["acme", *where], root)
        with parser:
            limited = as_typed("to raise it: fairqueue limits set concurrency=N --workspace acme")
    set_it = ["fairqueue", "limits", "set", *shown, "concurrency=N", "--workspace", "acme"]
    assert shlex.split(limited.removeprefix("to raise it: ")) == set_it
    assert "hunter2" not in limited


def test_a_reshard_is_told_so_that_it_can_be_copied(
    queue: FairQueue, redis_url: str, namespace: str
) -> None:
    """Not with the URL that was refused, and not in two pairs of quotes."""
    refused = CliRunner().invoke(main, ["stats", "--url", f"{redis_url}?shards=2", *of(namespace)])
    assert "run fairqueue's 'reshard --to 2' with shards=1" in refused.output
    write_mark(queue.store.shards[0].engine, "HSET", Mark(1, to=2))
    told = CliRunner().invoke(main, ["doctor", "--url", redis_url, *of(namespace)])
    again = ["fairqueue", "reshard", "--url", redis_url, *of(namespace), "--to", "2"]
    assert f"run {shlex.join(again)}" in told.output


def of(namespace: str) -> list[str]:
    return ["--namespace", namespace]


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("'fairqueue doctor' names them", "'celery -A x fairqueue doctor' names them"),
        ("see fairqueue dead list", "see celery -A x fairqueue dead list"),
        ("fairqueue dead", "celery -A x fairqueue dead"),
        ("fairqueue needs 6.2, fairqueue demon", "fairqueue needs 6.2, fairqueue demon"),
        ("pip install fairqueue; /bin/fairqueue stats", None),
    ],
)
def test_only_commands_are_written_as_typed(text: str, typed: str | None) -> None:
    """Other sentences with the program's name stay as they are."""
    with click.Context(of_celery, info_name="fairqueue") as context:
        context.meta[PREFIX] = "celery -A x fairqueue"
        assert as_typed(text) == (typed or text)
    assert as_typed(text) == text  # outside of a command
