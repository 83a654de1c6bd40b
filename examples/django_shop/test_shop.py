"""Tests of the project, without a server."""

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.test import Client
from shop.celery import app
from shop.tasks import report

from fairqueue_celery import queue_of


@pytest.fixture(scope="module")
def client():
    """A user of the customer ada, logged in."""
    call_command("migrate", verbosity=0)
    user = User.objects.create_user("someone")
    user.groups.add(Group.objects.create(name="ada"))
    client = Client()
    client.force_login(user)
    yield client
    app.control.purge()


def test_a_report_belongs_to_the_users_customer(client):
    """The view and the task do not name it."""
    assert client.post("/reports/", {"month": "May"}).status_code == 202
    waiting = queue_of(app).views.waiting(workspace="ada")
    assert [job.task for job in waiting.jobs] == [report.name]


def test_a_customer_that_is_full_is_told_to_come_back(client):
    """A hundred of its reports may wait."""
    answers = [client.post("/reports/", {"month": "May"}) for _ in range(101)]
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["Retry-After"]) >= 1


def test_the_settings_are_sound():
    """Django's own checks, and those of fairqueue."""
    call_command("check")
