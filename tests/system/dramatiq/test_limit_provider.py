"""Limits from a function of the app, judged by the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.system.dramatiq.conftest import message
from tests.system.tariff import Tariff

pytestmark = pytest.mark.system


def test_a_limit_of_a_provider_holds_and_can_change(
    redis_mill: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first job on; a change applies to the backlog, and 0 stops it."""
    tariff = Tariff(tmp_path, monkeypatch)
    tariff.says(ada={"concurrency": 1}, bea={"concurrency": 2})
    settings = redis_mill.settings(limit_provider=tariff.source)
    broker = redis_mill.broker(settings)
    for n in range(6):
        for workspace in ("ada", "bea"):
            broker.enqueue(message("work", n, workspace=workspace, seconds=0.05))
    redis_mill.worker("-p", "1", "-t", "4", settings=settings, **tariff.environment)
    redis_mill.ledger.wait("end", 12)
    assert redis_mill.ledger.most_at_once(workspace="ada") == 1
    assert redis_mill.ledger.most_at_once(workspace="bea") <= 2

    tariff.says(ada={"concurrency": 0})
    with redis_mill.core(limit_provider=tariff.source) as core:
        core.invalidate_limits("ada")
        assert core.admin.limits("ada")["concurrency"].value == 0
        broker.enqueue(message("work", 6, workspace="ada"))
        broker.enqueue(message("work", 6, workspace="bea"))
        redis_mill.ledger.wait("end", 7, workspace="bea")
        assert len(redis_mill.ledger.lines("start", workspace="ada")) == 6
        tariff.says(ada={"concurrency": 1})
        core.invalidate_limits("ada")
    redis_mill.ledger.wait("end", 7, workspace="ada")
