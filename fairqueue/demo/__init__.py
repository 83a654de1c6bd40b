"""The demo: the same load on redis:// and on fairqueue://, compared side by side."""

from __future__ import annotations

from fairqueue.demo._run import show

__all__ = ["show"]
