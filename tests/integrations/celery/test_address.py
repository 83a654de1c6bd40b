"""Broker URLs, broker_transport_options, and what kombu shows of a connection."""

from __future__ import annotations

import ssl
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest
import redis
from celery import Celery
from celery.contrib.testing.worker import start_worker
from kombu import Connection

from fairqueue import ConfigurationError
from fairqueue._stores.redis.address import client_at
from fairqueue.testing import EmbeddedServer
from fairqueue_celery._config.address import join_sentinels, read_address, read_url
from fairqueue_celery._config.options import sentinel_options, split_options
from fairqueue_celery.backend import stock_url
from tests.integrations.celery.conftest import OpenApp
from tests.system.ledger import wait_for


@pytest.mark.parametrize(
    ("url", "core"),
    [
        ("fairqueue://", "redis://localhost:6379/0"),
        ("fairqueue://h:1234/5", "redis://h:1234/5"),
        ("fairqueue://u:p%40ss@h/1", "redis://u:p%40ss@h:6379/1"),
        ("fairqueue://:secret@h", "redis://:secret@h:6379/0"),
        ("fairqueue://[::1]:7/0", "redis://[::1]:7/0"),
        ("fairqueues://h/0", "rediss://h:6379/0?ssl_cert_reqs=required"),
        ("fairqueues://h/0?ssl_cert_reqs=CERT_NONE", "rediss://h:6379/0?ssl_cert_reqs=none"),
        ("fairqueue+socket:///run/redis.sock", "unix:///run/redis.sock"),
        ("fairqueue+memory://", "memory://"),
        ("fairqueue://h/0?username=u&password=secret", "redis://u:secret@h:6379/0"),
    ],
)
def test_urls(url: str, core: str) -> None:
    """Each scheme maps to its core URL, read from a URL or from kombu's connection, and masked."""
    assert read_url(url.replace("fairqueue+", "")).core_url({}) == core
    assert read_address(Connection(url)).core_url({}) == core
    assert "secret" not in Connection(url).as_uri()


@pytest.mark.parametrize(
    ("url", "core", "shown", "results"),
    [
        (
            "fairqueue://a,b:7/2",
            "redis://a:6379,b:7/2",
            "fairqueue://a:6379,b:7/2",
            "redis://a:6379/2",
        ),
        (
            "fairqueue://u:p%40,ss@a:1,b:2/0?shards=4&workspace_concurrency=2",
            "redis://u:p%40%2Css@a:1,b:2/0",
            "fairqueue://u:**@a:1,b:2/0",
            "redis://u:p%40%2Css@a:1/0",
        ),
        (
            "fairqueue://:secret@a:1,b:2,c:3",
            "redis://:secret@a:1,b:2,c:3/0",
            "fairqueue://:**@a:1,b:2,c:3/0",
            "redis://:secret@a:1/0",
        ),
        (
            "fairqueue://[::1]:7,[::2]:8/0",
            "redis://[::1]:7,[::2]:8/0",
            "fairqueue://[::1]:7,[::2]:8/0",
            "redis://[::1]:7/0",
        ),
        (
            "fairqueues://u:p@a:1,b:2/0?ssl_cert_reqs=none",
            "rediss://u:p@a:1,b:2/0?ssl_cert_reqs=none",
            "fairqueues://u:**@a:1,b:2/0",
            "rediss://u:p@a:1/0?ssl_cert_reqs=none",
        ),
    ],
)
def test_several_servers(url: str, core: str, shown: str, results: str) -> None:
    """The core gets all of them, with one login; results are kept on the first."""
    with Connection(url) as connection:
        assert read_address(connection).core_url({}) == core
        assert connection.transport.broker.url == core
        assert connection.as_uri() == shown
        assert "%40" not in str(connection.info()["hostname"])
    assert read_url(url).core_url({}) == core
    assert stock_url(url) == results


def test_broker_use_ssl_is_read() -> None:
    """The app's TLS options are used, given as constants or as words."""
    connection = Connection(
        "fairqueue://h/0",
        ssl={"ssl_cert_reqs": ssl.CERT_NONE, "ssl_ca_certs": "/ca.pem", "ssl_certfile": None},
    )
    core = read_address(connection).core_url({})
    assert core == "rediss://h:6379/0?ssl_cert_reqs=none&ssl_ca_certs=%2Fca.pem"


