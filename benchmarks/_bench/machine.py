"""Describe the machine and its noise."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import version
from statistics import median

SPINS, SPIN = 60, 200_000


def _spin() -> float:
    began = time.perf_counter()
    for _ in range(SPIN):
        pass
    return time.perf_counter() - began


def machine() -> str:
    """Cores, load, versions, and how much the duration of the same short loop varies."""
    spins = sorted(_spin() for _ in range(SPINS))
    typical = median(spins)
    late = spins[int(SPINS * 0.95)]
    packages = ", ".join(f"{name} {version(name)}" for name in ("celery", "kombu", "redis"))
    return (
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}, {packages}. "
        f"Noise: the same loop takes {typical * 1e3:.1f} ms in the median, "
        f"×{late / typical:.2f} at its 95th percentile, ×{spins[0] / typical:.2f} at its best."
    )
