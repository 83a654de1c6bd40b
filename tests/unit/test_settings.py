"""Settings accept valid values, and reject others by name, with a remedy."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fairqueue import ConfigurationError, FairQueue, Limits, Settings
from fairqueue.adapters import settings_summary, split_settings


def refusal(**options: Any) -> str:
    """Return the message of the error that these options raise."""
    with pytest.raises(ConfigurationError) as caught:
        Settings.load(options)
    return str(caught.value)


def test_a_default_rate_is_stored_with_its_burst() -> None:
    """As text or as a number; a burst alone is refused."""
    stored = Settings.load({"workspace_rate": "30/m", "workspace_burst": "5"}).stored_limits()
    assert (stored.default.rate, stored.default.burst) == (0.5, 5)
    assert "set 'workspace_rate', too" in refusal(workspace_burst=2)


def test_settings_cannot_be_changed() -> None:
    """Nothing looks at them again."""
    with pytest.raises(AttributeError, match="lease_seconds"):
        Settings.load().lease_seconds = 5.0
    with pytest.raises(AttributeError, match="shards"):
        del Settings.load().shards
    assert Settings.load().queues is not Settings.load().queues


def test_settings_of_the_same_values_are_equal() -> None:
    """However these were given; what shows them shows names only."""
    settings = Settings(shards=2, limit_provider="secret:answer")
    assert settings == Settings(shards="2", limit_provider="secret:answer")
    assert settings != Settings(shards=2)
    assert repr(settings) == "<Settings of shards, limit_provider>"


@pytest.mark.parametrize("given", [True, 1, 1.0, "1", "TRUE", "yes"])
def test_a_boolean_may_be_a_word_or_a_number(given: Any) -> None:
    """As pages of configuration write it."""
    assert Settings(tracing=given).tracing is True
    assert Settings(tracing=not given).tracing is False
    assert "tracing" in refusal(tracing=2)


def test_numbers_may_come_as_text() -> None:
    """Text from a URL's query is read as a number, and "none" as None."""
    settings = Settings.load({"workspace_concurrency": "2", "max_deliveries": "none"})
    assert settings.workspace_concurrency == 2
    assert settings.max_deliveries is None


@pytest.mark.parametrize(
    ("given", "per_second"), [("100/s", 100), ("90/m", 1.5), ("36/h", 0.01), (2, 2), ("2.5", 2.5)]
)
def test_rates_may_be_in_celerys_notation(given: Any, per_second: float) -> None:
    """A rate is a number per second, or text with a count per s, m or h."""
    settings = Settings.load({"workspaces": {"acme": {"rate": given}}})
    assert settings.workspaces["acme"].rate == pytest.approx(per_second)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("kwarg:tenant_id", ("kwarg:tenant_id",)),
        ("arg:0,header:x", ("arg:0", "header:x")),
        (["kwarg:a", "app.accounts:find"], ("kwarg:a", "app.accounts:find")),
        ('["kwarg:a"]', ("kwarg:a",)),
    ],
)
def test_workspace_from_is_one_source_or_a_list(given: Any, read: tuple[str, ...]) -> None:
    """One source, a list, or text with commas; the order is kept."""
    assert Settings.load({"workspace_from": given}).workspace_from == read


def test_workspace_from_takes_functions() -> None:
    """Alone or in a list; the summary at a worker's start names them."""
    settings = Settings.load({"workspace_from": ["header:x", refusal]})
    assert settings.workspace_from == ("header:x", refusal)
    assert Settings.load({"workspace_from": refusal}).workspace_from == (refusal,)
    line = settings_summary(FairQueue("memory://", settings=settings))
    assert f"workspace from header:x, {__name__}:refusal" in line


@pytest.mark.parametrize("given", ["", "account", "arg:x", "kwarg:", [], 3, ["header:a", None]])
def test_a_malformed_source_is_rejected(given: Any) -> None:
    """The error names the setting."""
    assert "'workspace_from'" in refusal(workspace_from=given)


