"""Addresses of monitoring's REST endpoints, below /api/v1/."""

from django.urls import path

from monitoring.api.views import LiveView, PriceView, UsageView

urlpatterns = [
    path("live/<str:profile>/", LiveView.as_view(), name="api-live"),
    path("usage/", UsageView.as_view(), name="api-usage"),
    path("prices/", PriceView.as_view(), name="api-prices"),
]
