"""Reads which MCP servers there are, in the form that Claude Code (`mcpServers`) and VS Code (`servers`) use.

    {"mcpServers": {"files": {"command": "npx", "args": ["-y", "…"], "env": {"ROOT": "${HOME}/data"}},
                    "github": {"type": "http", "url": "https://…", "headers": {"Authorization": "Bearer ${TOKEN}"}}}}

`${NAME}` and `${NAME:-else}` are variables of the Jupyter server's environment. A server with a mistake says so; all
others work.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.json_once import RepeatedName, unique

NO_PACKAGE = (
    "MCP needs version 2 of the package mcp, and this environment has another one, as jupyter-ai wants it. Everything "
    "else works. To change it: pip install 'mcp>=2.3,<3'"
)
FILE_NAME = "mcp.json"
FOLDER_FILE = ".mcp.json"
MOST_BYTES = 256 * 1024
MOST_SERVERS = 50
_MOST_SAID = 300
_VARIABLE = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}")
CALL_SECONDS = 600.0

Origin = Literal["user", "site", "folder"]
"""Whose server it is: of the user's `mcp.json`, the site's configuration, or a notebook's folder."""


class _Entry(BaseModel):
    """One server, as it is written. Keys that other programs use are ignored."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    type: Literal["stdio", "http", "streamable-http", "streamableHttp"] | None = None
    command: str | None = Field(default=None, min_length=1)
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    cwd: str | None = None
    url: str | None = Field(
        default=None, pattern="^https?://", validation_alias=AliasChoices("url", "httpUrl", "serverUrl")
    )
    headers: dict[str, str] = Field(default_factory=dict)
    timeout: float = Field(default=CALL_SECONDS, gt=0, le=86_400)
    """Seconds that a call may take."""
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """A server that can be started. Its environment and its headers may hold secrets: it is never shown."""

    name: str
    origin: Origin
    command: tuple[str, ...] = ()
    """Empty for a server that is reached by HTTP."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = CALL_SECONDS
    shown: str = ""
    """What a person is shown of it: as it is written, so without the values of variables."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a configuration says."""

    servers: tuple[ServerConfig, ...] = ()
    faults: tuple[str, ...] = ()
    """What is wrong, each as sentences that name the file and the server."""

    def and_(self, other: "Found") -> "Found":
        """With the servers of another one whose names are not taken."""
        taken = {server.name for server in self.servers}
        said = "The {0.origin}'s server {0.name} is left out: there is one of that name."
        left_out = [said.format(one) for one in other.servers if one.name in taken]
        more = [one for one in other.servers if one.name not in taken]
        return Found((*self.servers, *more), (*self.faults, *other.faults, *left_out))


def read_file(path: Path, origin: Origin, environ: Mapping[str, str], secrets: Collection[str] = ()) -> Found:
    """The servers of a file; none if there is no such file. It blocks on the disk. `secrets` are never given to a
    server: of the folder's file, which may be a stranger's."""
    try:
        raw = read_bytes(path)
    except FileNotFoundError:
        return Found()
    except OSError as error:
        return Found(faults=(f"{path.name} can't be read: {error.strerror}.",))
    try:
        return parse(raw, path.name, origin, environ, secrets)
    except ConfigurationError as error:
        return Found(faults=(str(error),))


def read_bytes(path: Path) -> bytes:
    """Raises `OSError`."""
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        return file.read(MOST_BYTES + 1)


def parse(raw: bytes, file: str, origin: Origin, environ: Mapping[str, str], secrets: Collection[str] = ()) -> Found:
    """Raises `ConfigurationError` for what is no such file at all."""
    if len(raw) > MOST_BYTES:
        raise ConfigurationError(f"{file} has more than {MOST_BYTES // 1024} KiB.")
    try:
        content = json.loads(raw.decode("utf-8-sig"), object_pairs_hook=unique)
    except RepeatedName as error:
        raise ConfigurationError(f"{file} has a name twice: {error}.") from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{file} is not JSON: {str(error)[:_MOST_SAID]}.") from None
    named = content.get("mcpServers", content.get("servers", {})) if isinstance(content, dict) else None
    if not isinstance(named, dict) or (named == {} and content != {} and "mcpServers" not in content):
        raise ConfigurationError(f'{file} has no "mcpServers" with the servers by name.')
    return of_entries(named, file, origin, environ, secrets)


