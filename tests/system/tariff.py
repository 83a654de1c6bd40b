"""A user's limit provider: a module that reads a file, which a test can change."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

import pytest

MODULE = """
import json
import pathlib

def limits_of(workspace):
    return json.loads(pathlib.Path(__file__).with_name("tariff.json").read_text()).get(workspace)
"""


class Tariff:
    """The module, for this process and for workers that get :attr:`environment`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        name = f"tariff_{secrets.token_hex(4)}"
        self._answers = folder / "tariff.json"
        (folder / f"{name}.py").write_text(MODULE)
        monkeypatch.syspath_prepend(folder)
        paths = [str(folder), os.environ.get("PYTHONPATH", "")]
        self.environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self.source = f"{name}:limits_of"
        """The value of the setting ``limit_provider``."""

    def says(self, **answers: dict[str, Any]) -> None:
        """Change the limits that it returns, by workspace."""
        self._answers.write_text(json.dumps(answers))
