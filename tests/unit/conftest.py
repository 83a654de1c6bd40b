"""The command line, run against the test's server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fairqueue.cli import main


class Shell:
    """Runs commands in one namespace, and checks that their output is safe for a terminal."""

    def __init__(self, url: str, namespace: str) -> None:
        self.url, self.namespace = url, namespace

    def run(self, *command: str, code: int = 0) -> Result:
        where = {"FAIRQUEUE_URL": self.url, "FAIRQUEUE_NAMESPACE": self.namespace}
        result = CliRunner().invoke(main, command, env=where)
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        assert "\x1b" not in result.output
        return result

    def json(self, *command: str, code: int = 0) -> Any:
        return json.loads(self.run(*command, "--json", code=code).stdout)


@pytest.fixture
def shell(redis_url: str, namespace: str) -> Shell:
    """A shell for the test's server and namespace."""
    return Shell(redis_url, namespace)
