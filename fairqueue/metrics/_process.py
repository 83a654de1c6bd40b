"""What this process has counted, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from fairqueue._tally import BOUNDS, Counts, Histogram, Tally
from fairqueue.metrics._families import OF_PROCESS, Family
from fairqueue.plain import printable

EDGES = (*map(str, BOUNDS), "+Inf")


class ProcessCollector(Collector):
    """Reads a tally with each scrape; it asks no store."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        tally.begin()

    def collect(self) -> Iterator[Metric]:
        """Yield what was counted so far."""
        counts = self._tally.read()
        for family in OF_PROCESS:
            yield (_histogram if family.kind == "histogram" else _counter)(family, counts)

    def describe(self) -> list[Metric]:
        """Give the names without reading numbers."""
        return [Metric(family.shown, family.meaning, family.kind) for family in OF_PROCESS]


def _counter(family: Family, counts: Counts) -> Metric:
    found = family.counter()
    for labels, value in counts.counters.get(family.name, {}).items():
        found.add_metric([*map(printable, labels)], value)
    return found


def _histogram(family: Family, counts: Counts) -> Metric:
    found = family.histogram()
    for labels, histogram in counts.histograms.get(family.name, {}).items():
        found.add_metric([*map(printable, labels)], _buckets(histogram), histogram.seconds)
    return found


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    return [*zip(EDGES, map(float, accumulate(histogram.counts)), strict=True)]
