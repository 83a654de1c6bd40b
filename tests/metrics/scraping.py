"""Reads what Prometheus would: samples by name and labels."""

from __future__ import annotations

import urllib.request
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

Samples = dict[tuple[str, ...], float]


def scrape(collector: Any) -> Samples:
    """The text that a scrape of this collector returns, read as Prometheus reads it."""
    registry = CollectorRegistry()
    registry.register(collector)
    return read(generate_latest(registry).decode())


def read(text: str) -> Samples:
    """Samples by their name and the values of their labels, by the labels' names."""
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def fetch(url: str) -> Samples:
    """The same over HTTP."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return read(answer.read().decode())
