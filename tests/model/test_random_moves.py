"""Random moves of producers, workers and operators keep every promise on both engines."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator

import pytest
import redis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from fairqueue import Job, Limits
from fairqueue._stores import fairness, waiter
from fairqueue.adapters import Admission
from fairqueue.testing import embedded_redis
from tests.model import tally
from tests.model.machine import Moves

CHECKS_OFF = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
QUICK = settings(
    max_examples=200,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,  # the same moves in every run; the long play has others
    database=None,
    phases=[Phase.generate],
    suppress_health_check=CHECKS_OFF,
)
SHARDS = 4
LONG = settings(
    QUICK,
    derandomize=False,
    max_examples=int(os.environ.get("SOAK_EXAMPLES", "4000")) // SHARDS,
    stateful_step_count=80,
    phases=[Phase.generate, Phase.shrink],
)


@pytest.fixture
def redis_client() -> Iterator[redis.Redis]:
    """A client of an empty server: each step looks through all keys."""
    with embedded_redis() as server, server.client() as client:
        yield client


@pytest.fixture
def _no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the jitter, which would differ between the engines."""
    monkeypatch.setattr(waiter, "JITTER", (1.0, 1.0))
    monkeypatch.setattr(fairness, "JITTER", (1.0, 1.0))


def _play(client: redis.Redis, how: settings, *, many_flows: bool) -> None:
    class Play(Moves):
        """One example in its own namespace."""

        def __init__(self) -> None:
            super().__init__(client, f"t-{secrets.token_hex(6)}", many_flows=many_flows)

    run_state_machine_as_test(Play, settings=how)


@pytest.mark.usefixtures("_no_jitter")
@pytest.mark.parametrize("many_flows", [False, True])
def test_a_few_random_moves(redis_client: redis.Redis, *, many_flows: bool) -> None:
    """The first examples of the short play."""
    _play(redis_client, settings(QUICK, max_examples=20), many_flows=many_flows)


@pytest.mark.usefixtures("_no_jitter")
def test_a_group_that_comes_and_goes_while_a_job_runs(redis_client: redis.Redis) -> None:
    """Virtual time starts again where no flow has a finish tag, beside a job of the group."""
    play = Moves(redis_client, "t")

    def configure(*members: str) -> None:
        workspaces = dict.fromkeys(members, Limits())
        how = {"provided": False, "enforced": True, "authoritative": True}
        play.another_configuration(Limits(), workspaces, {}, "org", **how)
        play.engines_and_model_agree()

    play.begin(fairness="count", default=Limits(), enforced=True)
    play.publish([(Job("", name, "q1", "t1", b""), Admission()) for name in ("c", "a")])
    play.wait_and_claim("w1", ("q1",))
    play.engines_and_model_agree()
    configure("a", "c")
    configure()
    play.teardown()


@pytest.mark.usefixtures("_no_jitter")
def test_dead_letters_whose_key_another_job_took(redis_client: redis.Redis) -> None:
    """They stay dead while that one holds it; the first that comes back holds it, and no other."""
    play = Moves(redis_client, "t")

    def publish(expires: float | None = None, seconds: float | None = None) -> None:
        job = Job("", "a", "q1", "t1", b"", expires_seconds=expires)
        play.publish([(job, Admission(unique_key="k", unique_for=seconds))])
        play.reap()
        play.engines_and_model_agree()

    def replay(*, one: bool) -> int:
        play.replay_or_drop("a", one=one, drop=False, spacing=1.0)
        play.engines_and_model_agree()
        return len(play.model.letters["a"])

    play.begin(fairness="time", default=Limits(), enforced=True)
    for seconds in (0.5, None):
        publish(expires=0.0, seconds=seconds)
    publish()
    assert [replay(one=one) for one in (True, False)] == [2, 2]
    play.purge_task("t1", "q1")
    assert [replay(one=one) for one in (False, True)] == [1, 1]
    publish(seconds=30.0)
    play.teardown()


@pytest.mark.usefixtures("_no_jitter")
def test_one_call_to_a_new_queue_below_a_capacity_of_the_total(redis_client: redis.Redis) -> None:
    """It leaves no list of the queues, as the second of two calls does."""
    play = Moves(redis_client, "t")
    play.begin(fairness="time", default=Limits(), enforced=True)
    play.set_limits_of_all(limits=Limits(capacity=9))
    play.publish_together([(Job("", "a", "q1", "t1", b""), Admission())] * 2, data=st.data())
    play.engines_and_model_agree()
    assert len(play.published) == 2
    play.teardown()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("_no_jitter")
@pytest.mark.parametrize("many_flows", [False, True])
def test_random_moves(redis_client: redis.Redis, *, many_flows: bool) -> None:
    """In a short play, every step is compared, audited and checked against the model."""
    how = settings(QUICK, max_examples=60) if many_flows else QUICK
    _play(redis_client, how, many_flows=many_flows)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.usefixtures("_no_jitter")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_moves_at_length(redis_client: redis.Redis, shard: int) -> None:
    """A play of ``SOAK_EXAMPLES`` keeps them, too, and makes every move often."""
    tally.MOVES.clear()
    tally.LIMITS.clear()
    _play(redis_client, LONG, many_flows=shard % 2 == 1)
    moves = sum(tally.MOVES.values())
    sys.stderr.write(f"\n{shard}: {moves} moves; {tally.MOVES}; {tally.LIMITS}\n")
    assert tally.rarest(moves // 500) == {}
