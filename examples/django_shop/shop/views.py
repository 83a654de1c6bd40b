"""A view that orders a report."""

from functools import partial

from django.http import HttpRequest, JsonResponse

from fairqueue_web.django import on_commit
from shop.tasks import report


def order(request: HttpRequest) -> JsonResponse:
    """Publish once the transaction has committed, to the workspace of this request."""
    on_commit(partial(report.delay, request.POST["month"]))
    return JsonResponse({"month": request.POST["month"]}, status=202)
