"""A simulated fleet keeps every promise, whatever fails between any two of its steps."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fairqueue._stores.library import Read, read_source
from tests.mutation.rules import mutations
from tests.simulation.__main__ import broken
from tests.simulation.world import World
from tests.small_pages import with_small_pages

STEPS = 1000
BROKEN = {
    "a workspace's concurrency is one too large": "may run",
    "an early-acked job runs again": "although it is done",
}
"""Some rules of ``tests/mutation/rules.txt``, and what breaks without each."""
COURSE = """
from tests.simulation.world import World
world = World(7)
for _ in range(300):
    world.step()
print(sorted(world.fences), *world.trace, sep="\\n")
"""


def _course(hash_seed: str) -> str:
    """Play in a process of its own; return what happened there."""
    env = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", COURSE]
    return subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, check=True
    ).stdout


def test_a_seed_is_one_course_in_every_process() -> None:
    """Whatever is drawn comes from the seed, however Python orders its sets."""
    assert _course("1") == _course("2") != ""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("read", [read_source, with_small_pages])
def test_no_promise_is_broken(seed: int, read: Read) -> None:
    """No job is lost or done twice, no limit is exceeded, no tick is lost, no fence comes twice.

    Also where most workspaces have many flows.
    """
    assert broken(World(seed, read=read), STEPS) == ""


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "said"), BROKEN.items(), ids=BROKEN)
def test_a_broken_rule_is_found(rule: str, said: str) -> None:
    """The oracle is not blind."""
    (mutation,) = (one for one in mutations() if one.broken == rule)

    def read(name: str) -> str:
        text = read_source(name)
        return mutation.applied(text) if name == mutation.file else text

    assert said in broken(World(1, read=read), STEPS)
