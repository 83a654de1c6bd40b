"""A load to watch in ``fairqueue top`` or in the dashboard, until Ctrl-C."""

import itertools
import os
import sys
import time
import urllib.error
import urllib.request

SHOP = os.environ.get("SHOP", "http://127.0.0.1:8000")
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else None  # how many seconds; none: for ever


def order(org: str, number: int) -> int:
    """Order a report; return the status of the answer."""
    url = f"{SHOP}/orgs/{org}/reports?month={number}"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=10) as done:
            return done.status
    except urllib.error.HTTPError as refused:
        return refused.code


for second in itertools.islice(itertools.count(), ROUNDS):
    answers = [order("megacorp", second * 20 + n) for n in range(20)]
    small = [order(org, second) for org in ("ada", "ben", "cho")]
    print(f"megacorp: {answers.count(429)} of 20 refused; the others: {small}", flush=True)
    time.sleep(1)
