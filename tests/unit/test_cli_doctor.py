"""``fairqueue doctor``: what it prints, and its exit codes."""

from __future__ import annotations

import pytest
from redis import Redis

from fairqueue import FairQueue
from fairqueue._keys import Keys
from tests.unit.conftest import Shell


@pytest.fixture
def keys(redis_url: str, namespace: str) -> Keys:
    """The keys of a namespace with one waiting, one running and one dead job."""
    with FairQueue(redis_url, namespace=namespace) as queue:
        for _ in range(3):
            queue.publish(b"", queue="q", workspace="acme \x1b")
        rejected, _ = queue.claim(["q"], 2).leases
        queue.reject(rejected, reason="broken")
        queue.admin.suspend_imports(60)
    return Keys(namespace)


def test_a_sound_namespace_is_exit_code_0(shell: Shell, keys: Keys) -> None:
    """It is so during an export, too, whose mark expires by itself."""
    assert shell.json("doctor") == {"findings": []}
    assert shell.run("doctor").stdout == "Every invariant holds.\n"


def test_broken_keys_are_exit_code_1(shell: Shell, keys: Keys, redis_client: Redis) -> None:
    """Each finding names its invariant and the place where it does not hold."""
    redis_client.delete(keys.key("expiry"))
    redis_client.set(f"{keys.prefix}strange \x1b", "1")
    found = shell.json("doctor", code=1)["findings"]
    assert {finding["invariant"] for finding in found} == {"I4", "I9"}
    assert "strange" in shell.run("doctor", code=1).stdout
