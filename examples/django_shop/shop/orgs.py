"""Which workspace a request belongs to."""

from django.http import HttpRequest


def of_request(request: HttpRequest) -> str | None:
    """Return the customer of the user: its group. None: the default workspace."""
    group = request.user.groups.first()
    return group.name if group else None
