"""Unsupported versions are refused at import, with the reason."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fairqueue import ConfigurationError
from fairqueue_celery._config.versions import check_versions, refuse_unsupported


@pytest.mark.parametrize("installed", ["5.3.0", "5.3.6", "5.7.0", "5.8.0rc1", "5.10.2"])
def test_these_are_supported(installed: str) -> None:
    """Every 5.x from 5.3 on, and so the installed version."""
    refuse_unsupported("celery", installed)
    check_versions()


@pytest.mark.parametrize("installed", ["4.4.7", "5.2.7", "6.0.0", "6.0.0b1"])
def test_these_are_refused(installed: str) -> None:
    """The error names the version and what to install instead."""
    with pytest.raises(ConfigurationError, match=rf"{installed} is installed: pip install"):
        refuse_unsupported("celery", installed)


@pytest.mark.parametrize("package", ["celery", "kombu"])
def test_the_url_is_refused_too(package: str) -> None:
    """An app that only has the URL gets the reason from its first connection."""
    script = (
        "import importlib.metadata as metadata, sys\n"
        "from celery import Celery\n"
        "version = metadata.version\n"
        "metadata.version = lambda name: '6.1.0' if name == sys.argv[1] else version(name)\n"
        "Celery(broker='fairqueue://localhost').connection().transport\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, package],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert f"supports {package} from 5.3 up to, but not including, 6; 6.1.0 is" in done.stderr
