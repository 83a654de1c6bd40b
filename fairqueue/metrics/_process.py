"""This process's counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from fairqueue._background import failures
from fairqueue._process_metrics import BOUNDS, Tally
from fairqueue.metrics._families import OF_PROCESS
from fairqueue.plain import label

BUFFERED = ("buffered_jobs", "buffer_refused", "buffer_oldest_seconds")
EDGES = (*map(str, BOUNDS), "+Inf")


class ProcessCollector(Collector):
    """Reads a tally, and what is buffered, with each scrape, without a store."""

    def __init__(self, tally: Tally, buffered: Callable[[], Iterable[float]]) -> None:
        self._tally, self._buffered = tally, buffered
        tally.begin()

    def collect(self) -> Iterator[Metric]:
        counts = self._tally.read()
        counters = dict(counts.counters)
        counters["background_failures"] = {(name,): n for name, n in failures().items()}
        gauges = dict(zip(BUFFERED, self._buffered(), strict=False))
        for family in OF_PROCESS:
            found = family.begin()
            if family.name in gauges:
                found.add_metric([], gauges[family.name])
            for labels, value in counters.get(family.name, {}).items():
                found.add_metric([*map(label, labels)], value)
            for labels, times in counts.histograms.get(family.name, {}).items():
                edges = zip(EDGES, map(float, accumulate(times.counts)), strict=True)
                found.add_metric([*map(label, labels)], [*edges], times.seconds)
            yield found

    def describe(self) -> list[Metric]:
        return [family.described() for family in OF_PROCESS]
