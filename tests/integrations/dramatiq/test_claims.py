"""The leases of one worker."""

from __future__ import annotations

from typing import Any

import pytest

from fairqueue import FairQueue, Lease
from fairqueue_dramatiq._claims import Claims


@pytest.mark.parametrize("end", ["finish", "reject"])
def test_a_renewal_beside_an_end_finds_no_loss(
    namespace: str, end: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The job has ended, so no log says that another worker may run it."""
    leases, lost = list[Lease](), list[Lease]()
    with FairQueue("memory://", namespace=namespace) as core:
        how: Any = {"deliver": leases.append, "lost": lost.append, "cancelled": lost.append}
        claims = Claims(core, threads=1, **how)
        core.publish(b"", queue="q", workspace="a")
        claims.add_queue("q")
        claims._claim((), 1)
        call = getattr(core, name := {"finish": "claim", "reject": "reject"}[end])

        def call_and_renew(*args: Any, **named: Any) -> Any:
            found = call(*args, **named)
            claims.keeper._try_to_renew(core)
            return found

        monkeypatch.setattr(core, name, call_and_renew)
        if end == "reject":
            claims.reject(leases[0], reason="bad")
        else:
            claims.finish(leases[0])
        claims.close()
    assert lost == []
    assert caplog.messages == []
