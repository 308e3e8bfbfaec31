"""Websocket routes: who may connect at all; topics are authorised one by one by the consumer."""

from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator

from monitoring.consumers import websocket_urlpatterns

websocket_application = AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))
