"""The ASGI entry of the web process: pages and API by Django, live data by Channels."""

import os

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.prod")
http_application = get_asgi_application()

from controlplane.routing import websocket_application  # noqa: E402 - models can be imported once Django is set up

application = ProtocolTypeRouter({"http": http_application, "websocket": websocket_application})
