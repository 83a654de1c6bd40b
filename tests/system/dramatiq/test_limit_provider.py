"""An app's own function says what its tenants may, judged by the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.system.dramatiq.conftest import message
from tests.system.ledger import wait_for
from tests.system.tariff import Tariff

pytestmark = pytest.mark.system


def test_a_provider_s_limit_holds_and_changes_in_flight(
    redis_mill: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first job on; a change that is told acts on the backlog, 0 stops it."""
    tariff = Tariff(tmp_path, monkeypatch)
    tariff.says(ada={"concurrency": 1}, bea={"concurrency": 2})
    settings = redis_mill.settings(limit_provider=tariff.source)
    broker = redis_mill.broker(settings)
    for n in range(6):
        for tenant in ("ada", "bea"):
            broker.enqueue(message("work", n, tenant=tenant, seconds=0.05))
    redis_mill.worker("-p", "1", "-t", "4", settings=settings, **tariff.environment)
    redis_mill.ledger.wait("end", 12)
    assert redis_mill.ledger.most_at_once(tenant="ada") == 1
    assert redis_mill.ledger.most_at_once(tenant="bea") <= 2

    tariff.says(ada={"concurrency": 0})
    with redis_mill.core() as core:
        core.invalidate_limits("ada")
        wait_for(lambda: core.limits("ada")["concurrency"].value == 0, seconds=60)
        broker.enqueue(message("work", 6, tenant="ada"))
        broker.enqueue(message("work", 6, tenant="bea"))
        redis_mill.ledger.wait("end", 7, tenant="bea")
        assert len(redis_mill.ledger.lines("start", tenant="ada")) == 6
        tariff.says(ada={"concurrency": 1})
        core.invalidate_limits("ada")
    redis_mill.ledger.wait("end", 7, tenant="ada")
