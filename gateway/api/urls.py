"""Addresses of the data plane's endpoints, below /api/v1/."""

from django.urls import path

from gateway.api.views import KeyDetail, KeyList

urlpatterns = [
    path("keys/", KeyList.as_view(), name="api-keys"),
    path("keys/<uuid:pk>/", KeyDetail.as_view(), name="api-key"),
]
