"""How long to wait after tries that failed in a row."""

from __future__ import annotations

import pytest

from fairqueue_celery._consume.backoff import Backoff

GROWING = [0, 0.05, 0.1, 0.2, 0.4, 0.8, 1, 1, 1, 1, 1]


def test_it_grows_to_about_a_second_and_ends_with_a_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not after the first, and at random, so that processes do not come all at once."""
    monkeypatch.setattr("fairqueue_celery._consume.backoff.time.monotonic", lambda: 1000.0)
    backoff, waits = Backoff(), []
    for _ in GROWING:
        backoff.failed()
        waits.append(backoff.seconds_left)
    assert all(0.75 * due <= wait <= 1.25 * due for due, wait in zip(GROWING, waits, strict=True))
    assert len(set(waits[-4:])) == 4
    backoff.succeeded()
    assert backoff.seconds_left == 0
