"""Endpoints: address, API and key of model services, from the configuration or from environment variables."""

import fnmatch
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, ValidationError

from agent_kernel.errors import SET_WHERE_IT_STARTS, ConfigurationError
from agent_kernel.models.known import DEFAULT_MODELS, NOTHING_KNOWN, Capabilities, Provider
from agent_kernel.protocol.vocabulary import ENVIRONMENT_KEYS, ApiName

OPENAI = "openai"
ANTHROPIC = "anthropic"
"""The names of the endpoints that environment variables define."""
OPENAI_BASE_URL = "https://api.openai.com/v1"
ANTHROPIC_BASE_URL = "https://api.anthropic.com/v1"
SETTING = "c.AgentKernelServer.endpoints"
"""The trait that configures endpoints, for messages."""
HOMES: dict[str, Provider] = {"api.openai.com": "OpenAI", "api.anthropic.com": "Anthropic"}
"""The providers' own addresses."""

_KEY_SETTINGS: dict[str, str] = {"OpenAI": "OPENAI_API_KEY", "Anthropic": "ANTHROPIC_API_KEY"}
_KEY_BEGINNINGS = (
    ("sk-ant-", "Anthropic"),
    ("sk-or-", "OpenRouter"),
    ("gsk_", "Groq"),
    ("xai-", "xAI"),
    ("AIza", "Google"),
    ("sk-", "OpenAI"),
)
"""Prefixes of the providers' keys; the first match names the provider of a key."""

