"""Periodic jobs without a beat process: schedules in the store, whose ticks workers publish."""

from __future__ import annotations

from fairqueue.schedules._part import Schedules
from fairqueue.schedules._ticker import Core, Due, Placed, Runner, Ticker
from fairqueue.schedules._timing import Schedule

__all__ = ["Core", "Due", "Placed", "Runner", "Schedule", "Schedules", "Ticker"]
