"""What Celery cancels because its connection is lost runs again."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.system.ledger import wait_for

AWAY_SECONDS = 2.0
FLAG = "worker_cancel_long_running_tasks_on_connection_loss"


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_restarted_redis_loses_no_late_acked_job(
    own_shop: Any, tmp_path: Any, is_cancelled: bool
) -> None:
    """Celery cannot store that it cancelled a job, nor its result, while Redis is away."""
    shop, release = own_shop, tmp_path / "release"
    shop.config = {
        FLAG: is_cancelled,
        "result_backend": f"redis+socket://{shop._server.socket_path}",
        "result_backend_transport_options": {"retry_policy": {"max_retries": 1}},
    }
    shop.worker("-P", "prefork", "-c", "2", url=shop.url(lease_seconds=20)).ready()
    kwargs = {"until": str(release)}
    send = shop.publisher().send
    ids = [send("held_late", n, kwargs=kwargs, workspace="ada").id for n in (1, 2)]
    shop.ledger.wait("start", 2)

    shop._server.kill()
    time.sleep(AWAY_SECONDS)
    shop._server.start()
    if is_cancelled:
        shop.ledger.wait("start", 4)
    release.touch()

    shop.ledger.wait("end", 2)
    assert len(shop.ledger.lines("start")) == (4 if is_cancelled else 2)
    app = shop.publisher(shop.url(), result_backend=shop.config["result_backend"]).app
    wait_for(lambda: {app.AsyncResult(each).state for each in ids} == {"SUCCESS"})
    wait_for(lambda: shop.running("ada") == 0)
