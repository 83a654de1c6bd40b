"""An app's limit provider, judged by the ledger."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import pytest

from fairqueue import Scope

TARIFF = """
import json
import pathlib

def limits_of(workspace):
    return json.loads(pathlib.Path(__file__).with_name("tariff.json").read_text()).get(workspace)
"""


def test_a_provider_s_limit_holds_and_changes_in_flight(
    shop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds from the first job on; an invalidated limit acts on the backlog, and 0 stops it."""
    name, answers = f"tariff_{secrets.token_hex(4)}", tmp_path / "tariff.json"
    (tmp_path / f"{name}.py").write_text(TARIFF)
    monkeypatch.syspath_prepend(tmp_path)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    source = f"{name}:limits_of"
    answers.write_text('{"ada": {"concurrency": 1}, "bea": {"concurrency": 2}}')
    url = shop.url(limit_provider=source)
    publisher = shop.publisher(url)
    for n in range(6):
        for workspace in ("ada", "bea"):
            publisher.send("work", n, kwargs={"seconds": 0.05}, workspace=workspace)
    shop.worker("-P", "prefork", "-c", "4", url=url, PYTHONPATH=path)
    shop.ledger.wait("end", 12)
    assert shop.ledger.most_at_once(workspace="ada") == 1
    assert shop.ledger.most_at_once(workspace="bea") <= 2

    answers.write_text('{"ada": {"concurrency": 0}}')
    with shop.core(limit_provider=source) as core:
        core.invalidate_limits("ada")
        assert core.limits.get(Scope.workspace("ada"))["concurrency"].value == 0
        publisher.send("work", 6, workspace="ada")
        publisher.send("work", 6, workspace="bea")
        shop.ledger.wait("end", 7, workspace="bea")
        assert len(shop.ledger.lines("start", workspace="ada")) == 6
        answers.write_text('{"ada": {"concurrency": 1}}')
        core.invalidate_limits("ada")
    shop.ledger.wait("end", 7, workspace="ada")
