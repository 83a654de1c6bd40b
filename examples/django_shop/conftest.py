"""Sets Django up before the tests are imported."""

import os

import django

os.environ["APP_ENV"] = "test"
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
django.setup()
