"""A task's progress, from a process of a real worker's pool."""

from __future__ import annotations

from typing import Any

from tests.system.celery.test_leases import kill_group
from tests.system.ledger import wait_for


def test_progress_is_seen_until_the_worker_is_killed(shop: Any) -> None:
    """The last report within a second, though each comes 10 ms after another; then none."""
    shop.app_name = "exporting"
    shop.worker("-P", "prefork", "-c", "1", url=shop.url(lease_seconds=2))
    task = shop.publisher().send("export", 50, workspace="ada")
    with shop.core() as core:
        seen = []

        def is_done() -> bool:
            found = core.job(task.id, workspace="ada")
            if found and found.progress:
                seen.append(found.progress.current)
            return 50 in seen

        wait_for(is_done)
        assert seen == sorted(seen)
        (row,) = core.views.workers()
        assert "shop.export" in row.tasks
        assert core.job(task.id, workspace="eve") is None
        kill_group(shop.workers[0])
        wait_for(lambda: core.reap() >= 0 and core.job(task.id, workspace="ada").state != "running")
        found = core.job(task.id, workspace="ada")
        assert found is not None
        assert (found.state.value, found.progress, found.deliveries) == ("waiting", None, 1)
