"""Who orders how much, and when."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Customer:
    """A workspace of the demo. It comes ``pause_seconds`` after the one before it was served."""

    name: str
    jobs: int
    pause_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Load:
    """One big customer, and small ones that come after it."""

    customers: tuple[Customer, ...]
    concurrency: int = 4
    job_seconds: float = 0.02

    @property
    def jobs(self) -> int:
        """All jobs together."""
        return sum(customer.jobs for customer in self.customers)

    @property
    def big(self) -> str:
        """The name of the one that floods the queue."""
        return self.customers[0].name

    def orders(self) -> str:
        """What the process of the customers reads."""
        return "".join(json.dumps(line) + "\n" for line in self._lines())

    def _lines(self) -> Iterator[list[object]]:
        for customer in self.customers:
            yield [customer.pause_seconds, customer.name, customer.jobs]


def usual_load(*, jobs: int, small_jobs: int = 20) -> Load:
    """A flood of ``jobs``, and four small customers of ``small_jobs`` each that come after it."""
    names = ("ada", "ben", "cho", "dee")
    small = [Customer(name, jobs=small_jobs, pause_seconds=0.4) for name in names]
    return Load(customers=(Customer("megacorp", jobs=jobs), *small))
