"""The producer: each line of standard input is [seconds to wait, customer, jobs]."""

from __future__ import annotations

import json
import sys
import time

from tasks import app, render

with app.connection_for_write() as connection:
    connection.ensure_connection(max_retries=3)  # connect before the first order

for line in sys.stdin:
    pause, customer, jobs = json.loads(line)
    time.sleep(pause)
    for number in range(jobs):
        render.delay(customer=customer, number=number, ordered_at=time.time())
