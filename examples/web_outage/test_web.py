"""Redis is away: the request is answered, and the order is on disk."""

from celery import Celery

from fairqueue_celery import queue_of


def test_an_order_is_kept(tmp_path):
    """Nothing listens at port 1."""
    query = f"on_unavailable=buffer&buffer_path={tmp_path}"
    app = Celery("web", broker=f"fairqueue://127.0.0.1:1/0?{query}", set_as_current=False)
    app.signature("report", ("May",), workspace="acme", ignore_result=True).apply_async()
    assert queue_of(app).buffered == 1
    queue_of(app).close()
