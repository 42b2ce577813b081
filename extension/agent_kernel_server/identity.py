"""The person behind a request, and what they are authorized to do."""

import asyncio
import logging
from typing import Any, Literal

from jupyter_core.utils import ensure_async
from jupyter_server.base.handlers import JupyterHandler

logger = logging.getLogger(__name__)
AUTH_RESOURCE = "agent-kernel"
"""The resource name for a site's Authorizer. Its actions are `read`, `write` (create and delete conversations) and
`execute` (start runs and decide)."""


Action = Literal["read", "write", "execute"]

ASK_SECONDS = 60.0
"""How often the Authorizer is asked again about a connection that stays open."""


def person_of(user: Any) -> str | None:
    """The name of a Jupyter user for the log, with the account's name if that differs: people may choose their display
    names, and the audit trail must distinguish two that are equal.

    `None` where the identity provider knows no name. With a shared token or password Jupyter makes up one for each
    browser, such as `Anonymous Io`, which counts as none.
    """
    account = getattr(user, "username", None)
    name = getattr(user, "display_name", None) or getattr(user, "name", None) or account
    if not isinstance(name, str) or name.startswith("Anonymous "):
        return None
    return name if account in (None, "", name) else f"{name} ({account})"


async def may(handler: JupyterHandler, action: Action) -> bool:
    """Whether the Authorizer permits the request's user this action."""
    allowed: bool = await ensure_async(
        handler.authorizer.is_authorized(handler, handler.current_user, action, AUTH_RESOURCE)
    )
    return allowed


async def until_refused(handler: JupyterHandler, action: Action) -> None:
    """Ask again from time to time. Returns when the Authorizer does not permit any more what it did, or fails."""
    permitted = True
    while permitted:
        await asyncio.sleep(ASK_SECONDS)
        try:
            permitted = await may(handler, action)
        except Exception:
            logger.exception("The Authorizer failed, so a connection is closed")
            return
