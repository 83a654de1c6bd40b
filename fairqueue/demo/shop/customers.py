"""The customers: each line of standard input is [seconds to wait, tenant, jobs]."""

from __future__ import annotations

import json
import sys
import time

from tasks import app, render

with app.connection_for_write() as connection:
    connection.ensure_connection(max_retries=3)  # the site is up before the first order comes

for line in sys.stdin:
    pause, tenant, jobs = json.loads(line)
    time.sleep(pause)
    for number in range(jobs):
        render.delay(tenant=tenant, number=number, ordered_at=time.time())
