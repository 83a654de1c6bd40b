"""The comparison with the peers plays and writes its page, with tiny numbers and two of them."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PLAYED = "fairqueue (Celery)", "Celery"

pytestmark = pytest.mark.usefixtures("redis_server")


def test_two_peers_are_played_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger shows that fairqueue serves all workspaces alike, and the page names both."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    environments = importlib.import_module("peers.environments")
    monkeypatch.setattr(environments, "ready", lambda _name: "as in this environment")
    adapter = environments.ADAPTERS / "celery_app.py"
    monkeypatch.setattr(environments, "command_of", lambda *of: [sys.executable, adapter, of[-1]])
    results = tmp_path / "results.json"
    places = f"--results={results}", f"--docs={tmp_path}"
    importlib.import_module("peers.__main__").main(
        [f"--only={','.join(PLAYED)}", "--small", "--turns=1", *places]
    )
    found = json.loads(results.read_text())["turns"]
    fair, stock = (found[name][0]["jain"] for name in PLAYED)
    assert fair > 0.8
    assert stock < 0.3
    page, picture = (tmp_path / name for name in ("peers.md", "peers.svg"))
    assert page.read_text().split("\n## ")[1].startswith("What is better elsewhere\n")
    for name in PLAYED:
        assert name in page.read_text()
        assert name in picture.read_text()
