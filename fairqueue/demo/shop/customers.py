"""The customers: each line of standard input is [seconds to wait, tenant, jobs]."""

from __future__ import annotations

import json
import sys
import time

from tasks import render

for line in sys.stdin:
    pause, tenant, jobs = json.loads(line)
    time.sleep(pause)
    for number in range(jobs):
        render.delay(tenant=tenant, number=number, ordered_at=time.time())
