"""The producer: the customers order their jobs, one customer after the other."""

from __future__ import annotations

import json
import sys
import time

from tasks import app, render

with app.connection_for_write() as connection:
    connection.ensure_connection(max_retries=3)  # connect before the first order

for customer, jobs in json.loads(sys.argv[1]).items():
    for number in range(jobs):
        render.delay(customer=customer, number=number, ordered_at=time.time())
    time.sleep(0.4)
