"""One workspace orders a thousand reports; then another workspace orders one."""

from app import report

import fairqueue

for number in range(1000):
    report.send(f"month {number}", tenant_id="megacorp")
try:
    report.send("one month more", tenant_id="megacorp")
except fairqueue.CapacityExceeded as full:
    print(f"{full.workspace} is full; retry in {full.retry_after:.0f} s")
report.send("May", tenant_id="ada")
