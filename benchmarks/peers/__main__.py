"""Play all peers, turn by turn, and write the page.

python -m peers [--only celery,rq] [--turns 3] [--small] [--report]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from peers import environments, measures, report, servers
from peers.catalogue import NOT_PLAYED, PEERS, Peer

RESULTS = environments.ROOT / ".peers" / "results.json"
PARTS = {"recovery": ("recovery", "recovery began"), "turns": ("turns", "began", "load")}
"""The keys of the results that each part fills."""
AT_ONCE = 7
"""Up to this many peers are killed and recover at the same time, since they mostly wait."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, play, and write."""
    parser = argparse.ArgumentParser(prog="python -m peers")
    parser.add_argument("--only", default="", help="names of environments or peers, with commas")
    parser.add_argument("--turns", type=int, default=3, help="how often each peer is played")
    parser.add_argument("--small", action="store_true", help="tiny numbers, takes seconds a peer")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the figures are kept")
    parser.add_argument("--docs", type=Path, default=report.DOCS, help="where the page is written")
    parser.add_argument(
        "--parts", default="recovery,turns", help="what is played; the rest is kept"
    )
    parser.add_argument("--report", action="store_true", help="write the last run's page again")
    given = parser.parse_args(arguments)
    if not given.report:
        play(given)
    report.write(json.loads(given.results.read_text()), given.docs)


def play(given: argparse.Namespace) -> None:
    """Play the peers in alternation, and keep each figure as soon as it is there."""
    sizes = measures.SMALL if given.small else measures.Sizes()
    parts = given.parts.split(",")
    kept = json.loads(given.results.read_text()) if len(parts) < len(PARTS) else {}
    found: dict[str, Any] = {
        "machine": ", ".join(
            (f"{os.cpu_count()} cores", f"Python {platform.python_version()}", servers.versions())
        ),
        "began": time.strftime("%d %B %Y, %H:%M").lstrip("0"),
        "load": [],
        "sizes": vars(sizes),
        "versions": kept.get("versions", {}),
        "reasons": dict(NOT_PLAYED),
        "turns": {},
        "recovery": kept.get("recovery", {}),
        "recovery began": time.strftime("%H:%M"),
    } | {key: kept[key] for part in set(PARTS) - set(parts) for key in PARTS[part] if key in kept}
    peers = _installed(given.only, found)
    if "recovery" in parts and sizes.killed_seconds:
        _recover(peers, sizes, found)
        given.results.write_text(json.dumps(found, indent=1))
    steps = given.turns * len(peers)
    for number in range(given.turns if "turns" in parts else 0):
        for peer in peers if number % 2 == 0 else reversed(peers):
            _say(f"turn {number + 1} of {given.turns}: {peer.name} …")
            found["load"].append(os.getloadavg()[0])
            try:
                figures = measures.turn(peer, sizes)
            except Exception as error:  # noqa: BLE001 - a peer that fails is named on the page
                _say(f"{peer.name}: {error}\n")
                found["reasons"].setdefault(peer.name, str(error)[-400:])
                continue
            found["turns"].setdefault(peer.name, []).append(figures)
            steps -= 1
            _say(f"{peer.name}: {_short(figures)}; {steps} to go\n")
            given.results.write_text(json.dumps(found, indent=1))


def _installed(only: str, found: dict[str, Any]) -> list[Peer]:
    """Install what is wanted, and return the peers that can be played."""
    wanted = set(filter(None, only.split(",")))
    peers = []
    for peer in PEERS:
        if wanted and not wanted & {peer.environment, peer.name}:
            continue
        _say(f"installing {peer.environment} …")
        try:
            found["versions"][peer.environment] = environments.ready(peer.environment)
        except environments.NotInstalledError as error:
            found["reasons"][peer.name] = str(error)
        else:
            peers.append(peer)
    return peers


def _recover(peers: list[Peer], sizes: measures.Sizes, found: dict[str, Any]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        played = pool.map(lambda peer: _recovered(peer, sizes), peers)
        for peer, figures in zip(peers, played, strict=True):
            found["recovery"][peer.name] = figures
            _say(f"{peer.name}: {_short(figures)}\n")


def _recovered(peer: Peer, sizes: measures.Sizes) -> measures.Figures:
    try:
        return measures.recovery(peer, sizes)
    except Exception as error:  # noqa: BLE001 - as above
        _say(f"{peer.name}: {error}\n")
        return {}


def _short(figures: measures.Figures) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in figures.items())


def _say(words: str) -> None:
    """One line that the next one replaces on a terminal."""
    end = "" if sys.stderr.isatty() else "\n"
    sys.stderr.write(f"\r\x1b[K{words}" if not end else words.rstrip() + end)
    sys.stderr.flush()


if __name__ == "__main__":
    main()
