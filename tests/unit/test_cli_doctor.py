"""``fairqueue doctor``: what it prints, and its exit codes."""

from __future__ import annotations

import pytest
from redis import Redis

from fairqueue import FairQueue
from fairqueue._keys import Keys
from fairqueue.audit import remarks
from tests.unit.conftest import Shell


@pytest.fixture
def keys(redis_url: str, namespace: str) -> Keys:
    """The keys of a namespace with one waiting, one running and one dead job."""
    with FairQueue(redis_url, namespace=namespace) as queue:
        for _ in range(3):
            queue.publish(b"", queue="q", workspace="acme \x1b")
        rejected, _ = queue.claim(["q"], 2).leases
        queue.reject(rejected, reason="broken")
        queue.jobs.suspend_imports(60)
    return Keys(namespace)


def test_a_sound_namespace_is_exit_code_0(shell: Shell, keys: Keys) -> None:
    """It is so during an export, too, whose mark expires by itself."""
    found = shell.json("doctor")
    assert found["findings"] == found["repairs"] == []
    assert found["namespace"] == shell.namespace
    levels = {remark["about"]: remark["level"] for remark in found["remarks"]}
    assert levels["server"] == levels["workers"] == "info"
    assert levels["persistence"] == levels["imports"] == "warning"
    text = shell.run("doctor").stdout
    assert shell.url in text
    assert text.endswith("Every invariant holds.\n")


def test_repair_mends_and_names_what_it_did(shell: Shell, keys: Keys, redis_client: Redis) -> None:
    """A finding is exit code 1; a key of others is not touched, and stays one."""
    redis_client.delete(keys.key("expiry"), keys.key("ready", "q"))
    redis_client.set(f"{keys.prefix}strange \x1b", "1")
    assert "strange" in shell.run("doctor", code=1).stdout
    found = shell.json("doctor", "--repair", code=1)
    assert {one["invariant"] for one in found["repairs"]} >= {"I1", "I4"}
    assert all(one["is_mended"] == (one["invariant"] != "I9") for one in found["repairs"])
    assert [one["text"] for one in found["findings"]] == ["unknown key strange \x1b"]
    assert redis_client.get(f"{keys.prefix}strange \x1b") == b"1"


def test_a_problem_is_the_last_word(shell: Shell, redis_url: str, namespace: str) -> None:
    """What ends with "Every invariant holds" would be read as sound."""
    queue = FairQueue(redis_url, namespace=namespace)
    with queue, pytest.MonkeyPatch.context() as patch:
        patch.setattr(remarks, "LATE_SECONDS", -1.0)
        queue.publish(b"", queue="q", workspace="a")
        text = shell.run("doctor", code=1).stdout
    assert text.endswith("invariant holds. Above: 1 problem with the server or the workers.\n")
    assert "has runnable jobs of 1 workspace, and none was claimed" in text