@pytest.mark.parametrize(
    ("url", "about"),
    [
        ("fairqueue://h/jobs", "database"),
        ("fairqueue://h:port/0", "port"),
        ("fairqueue://h:1,i:port/0", "port"),
        ("fairqueue://h:1,/0", "host"),
        ("fairqueues://h/0?ssl_cert_reqs=maybe", "ssl_cert_reqs"),
        ("fairqueue+cluster://h/jobs", "database"),
        ("fairqueue+sentinel://h/mymaster/jobs", "database"),
    ],
)
def test_bad_urls(url: str, about: str) -> None:
    """The error names the part of the URL that is wrong."""
    with pytest.raises(ConfigurationError, match=about):
        read_url(url)


@pytest.mark.parametrize(
    ("url", "core"),
    [
        ("fairqueue+cluster://u:p@h:1,i/0", "redis+cluster://u:p@h:1,i/0"),
        ("fairqueues+cluster://h", "rediss+cluster://h/0?ssl_cert_reqs=required"),
        ("fairqueue+sentinel://h:1,i/svc/2", "redis+sentinel://h:1,i/svc/2"),
        ("fairqueue+sentinel://u:p@h:1,i/svc", "redis+sentinel://u:p@h:1,i/svc/0"),
        ("fairqueue+sentinel://h/2", "redis+sentinel://h/2"),
        ("fairqueues+sentinel://h/svc", "rediss+sentinel://h/svc/0?ssl_cert_reqs=required"),
        (
            "fairqueue+sentinel://h:1/svc/0;fairqueue+sentinel://i:2",
            "redis+sentinel://h:1,i:2/svc/0",
        ),
    ],
)
def test_the_address_of_sentinels(url: str, core: str) -> None:
    """Several in one URL, or in several as stock kombu has them."""
    with Connection(url) as connection:
        join_sentinels(connection)
        assert read_address(connection).core_url({}) == core


def test_the_options_of_sentinels() -> None:
    """Celery's own names, and those in a URL, become those of the core's URL."""
    kwargs = {"password": "p", "ssl": True, "ssl_cert_reqs": ssl.CERT_NONE}
    given = {"master_name": "svc", "sentinel_kwargs": kwargs, "min_other_sentinels": 1}
    settings, of_kombu = split_options(
        {**given, "lease_seconds": 5}, {"sentinel_username": "u"}, of_sentinels=True
    )
    assert settings == {"lease_seconds": 5}
    assert sentinel_options(of_kombu) == {
        "master_name": "svc",
        "min_other_sentinels": "1",
        "sentinel_password": "p",
        "sentinel_ssl": "true",
        "sentinel_ssl_cert_reqs": "CERT_NONE",
        "sentinel_username": "u",
    }


def test_stock_options_are_kept_apart() -> None:
    """Stock options stay kombu's, settings are split off, the key prefix extends the namespace."""
    settings, of_kombu = split_options(
        {"visibility_timeout": 3600, "lease_seconds": 5, "global_keyprefix": "mine-"}, {}
    )
    assert settings == {"lease_seconds": 5, "namespace": "mine-fairqueue"}
    assert of_kombu == {"visibility_timeout": 3600, "global_keyprefix": "mine-"}


def test_settings_in_the_query() -> None:
    """Kombu accepts them there; broker_transport_options override them."""
    address = read_address(
        Connection("fairqueue://h/0?workspace_from=kwarg:t&workspace_capacity=7")
    )
    settings, _ = split_options({"workspace_capacity": 5}, address.query)
    assert settings == {"workspace_from": "kwarg:t", "workspace_capacity": 5}
    assert address.core_url({}) == "redis://h:6379/0"


@pytest.mark.parametrize(
    ("given", "stock"),
    [
        ("fairqueue://h:1/2?workspace_concurrency=2", "redis://h:1/2"),
        ("socket:///run/redis.sock?workspace_from=arg:0", "socket:///run/redis.sock"),
        ("fairqueues://h/0?ssl_cert_reqs=none", "rediss://h:6379/0?ssl_cert_reqs=none"),
    ],
)
def test_the_result_backends_url(given: str, stock: Any) -> None:
    """The Redis backend gets the address without fairqueue's settings."""
    assert stock_url(given) == stock


@pytest.mark.parametrize(
    ("query", "setting", "seconds"),
    [("", {}, 5), ("?socket_timeout=120", {}, 120), ("", {"redis_socket_timeout": 120.0}, 120)],
)
def test_a_result_waits_as_long_as_a_call_or_as_the_user_says(
    query: str, setting: dict[str, float], seconds: float
) -> None:
    """Celery's default of two minutes is no choice of the user; the same number may be one."""
    app = Celery(backend=f"fairqueue://h/0{query}")
    app.conf.update(setting)
    assert app.backend.connparams["socket_timeout"] == seconds


