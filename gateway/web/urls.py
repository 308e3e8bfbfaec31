"""Addresses of the data plane's pages."""

from django.urls import path

from gateway.web import keys, playground

app_name = "gateway"
urlpatterns = [
    path("keys/", keys.key_page, name="keys"),
    path("keys/<uuid:pk>/revoke/", keys.revoke, name="revoke"),
    path("playground/", playground.playground, name="playground"),
    path("playground/stream", playground.stream, name="stream"),
]
