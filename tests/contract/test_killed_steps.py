"""Steps of a task whose workers are killed or stopped at any point: 200 courses."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fairqueue import LeaseLost, step
from tests.contract.test_steps import finish, run_of, steps
from tests.contract.world import Worker, World, sound

NAMES = ("one", "two", "three", "four")
KILLS = 4
"""Of one task, which may start five times."""


class Killed(BaseException):
    """The process of a run ends here."""


class Mortal:
    """The store of a run, whose process may be killed before a step is noted, or right behind."""

    def __init__(self, store: Any, fate: str) -> None:
        self._store, self._fate = store, fate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def note_step(self, *of: Any, **how: Any) -> Any:
        if self._fate == "not noted":
            raise Killed
        found = self._store.note_step(*of, **how)
        if self._fate == "noted":
            raise Killed
        return found


def _play(world: World, worker: Worker, random: Random) -> list[str]:
    """Let one task end, and return what its steps did.

    Each of its runs but the last is killed or stopped at a step.
    """
    job, kills, effects = world.publish(task="t"), 0, list[str]()

    def run(lease: Any, stop_at: str | None, fate: str) -> None:
        store = world.store
        with run_of(world, lease) as context:
            for name in NAMES:
                of_step = Mortal(store, fate if name == stop_at else "")
                context.store = lambda of_step=of_step: of_step

                def act(name: str = name) -> str:
                    assert name not in steps(world, job), f"{name} has finished, and ran again"
                    if name == stop_at and fate == "before":
                        raise Killed
                    effects.append(name)
                    if name == stop_at and fate == "stopped":
                        world.pass_time(40)
                        run(worker.take_one(), None, "")
                    return f"{name} of {lease.fence}"

                known = steps(world, job).get(name)
                try:
                    value = step.run(name, act)
                except LeaseLost:
                    assert (name, fate) == (stop_at, "stopped")
                    return
                assert known is None or known == f'"{value}"'
            finish(worker, lease, context)

    while not effects or world.store.depth("q", running=True):
        stop_at = random.choice(NAMES) if kills < KILLS else None
        fate = random.choice(["before", "not noted", "noted", "stopped"])
        try:
            run(worker.take_one(), stop_at, fate)
        except Killed:
            kills += 1
            world.pass_time(40)
    return effects


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_a_step_that_was_noted_does_not_run_again(world: World, worker: Worker, first: int) -> None:
    """A run that was stopped for longer than its lease writes nothing, and ends with LeaseLost."""
    for seed in range(first, first + 50):
        assert set(_play(world, worker, Random(seed))) == set(NAMES)
    sound(world)
