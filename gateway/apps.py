"""Django's registration of the data plane's control side: keys, routing table, usage."""

from django.apps import AppConfig


class GatewayConfig(AppConfig):
    """Keys, the routing table, usage."""

    name = "gateway"
