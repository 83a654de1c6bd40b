"""One workspace orders a thousand reports; then another workspace orders one."""

from app import broker, report

import fairqueue
from fairqueue_dramatiq import queue_of

for number in range(1000):
    report.send(f"month {number}", tenant_id="megacorp")
try:
    report.send("one month more", tenant_id="megacorp")
except fairqueue.CapacityExceeded as full:
    print(f"{full.workspace} is full; retry in {full.retry_after:.0f} s")
mine = report.send("May", tenant_id="ada")
job = queue_of(broker).job(mine.message_id, workspace="ada")
print(f"ada's report is {job.state.value if job else 'done'}")
