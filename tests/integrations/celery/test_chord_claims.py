"""A part of a chord that is counted again waits while another run is to publish the body."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from celery import Celery

from fairqueue.testing import EmbeddedServer
from fairqueue_celery._worker import results


@pytest.mark.parametrize("decodes", [True, False])
@pytest.mark.parametrize(
    ("claim", "has_size", "counts"),
    [("", True, 2), ("done", True, 2), ("a run", False, 2), ("a run", True, 1)],
)
def test_a_part_waits_only_for_a_claim_of_a_chord_that_goes_on(
    redis_server: EmbeddedServer, claim: str, *, has_size: bool, counts: int, decodes: bool
) -> None:
    """A chord that has failed has no size, and its claim stays until it expires."""
    options = f"?virtual_host=0&decode_responses={decodes}".lower()
    url = f"redis+socket://{redis_server.socket_path}{options if decodes else ''}"
    backend = Celery(backend=url, set_as_current=False).backend
    group, counted = f"{claim}-{has_size}-{decodes}", list[int]()
    for end, value in ((".c", claim), (".s", "2" if has_size else "")):
        if value:
            backend.client.set(backend.get_key_for_group(group, end), value)

    def count() -> None:
        counted.append(1)

    def settle(_seconds: float) -> None:
        raise TimeoutError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.sleep", settle)
        try:
            results._repeat(backend, SimpleNamespace(group=group), count)
        except TimeoutError:
            assert counts == 1
    assert len(counted) == counts
