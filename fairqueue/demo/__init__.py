"""The demo: one flood, first on redis://, then on fairqueue://, side by side."""

from __future__ import annotations

from fairqueue.demo._show import show

__all__ = ["show"]