def test_options_take_precedence_over_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """FAIRQUEUE_* variables apply where no option is given."""
    monkeypatch.setenv("FAIRQUEUE_WORKSPACE_CONCURRENCY", "7")
    monkeypatch.setenv("FAIRQUEUE_WORKSPACE_FROM", "kwarg:account")
    monkeypatch.setenv("FAIRQUEUE_WORKSPACES", '{"acme": {"concurrency": 1}}')
    assert Settings.load({}).workspace_concurrency == 7
    settings = Settings.load({"workspace_concurrency": None, "workspaces": {"b": {"weight": 2}}})
    assert settings.workspace_concurrency is None
    assert set(settings.workspaces) == {"b"}
    assert settings.workspace_from == ("kwarg:account",)


def test_what_a_queue_is_given_by_name_replaces_its_settings() -> None:
    """Nothing that stands in the call is left out, nor what only the settings say."""
    settings = Settings(namespace="shop", workspace_concurrency=2, lease_seconds=7)
    queue = FairQueue("redis://h/0?lease_seconds=8", settings=settings, namespace="mail")
    assert queue.settings == Settings(namespace="mail", workspace_concurrency=2, lease_seconds=8)
    with pytest.raises(ConfigurationError, match="bogus"):
        FairQueue("redis://h/0", settings=settings, bogus=1)


def test_a_misspelt_variable_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that is misspelt in the environment is not ignored."""
    monkeypatch.setenv("FAIRQUEUE_WORKSPACE_CONCURENCY", "2")
    assert refusal() == (
        "unknown setting 'FAIRQUEUE_WORKSPACE_CONCURENCY'; did you mean 'workspace_concurrency'?"
    )


@pytest.mark.parametrize(
    "name",
    [
        "URL",
        "DASHBOARD_TOKEN",
        "DASHBOARD_READ_TOKEN",
        "PORT_6379_TCP_ADDR",
        "SERVICE_HOST",
        "REDIS_PORT",
    ],
)
def test_variables_of_kubernetes_are_ignored(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A service named fairqueue does not keep pods from starting."""
    monkeypatch.setenv(f"FAIRQUEUE_{name}", "tcp://10.0.0.1:6379")
    assert Settings.load({"workspace_concurrency": 3}).workspace_concurrency == 3


def test_an_unknown_name_gets_a_suggestion() -> None:
    """The error for a misspelt option names the nearest setting; in an entry, with its path."""
    assert "'lease_second'; did you mean 'lease_seconds'?" in refusal(lease_second=3)
    assert "'lease'; did you mean 'lease_seconds'?" in refusal(lease=3)
    assert "known: namespace" in refusal(colour="red")
    assert "unknown setting 'self'" in refusal(self=2)
    text = refusal(workspaces={"acme": {"concurency": 1}})
    assert text == "workspaces.acme: unknown setting 'concurency'; did you mean 'concurrency'?"


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"workspace_concurrency": -1}, "workspace_concurrency"),
        ({"workspace_concurrency": True}, "workspace_concurrency"),
        ({"workspace_concurrency": "many"}, "workspace_concurrency"),
        ({"total_capacity": 1.5}, "total_capacity"),
        ({"lease_seconds": 0}, "lease_seconds"),
        ({"lease_seconds": "nan"}, "lease_seconds"),
        ({"dead_letter_seconds": "inf"}, "dead_letter_seconds"),
        ({"max_deliveries": 0}, "max_deliveries"),
        ({"fairness": "luck"}, "fairness"),
        ({"namespace": "a{b}"}, "namespace"),
        ({"namespace": "a\nb"}, "namespace"),
        ({"namespace": "n" * 101}, "namespace"),
        ({"default_workspace": ""}, "default_workspace"),
        ({"default_workspace": "\ud800"}, "default_workspace"),
        ({"workspaces": {"acme": {"weight": 0}}}, "workspaces.acme.weight"),
        ({"workspaces": {"acme": {"rate": "9/d"}}}, "workspaces.acme.rate"),
        ({"workspaces": {"acme": {"rate": 5e-324}}}, "workspaces.acme.rate"),
        ({"workspaces": {"acme": {"burst": 3}}}, "workspaces.acme"),
        ({"workspaces": {"acme": 3}}, "workspaces.acme"),
        ({"workspaces": {4.5: {}}}, "workspaces.4.5"),
        ({"workspaces": "{"}, "workspaces"),
        ({"queues": {"q" * 256: {}}}, "queues."),
        ({"queues": {"celery": {"capacity": -1}}}, "queues.celery.capacity"),
    ],
)
def test_an_impossible_value_names_its_setting(options: dict[str, Any], name: str) -> None:
    """The error names the setting and says what it expects."""
    text = refusal(**options)
    assert f"setting '{name}" in text
    assert "expected: " in text


