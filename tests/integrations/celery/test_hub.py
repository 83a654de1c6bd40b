"""A worker in kombu's event loop: its claims, and its looks at its pool."""

from __future__ import annotations

import time
from typing import Any
from unittest.mock import MagicMock

import pytest
from kombu.asynchronous import Hub

from fairqueue_celery._consume.hub import HubDriver
from fairqueue_celery._worker import bootstep

STEPS = 45


class Declining:
    """Claims whose jobs do not stay, so that the next step is due at once."""

    steps = 0
    has_pending = False

    def give_back_stale(self) -> None:
        pass

    def step(self) -> None:
        self.steps += 1

    def due_in(self) -> float | None:
        return 0.0 if self.steps < STEPS else None

    def fileno(self) -> None:
        return None


def test_the_loop_does_not_sleep_while_a_step_is_due() -> None:
    """Kombu's hub fires at most ten timers in a row, and then polls for a second."""
    hub, claims = Hub(), Declining()
    driver = HubDriver(hub)
    begun = time.monotonic()
    driving: Any = claims
    driver.drive(driving)
    while claims.steps < STEPS:
        hub.run_once()
    assert time.monotonic() - begun < 2.0  # four times a second otherwise
    driver.stop()
    hub.close()


def test_an_idle_worker_does_not_look_at_its_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks often for dead processes while it has jobs; without any, only as Celery does."""
    held: list[object] = []
    monkeypatch.setattr(bootstep, "_is_prefork", lambda _: True)
    monkeypatch.setattr(bootstep, "all_held", lambda: iter(held))
    monkeypatch.setattr(bootstep, "brokers", list)
    parent, hub = MagicMock(on_task_message=set()), MagicMock()
    step: Any = bootstep.Fairness.__new__(bootstep.Fairness)
    step._consumer, step._look = parent, None

    step.register_with_event_loop(parent, hub)
    held.append(object())
    [on_task] = parent.on_task_message
    on_task(object())  # a look is due already
    step._maintain()
    held.clear()
    step._maintain()
    assert (hub.call_later.call_count, parent.pool.maintain_pool.call_count) == (2, 2)
    on_task(object())
    assert hub.call_later.call_count == 3
