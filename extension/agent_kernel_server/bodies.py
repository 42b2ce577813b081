"""The base class of the HTTP handlers: what is read of a request's body, and what becomes of the connection."""

from typing import Any, NoReturn

from jupyter_server.base.handlers import APIHandler
from tornado import web

SHORT_BYTES = 64 * 1024
"""A refused body of this length is read and thrown away, so that the connection goes on."""


@web.stream_request_body
class BodyHandler(APIHandler):
    """Bodies are streamed, so that a refused one is neither read to its end nor kept: the user and the declared length
    are checked when the headers have come. Tornado closes a connection whose body it has not read, and then the answer
    says so: else a client that keeps its connections sends its next request into a closed one."""

    most_bytes = SHORT_BYTES
    """The longest body."""
    _received = False
    """Whether the whole body has been read."""

    def set_default_headers(self) -> None:
        super().set_default_headers()
        if not self._received:
            self.set_header("Connection", "close")

    async def prepare(self) -> None:  # type: ignore[override]
        """Raises `HTTPError` 403 without a user, 413 for a body that is too long, and Jupyter's own refusals; where the
        body is short, when it has come."""
        self._body = bytearray()
        refusal: web.HTTPError | None = None
        try:
            await self._check_headers()
        except web.HTTPError as error:
            if not self._has_short_body():
                raise
            refusal = error
        if not self._finished:
            self._when_received(refusal)

    async def _check_headers(self) -> None:
        await super().prepare()
        if self._finished or self.request.method == "OPTIONS":  # a browser asks without a token whether it may send one
            return
        if self.current_user is None:
            raise web.HTTPError(403)
        length = self.request.headers.get("Content-Length", "0")
        if length.isdecimal() and int(length) > self.most_bytes:
            self.refuse_size()

    def _has_short_body(self) -> bool:
        length = self.request.headers.get("Content-Length", "0")
        return "Transfer-Encoding" not in self.request.headers and length.isdecimal() and int(length) <= SHORT_BYTES

    def _when_received(self, refusal: web.HTTPError | None) -> None:
        """Tornado calls the request's method once the body has been read. Until then the refusal stands in its
        place."""
        name = str(self.request.method).lower()
        method = getattr(self, name)

        def received(*arguments: Any, **named: Any) -> Any:
            delattr(self, name)  # which refers to this handler
            self._received = True
            self.clear_header("Connection")
            if refusal is not None:
                raise refusal
            return method(*arguments, **named)

        setattr(self, name, received)

    def data_received(self, chunk: bytes) -> None:
        """One piece of the body. The first one beyond the limit is kept, as a sign of it; later ones are dropped."""
        if len(self._body) <= self.most_bytes:
            self._body += chunk

    def refuse_size(self) -> NoReturn:
        raise web.HTTPError(413, f"The body is larger than {self.most_bytes} bytes.")
