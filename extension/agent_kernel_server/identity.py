"""Who asks, and what they may do."""

from typing import Any, Literal

from jupyter_core.utils import ensure_async
from jupyter_server.base.handlers import JupyterHandler

AUTH_RESOURCE = "agent-kernel"
"""The resource that a site's Authorizer is asked about: `read` to look, `write` to make and delete conversations,
`execute` to start runs and to decide."""


def person_of(user: Any) -> str | None:
    """A person's name, where the identity provider knows one; with the account's, where that is another. A person may
    choose the former, and the audit trail must tell two of the same name apart.

    With a shared token or password Jupyter makes up `Anonymous Io` for each browser: that names nobody.
    """
    account = getattr(user, "username", None)
    name = getattr(user, "display_name", None) or getattr(user, "name", None) or account
    if not isinstance(name, str) or name.startswith("Anonymous "):
        return None
    return name if account in (None, "", name) else f"{name} ({account})"


async def may(handler: JupyterHandler, action: Literal["read", "write", "execute"]) -> bool:
    allowed: bool = await ensure_async(
        handler.authorizer.is_authorized(handler, handler.current_user, action, AUTH_RESOURCE)
    )
    return allowed
