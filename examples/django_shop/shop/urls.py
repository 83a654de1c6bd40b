"""The pages."""

from django.urls import path

from shop.views import order

urlpatterns = [path("reports/", order)]
