"""Refuses versions of Celery and kombu that this adapter does not support.

The adapter uses internals of both; with another major version it could lose jobs.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, version

from fairqueue import ConfigurationError

OLDEST = (5, 3)
BEFORE = (6,)


def check_versions() -> None:
    """Raise ConfigurationError if the installed Celery or kombu is not supported."""
    for package in ("celery", "kombu"):
        try:
            loaded = getattr(sys.modules.get(package), "__version__", None)
            refuse_unsupported(package, loaded or version(package))  # which reads a long file
        except PackageNotFoundError:  # kombu alone is enough
            continue


def refuse_unsupported(package: str, installed: str) -> None:
    """Raise ConfigurationError unless this version is one of 5.3 to 5.x; a pre-release counts."""
    numbers = tuple(map(int, re.findall(r"\d+", installed)[:2]))
    if OLDEST <= numbers < BEFORE:
        return
    raise ConfigurationError(
        f"fairqueue:// supports {package} from 5.3 up to, but not including, 6; {installed} is "
        f"installed: pip install '{package}>=5.3.6,<6'"
    )
