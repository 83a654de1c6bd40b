"""One workspace orders a thousand reports; then another workspace orders one."""

from app import app, report

import fairqueue
from fairqueue_celery import queue_of

for number in range(1000):
    report.delay(f"month {number}", tenant_id="megacorp")
try:
    report.delay("one month more", tenant_id="megacorp")
except fairqueue.CapacityExceeded as full:
    print(f"{full.workspace} is full; retry in {full.retry_after:.0f} s")
mine = report.delay("May", tenant_id="ada")
job = queue_of(app).job(mine.id, workspace="ada")
print(f"ada's report is {job.state.value if job else 'done'}")
