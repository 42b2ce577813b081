"""From a name to a model. Endpoints and keys come from the host's configuration, never from a notebook."""

import fnmatch
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from agent_kernel.errors import ConfigurationError, NoModelError
from agent_kernel.models.apis import make_api
from agent_kernel.models.base import Model
from agent_kernel.models.client import Connection, SharedClient
from agent_kernel.models.http import HttpModel
from agent_kernel.models.replay import DEMO_CASSETTE, ReplayModel
from agent_kernel.models.retry import Clock, RetryPolicy
from agent_kernel.protocol.vocabulary import ApiName

OPENAI_BASE_URL = "https://api.openai.com/v1"
DEFAULT_ENDPOINT = "openai"
DEFAULT_OPENAI_MODEL = "gpt-5.2"
DEMO_PACE = 0.02
"""Seconds a word: about as fast as a hosted model."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible service. Its key is sent to its `base_url` and nowhere else.

    Raises `ConfigurationError` for a base URL that is not http or https.
    """

    name: str
    base_url: str
    api_key_env: str | None = None
    """The environment variable that holds the key; read anew for each request."""
    api_key: Callable[[], str | None] | None = field(default=None, repr=False)
    """Gives the key, where an environment variable will not do."""
    models: tuple[str, ...] = ()
    """Names, or patterns such as `llama*`, of the models that this endpoint serves when no endpoint is named."""
    api: ApiName | None = None
    """What it speaks; Chat Completions where nothing is said."""
    idle_seconds: float = 120.0
    ambient: bool = False
    """Whether OPENAI_ORG_ID, OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS are meant for it."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"The base URL of the endpoint {self.name!r} must begin with http:// or https://.")
        if not self.name or "/" in self.name or ":" in self.name:
            raise ConfigurationError(f"An endpoint can't be named {self.name!r}: a name holds no '/' and no ':'.")

    def serves(self, model: str) -> bool:
        return any(fnmatch.fnmatchcase(model, pattern) for pattern in self.models)

    def read_key(self) -> str | None:
        if self.api_key is not None:
            return self.api_key()
        return os.environ.get(self.api_key_env) if self.api_key_env else None

    def connection(self) -> Connection:
        own = self.name == DEFAULT_ENDPOINT
        return Connection(
            base_url=self.base_url,
            key=self.read_key,
            key_setting=self.api_key_env or ("OPENAI_API_KEY" if own else f"the key of the endpoint {self.name!r}"),
            address_setting="OPENAI_BASE_URL" if own else f"the base URL of the endpoint {self.name!r}",
            idle_seconds=self.idle_seconds,
            ambient=self.ambient,
        )


class ModelResolver:
    """Names -> models. One per host; used from its event loop.

    - `demo`: the shipped cassette
    - `replay:PATH`: a cassette; relative to `base_directory`, and never outside of it if one is given
    - `ENDPOINT/MODEL`: a model of a named endpoint
    - `MODEL`: of the endpoint that lists it, else of the endpoint `openai`, else of the only endpoint there is
    - the name of a registered model
    """

    def __init__(
        self,
        *,
        default: str | None = None,
        endpoints: Mapping[str, Endpoint] | Iterable[Endpoint] = (),
        base_directory: Path | None = None,
        demo_pace: float = DEMO_PACE,
        retry: RetryPolicy | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.default = default
        """The name that `resolve(None)` stands for."""
        listed = endpoints.values() if isinstance(endpoints, Mapping) else endpoints
        self.endpoints: dict[str, Endpoint] = {endpoint.name: endpoint for endpoint in listed}
        self._base_directory = base_directory
        self._demo_pace = demo_pace
        self._retry = retry
        self._clock = clock
        self._registered: dict[str, Model] = {}
        self._clients: dict[str, SharedClient] = {}
        self._models: dict[str, Model] = {}

    @classmethod
    def from_environment(
        cls,
        environ: Mapping[str, str] | None = None,
        *,
        default: str | None = None,
        endpoints: Iterable[Endpoint] = (),
        base_directory: Path | None = None,
    ) -> "ModelResolver":
        """From OPENAI_API_KEY, OPENAI_BASE_URL and AGENT_KERNEL_MODEL, with the given endpoints beside.

        `default` wins over AGENT_KERNEL_MODEL. With a key and no address it is OpenAI, and then the default model is
        `gpt-5.2`. With an address and no key (Ollama) a placeholder is sent. Raises `ConfigurationError`.
        """
        variables = os.environ if environ is None else environ
        listed = list(endpoints)
        default = default or variables.get("AGENT_KERNEL_MODEL") or None
        own = _environment_endpoint(variables)
        if own is not None and all(endpoint.name != own.name for endpoint in listed):
            listed.append(own)
            if own.base_url == OPENAI_BASE_URL:
                default = default or DEFAULT_OPENAI_MODEL
        return cls(default=default, endpoints=listed, base_directory=base_directory)

    def resolve(self, name: str | None = None) -> Model:
        """`None` means the default. Raises `NoModelError` if nothing is configured and `ConfigurationError` for a name
        that means nothing here."""
        wanted = (name or self.default or "").strip()
        if not wanted:
            raise NoModelError
        if wanted in self._registered:
            return self._registered[wanted]
        if wanted.startswith("replay:"):
            return self._replay(wanted)
        if wanted not in self._models:
            self._models[wanted] = self._create(wanted)
        return self._models[wanted]

    def register(self, model: Model) -> str:
        """Offer a Python object as a model. Returns the name that `resolve` now knows it by: its own, with a number if
        another object has that name."""
        name, number = model.name, 1
        while self._registered.get(name, model) is not model:
            number += 1
            name = f"{model.name}#{number}"
        self._registered[name] = model
        return name

    async def aclose(self) -> None:
        """Close the connections of this event loop, and the registered models."""
        for client in self._clients.values():
            await client.aclose()
        for model in self._registered.values():
            await model.aclose()

    def _create(self, name: str) -> Model:
        if name == "demo":
            return ReplayModel.from_file(DEMO_CASSETTE, name="demo", pace=self._demo_pace)
        endpoint, wire_name = self._find(name)
        client = self._clients.get(endpoint.name)
        if client is None:
            client = self._clients[endpoint.name] = SharedClient(endpoint.connection())
        api = make_api(endpoint.api or "chat")
        return HttpModel(wire_name, client, api=api, name=name, retry=self._retry, clock=self._clock)

    def _find(self, name: str) -> tuple[Endpoint, str]:
        if not self.endpoints:
            raise NoModelError
        prefix, slash, rest = name.partition("/")
        if slash and rest and prefix in self.endpoints:
            return self.endpoints[prefix], rest
        for endpoint in self.endpoints.values():
            if endpoint.serves(name):
                return endpoint, name
        if DEFAULT_ENDPOINT in self.endpoints:
            return self.endpoints[DEFAULT_ENDPOINT], name
        if len(self.endpoints) == 1:
            return next(iter(self.endpoints.values())), name
        names = ", ".join(f"{endpoint}/{name}" for endpoint in self.endpoints)
        raise ConfigurationError(f"No endpoint lists the model {name!r}. Say which one serves it: {names}.")

    def _replay(self, name: str) -> Model:
        path = self._replay_path(name.removeprefix("replay:"))
        try:
            version = path.stat().st_mtime_ns
        except OSError as error:
            raise ConfigurationError(f"The cassette {path.name} can't be read: {error.strerror}.") from None
        key = f"{version} {path}"  # a cassette that was written again is read again
        if key not in self._models:
            self._models[key] = ReplayModel.from_file(path, name=name)
        return self._models[key]

    def _replay_path(self, text: str) -> Path:
        if "://" in text or not text.strip():
            raise ConfigurationError("replay: takes the path of a cassette file, not an address.")
        if self._base_directory is None:
            return Path(text).expanduser().resolve()
        base = self._base_directory.resolve()
        path = (base / text).resolve()
        if not path.is_relative_to(base):
            raise ConfigurationError(f"replay: may only name files inside the server's directory, and {text!r} is not.")
        return path


def warm_up() -> None:
    """Import what the first run needs, about a second of work. Call it in a thread; a second call costs nothing, and
    a run that starts meanwhile waits on Python's own import locks."""
    import aiohttp  # noqa: F401
    import langgraph.graph  # noqa: F401
    import openai  # noqa: F401


def _environment_endpoint(variables: Mapping[str, str]) -> Endpoint | None:
    key = variables.get("OPENAI_API_KEY", "").strip()
    address = variables.get("OPENAI_BASE_URL", "").strip()
    if not key and not address:
        return None
    return Endpoint(
        name=DEFAULT_ENDPOINT,
        base_url=address or OPENAI_BASE_URL,
        api_key=lambda: key or None,
        ambient=True,
    )
