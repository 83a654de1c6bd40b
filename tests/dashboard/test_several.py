"""Several queues in one dashboard: each under its name."""

from __future__ import annotations

import pytest

from fairqueue import ConfigurationError, FairQueue
from fairqueue.dashboard import several
from tests.dashboard.serving import Visitor, served
from tests.pauses import paused

TOKEN = "a-token-of-24-characters"


def test_each_has_its_pages_and_one_sign_in_serves_all(namespace: str) -> None:
    """The first is shown at the root; a form acts on its own queue only."""
    with (
        FairQueue("memory://", namespace=namespace) as one,
        FairQueue("memory://", namespace=f"{namespace}-2") as two,
        served(several({"prod": one, "eu-2": two}, token=TOKEN)) as url,
        Visitor(base_url=url, follow_redirects=True) as visitor,
    ):
        two.publish(b"", queue="q", workspace="of the second")
        assert "Sign in" in visitor.page("/", 200)
        csrf = visitor.cookies["fairqueue_csrf"]
        visitor.post("/prod/sign-in", data={"token": TOKEN, "csrf": csrf})
        first, second = visitor.page("/"), visitor.page("/eu-2/")
        assert 'href="/eu-2/"' in first
        assert "of the second" in second
        assert "of the second" not in first
        csrf = next(each.value for each in visitor.cookies.jar if each.path == "/eu-2") or ""
        visitor.post(
            "/eu-2/act/pause", data={"csrf": csrf, "scope": "queue", "name": "q", "back": "/"}
        )
        assert paused(two)
        assert not paused(one)


@pytest.mark.parametrize("queues", [{}, {"a/b": "memory://"}, {"..": "memory://"}])
def test_what_is_no_part_of_a_path_is_refused(queues: dict[str, FairQueue | str]) -> None:
    """So is a dashboard of nothing."""
    with pytest.raises(ConfigurationError):
        several(queues, token=TOKEN)
