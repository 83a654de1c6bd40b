"""A Django project. Celery's app is imported with it, so that tasks use its broker."""

from shop.celery import app as celery_app

__all__ = ["celery_app"]