def of_entries(
    named: Mapping[Any, Any], file: str, origin: Origin, environ: Mapping[str, str], secrets: Collection[str] = ()
) -> Found:
    servers: list[ServerConfig] = []
    faults = [f"{file} has more than {MOST_SERVERS} servers."] if len(named) > MOST_SERVERS else []
    for name, entry in list(named.items())[:MOST_SERVERS]:
        try:
            found = _server(str(name), entry, origin, environ, secrets)
        except ConfigurationError as error:
            faults.append(f"{file}: the server {str(name)[:60]!r} can't be used: {error} All others work.")
        else:
            servers += [found] if found is not None else []
    return Found(tuple(servers), tuple(faults))


def _server(
    name: str, entry: Any, origin: Origin, environ: Mapping[str, str], secrets: Collection[str]
) -> ServerConfig | None:
    """`None` for one that is switched off. Raises `ConfigurationError`."""
    if not name.strip() or len(name) > 60 or not name.isprintable():
        raise ConfigurationError("its name is not 1 to 60 printable characters.")
    try:
        read = _Entry.model_validate(entry)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise ConfigurationError(f"{place}: {first['msg']}.") from None
    if read.disabled:
        return None
    if (read.command is None) == (read.url is None):
        raise ConfigurationError('it needs either a "command" or a "url".')

    filled = partial(_filled, environ=environ, secrets=secrets)
    command = tuple(map(filled, [read.command, *read.args])) if read.command is not None else ()
    if command and shutil.which(command[0], path=read.env.get("PATH", environ.get("PATH"))) is None:
        raise ConfigurationError(f"there is no program {command[0][:100]!r}.")
    variables = (read.env | read.headers).items()
    return ServerConfig(
        name=name,
        origin=origin,
        command=command,
        env={key: filled(value) for key, value in read.env.items()},
        cwd=filled(read.cwd) if read.cwd else None,
        url=filled(read.url or ""),
        headers={key: filled(value) for key, value in read.headers.items()},
        timeout=read.timeout,
        shown=" ".join([read.command or read.url or "", *read.args, *map("=".join, variables)])[:1_000],
    )


def _filled(text: str, environ: Mapping[str, str], secrets: Collection[str]) -> str:
    def value(found: re.Match[str]) -> str:
        name, otherwise = found[1], found[2]
        if (known := environ.get(name, otherwise)) is None:
            raise ConfigurationError(f"the variable {name} is not set.")
        if known and any(secret in known for secret in secrets if secret):
            raise ConfigurationError(
                f"the variable {name} holds a key of Agent Kernel's, which no folder's server gets."
            )
        return known

    return _VARIABLE.sub(value, text)


@dataclass(frozen=True, slots=True)
class FolderFile:
    """The file of a notebook's folder, or of one above it."""

    path: Path
    digest: str
    found: Found

    def arguments(self, root: Path) -> dict[str, Any]:
        """What a person is asked about, and their yes is bound to."""
        lines = [f"{one.name}: {one.shown}" for one in self.found.servers]
        file = self.path.relative_to(root).as_posix() if self.path.is_relative_to(root) else str(self.path)
        return {"file": file, "sha256": self.digest, "servers": "\n".join(lines)}


def read_folder_file(
    folder: Path, root: Path, environ: Mapping[str, str], secrets: Collection[str]
) -> FolderFile | None:
    """The nearest file, from a folder up to `root`, where there is one. No link is followed. It blocks on the disk."""
    inside = [place for place in (folder, *folder.parents) if place == root or place.is_relative_to(root)]
    for place in inside or [folder]:
        path = place / FOLDER_FILE
        if path.is_file() and not path.is_symlink():
            raw = read_bytes(path)
            try:
                found = parse(raw, FOLDER_FILE, "folder", environ, secrets)
            except ConfigurationError as error:
                found = Found(faults=(str(error),))
            servers = tuple(replace(one, cwd=str(place / (one.cwd or ""))) for one in found.servers)
            return FolderFile(path, hashlib.sha256(raw).hexdigest(), replace(found, servers=servers))
    return None