@pytest.mark.parametrize(
    "password", ["S3c/t", "12/S3c", "S3c?t", "1?S3c=x", "S3c#t", "S3c;word:S3c", "12;S3c:S3c"]
)
@pytest.mark.parametrize("form", ["fairqueue://:{}@h:1/0", "fairqueue://h;fairqueue://:{}@i:1/0"])
def test_a_raw_password_is_refused_and_not_shown(form: str, password: str) -> None:
    """Neither by this transport nor by kombu, which splits a list of URLs at each ``;``."""
    with (
        Connection(form.format(password)) as connection,
        pytest.raises(ConfigurationError, match="percent-encoded") as caught,
    ):
        connection.ensure_connection(max_retries=1)
    assert "S3c" not in str(caught.value)


@pytest.mark.parametrize("where", ["query", "options"])
def test_sentinels_option_is_refused(where: str) -> None:
    """``master_name`` on the URL of one Redis would be ignored; the error has the remedy."""
    url = "fairqueue://localhost" + ("?master_name=mymaster" if where == "query" else "")
    options = {} if where == "query" else {"master_name": "mymaster"}
    with (
        Connection(url, transport_options=options) as connection,
        pytest.raises(ConfigurationError, match=r"master_name.*Sentinel.*one Redis primary"),
    ):
        connection.transport  # noqa: B018 - a property that makes it


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


def test_celery_reports_the_version(open_app: OpenApp, socket_url: str) -> None:
    """Of fairqueue behind this name, not that of redis-py."""
    assert f"fairqueue:{version('fairqueue')}" in open_app(socket_url).bugreport()


class Login(redis.CredentialProvider):
    """As a cloud's, whose password changes."""

    def get_credentials(self) -> tuple[str, str]:
        return "app", "secret"


def echo(n: int) -> int:
    return n


class Waiting(redis.CredentialProvider):
    """Of a server that is never asked."""


@pytest.mark.parametrize("address", ["h/0", "old:one@h/0"])
@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+sentinel", "redis+cluster"])
def test_a_provider_gives_user_and_password(scheme: str, address: str) -> None:
    """On any kind of server; those in the URL do not count."""
    where = address.replace("/0", "/mymaster/0") if "sentinel" in scheme else address
    client = client_at(f"{scheme}://{where}?credential_provider={__name__}.Waiting")
    options = client.connection_pool.connection_kwargs
    assert isinstance(options["credential_provider"], Waiting)
    assert {options.get(name) for name in ("username", "password")} == {None}


class Unset(redis.CredentialProvider):
    """Of a process that lacks a variable."""

    def __init__(self) -> None:
        raise KeyError("VAULT_ADDR")


class Unread(redis.CredentialProvider):
    """Of one whose variable is no number."""

    def __init__(self) -> None:
        raise ValueError("VAULT_PORT")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (f"{__name__}.Unset", "KeyError.*VAULT_ADDR"),
        (f"{__name__}.Unread", "VAULT_PORT"),
        ("Login", "Empty module name"),
    ],
)
def test_a_provider_that_cannot_be_made_says_why(name: str, why: str) -> None:
    """Not that the URL's host cannot be read, and not with a traceback."""
    with pytest.raises(ConfigurationError, match=f"^credential_provider.*{why}"):
        client_at(f"redis://h/0?credential_provider={name}")


@pytest.mark.parametrize("name", ["nowhere.Login", "os.getcwd"])
def test_a_wrong_provider_is_named(name: str) -> None:
    """As the setting that it is of."""
    with pytest.raises(ConfigurationError, match=f"credential_provider.*{name.rpartition('.')[2]}"):
        client_at(f"redis://h/0?credential_provider={name}")


@pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")
def test_an_app_logs_in_with_a_provider(own_server: EmbeddedServer, open_app: OpenApp) -> None:
    """Named as in kombu's URL: the core, kombu's own connections and the results."""
    admin = own_server.client()
    admin.execute_command("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
    admin.execute_command("ACL", "SETUSER", "default", "off")
    url = own_server.url.replace("unix://", "fairqueue+socket://")
    app = open_app(f"{url}?credential_provider={__name__}:Login")
    app.conf.result_backend = app.conf.broker_url
    app.task(name="echo", shared=False)(echo)
    result = app.send_task("echo", (42,))
    with start_worker(app, perform_ping_check=False, shutdown_timeout=60):
        assert result.get(timeout=30) == 42
        wait_for(lambda: app.control.ping(timeout=1, limit=1))
