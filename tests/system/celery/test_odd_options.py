"""Options of unusual types mean the same as with kombu's own Redis transport."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import uuid4

from tests.system.ledger import wait_for

NUMERIC = ("priority", "time_limit", "soft_time_limit", "retries")
IDS = ("root_id", "parent_id", "group_id", "correlation_id", "reply_to")


def odd_options() -> list[dict[str, Any]]:
    """Each of these runs on ``redis://``."""
    found: list[dict[str, Any]] = [
        {name: kind} for name in IDS for kind in (uuid4(), b"some bytes")
    ]
    found += [{"task_id": uuid4()}, {"task_id": str(uuid4()).encode()}]
    found.append({name: uuid4() for name in ("task_id", *IDS)})
    found += [{name: number} for name in NUMERIC for number in ("5", Decimal(5), 5.0, True)]
    found += [{"replaced_task_nesting": n} for n in ("1", 1.0)]
    found += [{"time_limit": b"30"}, {"time_limit": "40", "soft_time_limit": Decimal(30)}]
    found += [{"shadow": shadow} for shadow in (5, 1.5, uuid4(), b"name", True)]
    return [*found, {"priority": "x"}, {"priority": b"5"}]


def test_what_runs_on_redis_runs_here(open_a_shop: Callable[[str], Any]) -> None:
    """One worker on each broker, messages of both protocols: all run, and their results say so."""
    ended: dict[str, int] = {}
    for broker in ("redis", "fairqueue"):
        shop = open_a_shop("shop")
        stock = f"redis+socket://{shop._server.socket_path}"
        url = shop.url() if broker == "fairqueue" else stock
        shop.config = {"result_backend": stock, "task_default_queue": f"{shop.namespace}-{broker}"}
        shop.worker("-P", "prefork", "-c", "2", url=url).ready()
        publisher = shop.publisher(url, result_backend=stock)
        publisher.app.conf.task_default_queue = shop.config["task_default_queue"]
        results = []
        for protocol in (2, 1):
            publisher.app.conf.task_protocol = protocol
            results += [publisher.send("work", 1, **options) for options in odd_options()]

        wait_for(lambda: {result.state for result in results} == {"SUCCESS"})  # noqa: B023
        ended[broker] = len(shop.ledger.lines("end"))
    assert ended["redis"] == ended["fairqueue"] == 2 * len(odd_options())
