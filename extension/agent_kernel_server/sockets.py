"""What the WebSockets of the extension have in common."""

from typing import Any

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from jupyter_server.extension.handler import ExtensionHandlerMixin
from tornado.websocket import WebSocketHandler

from agent_kernel_server.identity import AUTH_RESOURCE
from agent_kernel_server.service import Service

ACCEPTED_FRAME_BYTES = 64 * 1024 * 1024
"""Tornado closes the socket on a larger frame, before anything can be answered. Of a channel, frames between the
protocol's `MAX_FRAME_BYTES` and this one are read and refused with INVALID_FORMAT."""

NOT_PERMITTED = 1008
"""The close code of RFC 6455 for a client that may not look any more."""


class SocketHandler(ExtensionHandlerMixin, WebSocketMixin, WebSocketHandler, JupyterHandler):
    auth_resource = AUTH_RESOURCE

    @property
    def service(self) -> Service:
        service: Service = self.settings[self.name].service
        return service

    @property
    def max_message_size(self) -> int:
        return ACCEPTED_FRAME_BYTES

    def set_default_headers(self) -> None:
        """Nothing: the headers that Jupyter sets are for pages."""

    def skip_check_origin(self) -> bool:
        """Never. Jupyter skips the check for a token, and a token in a URL is what a foreign page could have."""
        return False

    def on_close(self) -> None:
        pings: Any = self.ping_callback
        if pings is not None:
            pings.stop()  # else it holds this handler until the next ping is due
        super().on_close()
