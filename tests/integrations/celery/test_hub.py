"""The claims of a worker in kombu's event loop."""

from __future__ import annotations

import time
from typing import Any

from kombu.asynchronous import Hub

from fairqueue_celery._consume.hub import HubDriver

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
