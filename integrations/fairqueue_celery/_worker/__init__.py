"""What runs in a Celery worker only."""