ENVIRONMENT = (*ENVIRONMENT_KEYS, "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "AGENT_KERNEL_MODEL")
"""The variables that determine endpoints and the default model."""


def _versioned(base_url: str) -> str:
    plain = base_url.rstrip("/")
    return plain if re.search(r"/v\d+\w*$", plain) else f"{plain}/v1"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model service. Its key is sent to its `base_url` and nowhere else.

    Raises `ConfigurationError` for a base URL that is not http or https.
    """

    name: str
    base_url: str
    api_key_env: str | None = None
    """The environment variable that holds the key; read again for each request."""
    api_key: Callable[[], str | None] | None = field(default=None, repr=False)
    """Returns the key, if it is not in an environment variable."""
    models: tuple[str, ...] = ()
    """Names, or patterns such as `llama*`, of the models that this endpoint serves when no endpoint is named."""
    api: ApiName | None = None
    """The API to try first; `None` decides by the address."""
    capabilities: Capabilities = NOTHING_KNOWN
    """The configured capabilities of its models, which override those from other sources."""
    idle_seconds: float = 120.0
    ambient: bool = False
    """Whether it comes from environment variables, so that the provider's other variables are meant for it too."""
    key_setting: str = ""
    """The name of the setting that holds the key, for messages."""

    def __post_init__(self) -> None:
        if self.first_api == "messages":  # Anthropic's client adds the version to the path by itself
            object.__setattr__(self, "base_url", _versioned(self.base_url))
        if self.parts.scheme not in ("http", "https") or not self.host:
            raise ConfigurationError(f"The base URL of the endpoint {self.name!r} must begin with http:// or https://.")
        if not self.name or "/" in self.name or ":" in self.name:
            raise ConfigurationError(f"An endpoint can't be named {self.name!r}: a name holds no '/' and no ':'.")

    @property
    def parts(self) -> SplitResult:
        return urlsplit(self.base_url)

    @property
    def host(self) -> str:
        return self.parts.hostname or ""

    @property
    def where(self) -> str:
        """The address for messages, without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.parts.port}" if self.parts.port else ""
        return f"{self.parts.scheme}://{host}{port}{self.parts.path.rstrip('/')}"

    @property
    def provider(self) -> Provider | None:
        """The provider whose own address this is, if any."""
        return HOMES.get(self.host)

    @property
    def is_near(self) -> bool:
        """Whether it is probably the user's own server: hosted services use TLS."""
        return self.parts.scheme == "http"

    @property
    def first_api(self) -> ApiName:
        """The API to try first."""
        if self.api is not None:
            return self.api
        match self.provider:
            case "OpenAI":
                return "responses"
            case "Anthropic":
                return "messages"
            case None:
                return "messages" if self.ambient and self.name == ANTHROPIC else "chat"

    @property
    def default_model(self) -> str | None:
        """The model if none is named: the provider's default at its own address and, as Anthropic's own clients have
        it, at the address that ANTHROPIC_BASE_URL gives with a key. Elsewhere `None`."""
        if self.provider is not None:
            return DEFAULT_MODELS[self.provider]
        return DEFAULT_MODELS["Anthropic"] if self.ambient and self.name == ANTHROPIC and self.secret() else None

    def serves(self, model: str) -> bool:
        return any(fnmatch.fnmatchcase(model, pattern) for pattern in self.models)

    def secret(self) -> str | None:
        """The key, unchecked."""
        return self.api_key() if self.api_key is not None else os.environ.get(self.api_key_env or "")

    def read_key(self) -> str | None:
        """The key. Raises `ConfigurationError`, without the key, if its prefix is that of another provider than the
        address's, and if it can't be sent in a header."""
        key, setting = (self.secret() or "").strip(), self.named_key_setting
        if key and self.provider is not None:
            _check_owner(key, self.provider, setting)
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ConfigurationError(
                f"{setting} holds characters that no API key has, such as a space within it; it was not sent. "
                f"Set it again {SET_WHERE_IT_STARTS}"
            )
        return key or None

    @property
    def named_key_setting(self) -> str:
        own = "OPENAI_API_KEY" if self.name == OPENAI else f"the key of the endpoint {self.name!r}"
        return self.key_setting or self.api_key_env or own

    @property
    def address_setting(self) -> str:
        """The name of the setting that holds the address, for messages; empty if nothing sets it."""
        if self.ambient or self.name == OPENAI:
            return {OPENAI: "OPENAI_BASE_URL", ANTHROPIC: "ANTHROPIC_BASE_URL"}.get(self.name, "")
        return f"{SETTING}[{self.name!r}]['base_url']"


@dataclass(frozen=True, slots=True)
class BrokenEndpoint:
    """An endpoint with an invalid configuration. Only runs that use it fail, with `fault` as the message."""

    name: str
    fault: str
    """What is wrong and what to do."""
    models: tuple[str, ...] = ()

    def serves(self, model: str) -> bool:
        return any(fnmatch.fnmatchcase(model, pattern) for pattern in self.models)


def _names(value: Any) -> Any:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


class _Fields(BaseModel):
    """The fields of one endpoint in a configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    base_url: str
    api_key_env: str | None = None
    models: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()
    api: ApiName | None = None
    images: StrictBool | None = None
    tools: StrictBool | None = None
    context_tokens: int | None = Field(default=None, gt=0)


def configured(name: str, fields: Any) -> Endpoint | BrokenEndpoint:
    """The endpoint of a configuration entry: see `_Fields`."""
    try:
        read = _Fields.model_validate(fields)
        capabilities = Capabilities(images=read.images, tools=read.tools, context_tokens=read.context_tokens)
        return Endpoint(
            name, read.base_url, read.api_key_env, models=read.models, api=read.api, capabilities=capabilities
        )
    except ValidationError as error:
        fault = f"The endpoint {name!r} is not configured as it should be: {_first_fault(error)}"
    except ConfigurationError as error:
        fault = str(error)
    models = fields.get("models", ()) if isinstance(fields, dict) else ()
    named = _names(models)
    return BrokenEndpoint(name, fault, tuple(str(one) for one in named) if isinstance(named, tuple) else ())


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{f'{where}: ' if where else ''}{first['msg']}. Its fields are {', '.join(sorted(_Fields.model_fields))}."


def of_environment(variables: Mapping[str, str]) -> Iterator[Endpoint | BrokenEndpoint]:
    """The endpoints that environment variables define, with the meaning that the providers' own clients give them. The
    first that has a default model is used if no model is named.

    Keys are read now: a key that is set later never goes to an address that was set before.
    """
    openai_key, openai_address = _read(variables, "OPENAI_API_KEY"), _read(variables, "OPENAI_BASE_URL")
    if openai_key or openai_address:
        yield _own(OPENAI, openai_address or OPENAI_BASE_URL, openai_key, "OPENAI_API_KEY", "OPENAI_BASE_URL")
    setting = "ANTHROPIC_API_KEY"
    key, address = _read(variables, setting), _read(variables, "ANTHROPIC_BASE_URL")
    if not key and (token := _read(variables, "ANTHROPIC_AUTH_TOKEN")):
        setting, key = "ANTHROPIC_AUTH_TOKEN", token
    if key or address:
        yield _own(ANTHROPIC, address or ANTHROPIC_BASE_URL, key, setting, "ANTHROPIC_BASE_URL", ("claude*",))


def _read(variables: Mapping[str, str], name: str) -> str:
    return variables.get(name, "").strip()


def _own(
    name: str, address: str, key: str, key_setting: str, address_setting: str, models: tuple[str, ...] = ()
) -> Endpoint | BrokenEndpoint:
    try:
        return Endpoint(
            name, address, api_key=lambda: key or None, models=models, ambient=True, key_setting=key_setting
        )
    except ConfigurationError:
        fault = f"{address_setting} must begin with http:// or https://. Set it to the address of a model's service."
        return BrokenEndpoint(name, fault, models)


def _check_owner(key: str, provider: Provider, setting: str) -> None:
    """Refuse a key of another provider before it is sent."""
    owner = next((owner for beginning, owner in _KEY_BEGINNINGS if key.startswith(beginning)), provider)
    if owner == provider:
        return
    own = f"Set it as {_KEY_SETTINGS[owner]}, and" if owner in _KEY_SETTINGS else "Set"
    raise ConfigurationError(
        f"{setting} holds a key of {owner}, which {provider} does not know; it was not sent. {own} {setting} to a key "
        f"of {provider}, or not at all."
    )
