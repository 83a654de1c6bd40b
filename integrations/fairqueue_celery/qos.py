"""Acks and rejections: of leased jobs to their slots, of plain messages to stock kombu."""

from __future__ import annotations

from typing import Any

from kombu.transport import redis, virtual

from fairqueue_celery.slot import Verdict
from fairqueue_celery.slots import Slots


class QoS(virtual.QoS):
    """Knows a leased job by its delivery tag, which is a fence: a whole number."""

    @property
    def slots(self) -> Slots:
        """All leases of this process."""
        return self.channel.broker.slots  # type: ignore[no-any-return]

    def append(self, message: Any, delivery_tag: Any) -> None:
        """A message was delivered; a lease needs no second record of it."""
        if not isinstance(delivery_tag, int):
            super().append(message, delivery_tag)

    def ack(self, delivery_tag: Any) -> None:
        """Do not redeliver."""
        if not self._decided(delivery_tag, Verdict.ACK):
            super().ack(delivery_tag)

    def reject(self, delivery_tag: Any, requeue: bool = False) -> None:  # noqa: FBT001, FBT002
        """Give back, or drop into the dead letters."""
        if not self._decided(delivery_tag, Verdict.REQUEUE if requeue else Verdict.DROP):
            super().reject(delivery_tag, requeue=requeue)

    def _decided(self, delivery_tag: Any, verdict: Verdict) -> bool:
        """Whether it was a lease; one that is not held any more was settled or lost before."""
        if not isinstance(delivery_tag, int):
            return False
        self.slots.decide(delivery_tag, verdict)
        return True


class RedisQoS(QoS, redis.QoS):
    """Beside the plain messages of a Redis."""