def test_a_value_is_not_repeated() -> None:
    """A misplaced value might be a secret, so errors do not show it."""
    assert "hunter2" not in refusal(workspace_concurrency="redis://:hunter2@host")


@pytest.mark.parametrize(
    "options",
    [
        {"workspaces": {"acme": {"reserve": 3, "concurrency": 2}}},
        {"workspaces": {"acme": {"reserve": 3}}, "workspace_concurrency": 2},
    ],
)
def test_a_reserve_above_the_concurrency_is_rejected(options: dict[str, Any]) -> None:
    """It could never be used in full, whether the limit is its own or the default."""
    text = refusal(**options)
    assert "'workspaces.acme.reserve' is 3, above its concurrency of 2" in text


def test_a_reserve_up_to_the_concurrency_is_stored() -> None:
    """The workspace's own limit applies, not a lower default."""
    acme = {"reserve": 2, "concurrency": 2}
    settings = Settings.load({"workspaces": {"acme": acme}, "workspace_concurrency": 1})
    stored = settings.stored_limits().workspaces["acme"]
    assert (stored.reserve, stored.concurrency) == (2, 2)


def test_all_problems_are_reported_at_once() -> None:
    """One error names all settings that are wrong."""
    text = refusal(lease_seconds=0, fairness="luck")
    assert "lease_seconds" in text
    assert "fairness" in text


def test_stored_limits_are_those_that_were_set() -> None:
    """Limits that were not set are None, so that defaults apply."""
    settings = Settings.load(
        {
            "workspace_concurrency": 2,
            "queue_capacity": 9,
            "total_concurrency": 8,
            "workspaces": {"acme": {"concurrency": 3}, "b": {"weight": 2, "rate": 1, "burst": 4}},
            "queues": {"bulk": {"concurrency": 5}},
        }
    )
    stored = settings.stored_limits()
    assert stored.default == Limits(concurrency=2)
    assert stored.queue_default == Limits(capacity=9)
    assert stored.total == Limits(concurrency=8)
    assert stored.workspaces["acme"] == Limits(concurrency=3)
    assert stored.workspaces["b"] == Limits(weight=2, rate=1, burst=4)
    assert stored.queues == {"bulk": Limits(concurrency=5)}


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("concurrency", "did you mean 'workspace_concurrency'?"),
        ("capacity", "did you mean 'workspace_capacity'?"),
        ("rate", "did you mean 'workspace_rate'?"),
        ("weight", "it is a limit of single workspaces: workspaces={'NAME': {'weight': …}}"),
    ],
)
def test_a_limit_without_its_scope_is_explained(name: str, remedy: str) -> None:
    """As an option and in a URL, the hint is the setting that is meant."""
    assert refusal(**{name: 2}) == f"unknown setting {name!r}; {remedy}"
    with pytest.raises(ConfigurationError, match=re.escape(remedy)):
        split_settings(f"redis://localhost?{name}=2")
    entry = refusal(workspaces={"acme": {"workspace_concurrency": 2}})
    assert "did you mean 'concurrency'?" in entry
