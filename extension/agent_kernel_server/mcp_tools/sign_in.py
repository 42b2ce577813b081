"""Signing in at MCP servers that want it: OAuth as the package does it. A person opens the address that `%agent tools`
shows; the service sends their browser back to this server. Tokens are in a file that its owner alone may read."""

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, BaseModel, ValidationError

from agent_kernel.own_thread import in_own_thread

PERSON_SECONDS = 600.0
"""How long a person may take to sign in."""


class _Tokens:
    """Implements the package's `TokenStorage`, in one file for each server."""

    def __init__(self, path: Path, redirect: str) -> None:
        self._path = path
        self._redirect = redirect

    async def _read(self, key: str) -> Any:
        return (await in_own_thread(self._content)).get(key)

    def _content(self) -> dict[str, Any]:
        try:
            found = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _put(self, key: str, value: BaseModel) -> None:
        content = json.dumps(self._content() | {key: value.model_dump(mode="json", exclude_none=True)})
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = self._path.with_suffix(".new")
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(content)
        beside.replace(self._path)

    async def get_tokens(self) -> OAuthToken | None:
        with suppress(ValidationError):
            return OAuthToken.model_validate(await self._read("tokens"))
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        await in_own_thread(lambda: self._put("tokens", tokens))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        with suppress(ValidationError):
            found = OAuthClientInformationFull.model_validate(await self._read("client"))
            if str(AnyUrl(self._redirect)) in map(str, found.redirect_uris or ()):
                return found
        return None  # also where it was registered to come back elsewhere, as before a change of the port

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await in_own_thread(lambda: self._put("client", client_info))


class SignIn:
    """For one server."""

    def __init__(self, url: str, redirect: str, tokens: Path, on_address: Callable[[str], None]) -> None:
        """`redirect` is where browsers are sent back to; `on_address` gets the address that a person is to open, and
        an empty text when they have been there."""
        self._on_address = on_address
        self._returned: asyncio.Future[AuthorizationCodeResult] | None = None
        self.auth = OAuthClientProvider(
            server_url=url,
            client_metadata=OAuthClientMetadata(client_name="Agent Kernel", redirect_uris=[AnyUrl(redirect)]),
            storage=_Tokens(tokens, redirect),
            redirect_handler=self._show,
            callback_handler=self._wait,
        )
        self._state = ""

    async def _show(self, address: str) -> None:
        self._state = dict(AnyUrl(address).query_params()).get("state", "")
        self._returned = asyncio.get_running_loop().create_future()
        self._on_address(address)

    async def _wait(self) -> AuthorizationCodeResult:
        assert self._returned is not None
        try:
            async with asyncio.timeout(PERSON_SECONDS):
                return await self._returned
        finally:
            self._returned = None
            self._on_address("")

    def come_back(self, code: str, state: str, issuer: str | None) -> bool:
        """A browser was sent back with this. Whether it is for this server; the package compares the state again."""
        if self._returned is None or self._returned.done() or not state or state != self._state:
            return False
        self._returned.set_result(AuthorizationCodeResult(code=code, state=state, iss=issuer))
        return True
