"""The settings: three places mention fairqueue."""

import os
from pathlib import Path

IN_TESTS = os.environ.get("APP_ENV") == "test"
REDIS = os.environ.get("REDIS", "localhost:6379/0")

SECRET_KEY = os.environ.get("SECRET_KEY", "only for this example")
DEBUG = os.environ.get("DEBUG") == "1"  # it shows settings to any client
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "localhost,127.0.0.1").split(",")
ROOT_URLCONF = "shop.urls"
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ":memory:" if IN_TESTS else Path(__file__).parents[1] / "db.sqlite3",
    }
}
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "fairqueue_web.django",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "fairqueue_web.django.middleware.FairQueueMiddleware",
]

LIMITS = {  # one set for web processes and workers: the last worker that boots stores its own
    "workspace_concurrency": 2,  # running jobs
    "workspace_capacity": 100,  # waiting jobs
    "workspace_requests": 20,  # requests in flight, over all web processes
}
FAIRQUEUE = {
    "url": "memory://shop" if IN_TESTS else f"redis://{REDIS}",
    "workspace_from": "shop.orgs:of_request",
    **LIMITS,
}
CELERY_BROKER_URL = "fairqueue+memory://shop" if IN_TESTS else f"fairqueue://{REDIS}"
CELERY_BROKER_TRANSPORT_OPTIONS = LIMITS
