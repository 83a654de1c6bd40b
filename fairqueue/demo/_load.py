"""The load: which customer orders how many jobs, and when."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Customer:
    """A workspace of the demo. It orders ``pause_seconds`` after the previous one has ordered."""

    name: str
    jobs: int
    pause_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Load:
    """One big customer, and small ones that order after it."""

    customers: tuple[Customer, ...]
    concurrency: int = 4
    job_seconds: float = 0.02

    @property
    def jobs(self) -> int:
        """The number of jobs of all customers."""
        return sum(customer.jobs for customer in self.customers)

    @property
    def big(self) -> str:
        """The name of the customer that floods the queue."""
        return self.customers[0].name

    def orders(self) -> str:
        """The input of the process that places the orders, one JSON list per line."""
        return "".join(json.dumps(line) + "\n" for line in self._lines())

    def _lines(self) -> Iterator[list[object]]:
        for customer in self.customers:
            yield [customer.pause_seconds, customer.name, customer.jobs]


def usual_load(*, jobs: int) -> Load:
    """A flood of ``jobs``, then four small customers with 20 jobs each."""
    names = ("ada", "ben", "cho", "dee")
    small = [Customer(name, jobs=20, pause_seconds=0.4) for name in names]
    return Load(customers=(Customer("megacorp", jobs=jobs), *small))
