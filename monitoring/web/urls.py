"""Addresses of monitoring's pages."""

from django.urls import path

from monitoring.web import views

app_name = "monitoring"

urlpatterns = [
    path("live/", views.live_index, name="live"),
    path("live/<str:profile>/", views.live_profile, name="live-profile"),
    path("prices/", views.prices, name="prices"),
    path("requests/", views.requests, name="requests"),
]
