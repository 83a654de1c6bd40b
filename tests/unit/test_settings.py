"""Settings take what is right, and refuse the rest by name, with a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from fairqueue import ConfigurationError, Limits, Settings

DEFAULTS: dict[str, Any] = {
    "namespace": "fairqueue",
    "default_workspace": "default",
    "workspace_from": ("header:workspace",),
    "workspace_concurrency": None,
    "workspace_capacity": None,
    "queue_capacity": None,
    "total_capacity": None,
    "total_concurrency": None,
    "workspaces": {},
    "tasks": {},
    "queues": {},
    "on_full": "reject",
    "block_seconds": 10,
    "enforce": "limits",
    "shards": 1,
    "min_replicas": 0,
    "fairness": "time",
    "lease_seconds": 30,
    "claim_ahead_seconds": 0.005,
    "max_deliveries": 5,
    "dead_letter_seconds": 2_592_000.0,
    "dead_letter_count": 10_000,
    "unknown_task_returns": 360,
    "on_lease_lost": "abort",
    "limit_provider": None,
}


def refusal(**options: Any) -> str:
    """The text of the error that these options meet."""
    with pytest.raises(ConfigurationError) as caught:
        Settings.load(options)
    return str(caught.value)


def test_the_defaults_are_the_documented_ones() -> None:
    """Names and defaults are those of the reference."""
    settings = Settings.load({})
    assert {name: getattr(settings, name) for name in DEFAULTS} == DEFAULTS
    assert set(type(settings).model_fields) == set(DEFAULTS)


def test_numbers_may_come_as_text() -> None:
    """A URL's query has only text: it stands for numbers, and "none" for None."""
    settings = Settings.load({"workspace_concurrency": "2", "max_deliveries": "none"})
    assert settings.workspace_concurrency == 2
    assert settings.max_deliveries is None


@pytest.mark.parametrize(
    ("given", "per_second"), [("100/s", 100), ("90/m", 1.5), ("36/h", 0.01), (2, 2), ("2.5", 2.5)]
)
def test_rates_are_read_as_celery_writes_them(given: Any, per_second: float) -> None:
    """A rate is a number per second, or a count per s, m or h."""
    settings = Settings.load({"workspaces": {"acme": {"rate": given}}})
    assert settings.workspaces["acme"].rate == pytest.approx(per_second)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("kwarg:tenant_id", ("kwarg:tenant_id",)),
        ("arg:0,header:x", ("arg:0", "header:x")),
        (["kwarg:a", "app.tenants:find"], ("kwarg:a", "app.tenants:find")),
        ('["kwarg:a"]', ("kwarg:a",)),
    ],
)
def test_workspace_from_is_one_source_or_a_list(given: Any, read: tuple[str, ...]) -> None:
    """One source, a list, or text with commas; the order is kept."""
    assert Settings.load({"workspace_from": given}).workspace_from == read


@pytest.mark.parametrize("given", ["", "tenant", "arg:x", "kwarg:", [], 3, ["header:a", None]])
def test_a_source_that_cannot_be_is_refused(given: Any) -> None:
    """What is no source is refused with the forms that are."""
    assert "'workspace_from'" in refusal(workspace_from=given)


def test_variables_are_read_and_options_beat_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """FAIRQUEUE_* variables count where no option does."""
    monkeypatch.setenv("FAIRQUEUE_WORKSPACE_CONCURRENCY", "7")
    monkeypatch.setenv("FAIRQUEUE_WORKSPACE_FROM", "kwarg:tenant")
    monkeypatch.setenv("FAIRQUEUE_WORKSPACES", '{"acme": {"concurrency": 1}}')
    assert Settings.load({}).workspace_concurrency == 7
    settings = Settings.load({"workspace_concurrency": None, "workspaces": {"b": {"weight": 2}}})
    assert settings.workspace_concurrency is None
    assert set(settings.workspaces) == {"b"}
    assert settings.workspace_from == ("kwarg:tenant",)


def test_a_misspelt_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that is misspelt in the environment does not vanish in silence."""
    monkeypatch.setenv("FAIRQUEUE_WORKSPACE_CONCURENCY", "2")
    assert refusal() == (
        "unknown setting 'FAIRQUEUE_WORKSPACE_CONCURENCY'; did you mean 'workspace_concurrency'?"
    )


@pytest.mark.parametrize("name", ["URL", "PORT_6379_TCP_ADDR", "SERVICE_HOST", "REDIS_PORT"])
def test_what_kubernetes_injects_is_let_be(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A service called fairqueue must not keep every pod beside it from starting."""
    monkeypatch.setenv(f"FAIRQUEUE_{name}", "tcp://10.0.0.1:6379")
    assert Settings.load({"workspace_concurrency": 3}).workspace_concurrency == 3


def test_an_unknown_name_gets_the_nearest() -> None:
    """A misspelt option names its likely meaning."""
    assert "'lease_second'; did you mean 'lease_seconds'?" in refusal(lease_second=3)
    assert "known: namespace" in refusal(colour="red")


def test_an_unknown_name_inside_an_entry_gets_the_nearest() -> None:
    """So does a misspelt limit of one workspace, with its place."""
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
        ({"workspaces": {"acme": {"burst": 3}}}, "workspaces.acme"),
        ({"workspaces": {"acme": 3}}, "workspaces.acme"),
        ({"workspaces": {7: {}}}, "workspaces.7"),
        ({"workspaces": "{"}, "workspaces"),
        ({"queues": {"q" * 256: {}}}, "queues."),
        ({"queues": {"celery": {"capacity": -1}}}, "queues.celery.capacity"),
    ],
)
def test_an_impossible_value_names_its_setting(options: dict[str, Any], name: str) -> None:
    """What cannot be is refused with the name of the setting and what it expects."""
    text = refusal(**options)
    assert f"setting '{name}" in text
    assert "expected: " in text


def test_a_value_is_not_repeated() -> None:
    """What was put in the wrong place might be a secret, so errors do not show it."""
    assert "hunter2" not in refusal(workspace_concurrency="redis://:hunter2@host")


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"shards": 2}, "shards"),
        ({"min_replicas": 1}, "min_replicas"),
    ],
)
def test_what_is_not_built_yet_is_refused(options: dict[str, Any], name: str) -> None:
    """A setting without its feature is never accepted in silence."""
    assert f"setting '{name}' is not supported yet" in refusal(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"workspaces": {"acme": {"reserve": 3, "concurrency": 2}}},
        {"workspaces": {"acme": {"reserve": 3}}, "workspace_concurrency": 2},
    ],
)
def test_a_reserve_above_the_limit_is_refused(options: dict[str, Any]) -> None:
    """It could never be used, be the limit its own or the default one."""
    text = refusal(**options)
    assert "'workspaces.acme.reserve' is 3, above its concurrency of 2" in text


def test_a_reserve_up_to_the_limit_is_stored() -> None:
    """Also beside a lower default, where the workspace has a limit of its own."""
    acme = {"reserve": 2, "concurrency": 2}
    settings = Settings.load({"workspaces": {"acme": acme}, "workspace_concurrency": 1})
    stored = settings.stored_limits().workspaces["acme"]
    assert (stored.reserve, stored.concurrency) == (2, 2)


def test_every_problem_is_told_at_once() -> None:
    """One start-up shows all that is wrong."""
    text = refusal(lease_seconds=0, fairness="luck")
    assert "lease_seconds" in text
    assert "fairness" in text


def test_stored_limits_carry_what_was_set_and_nothing_else() -> None:
    """What was not set stays None, so that defaults apply to it."""
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
