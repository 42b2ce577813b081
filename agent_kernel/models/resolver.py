"""Finds models by name. Endpoints and keys come from the host's configuration, never from a notebook."""

import asyncio
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from agent_kernel.errors import ConfigurationError, NoModelError
from agent_kernel.models import prices
from agent_kernel.models.base import Clock, Model
from agent_kernel.models.catalogue import Listing, ModelList
from agent_kernel.models.client import Client
from agent_kernel.models.endpoints import (
    ENVIRONMENT,
    OPENAI,
    BrokenEndpoint,
    Endpoint,
    of_environment,
)
from agent_kernel.models.http import HttpModel
from agent_kernel.models.known import NOTHING_KNOWN, OPENAI_NAMES
from agent_kernel.models.length import ContextLimit
from agent_kernel.models.recordings.format import load
from agent_kernel.models.recordings.names import VARIABLE as RECORDING_VARIABLE
from agent_kernel.models.recordings.names import RecordingName, read_name
from agent_kernel.models.recordings.player import RecordedModel
from agent_kernel.models.recordings.recorder import RecordingModel
from agent_kernel.models.retry_policy import RetryPolicy
from agent_kernel.protocol.lists import EndpointView, ModelsView, ModelView
from agent_kernel.protocol.vocabulary import ENVIRONMENT_KEYS

DEMO = Path(__file__).parent / "recordings" / "demo.jsonl"
DEMO_PACE = 0.02
"""Seconds per word, about the speed of a hosted model."""


class ModelResolver:
    """Resolves names to models. One per host; used from its event loop.

    - `demo`: the shipped recording
    - `replay:PATH`, `record:PATH`: a recording (`agent_kernel.models.recordings.names`); relative to the notebook's
      folder, and never outside of `base_directory` if one is given
    - `ENDPOINT/MODEL`: a model of a named endpoint
    - `MODEL`: of the endpoint that lists it, else of the endpoint `openai`, else of the only endpoint there is
    - the name of a registered model
    """

    def __init__(
        self,
        *,
        default: str | None = None,
        endpoints: Iterable[Endpoint | BrokenEndpoint] = (),
        environ: Mapping[str, str] | None = None,
        base_directory: Path | None = None,
        other_secrets: Iterable[str] = (),
        demo_pace: float = DEMO_PACE,
        retry: RetryPolicy | None = None,
        clock: Clock | None = None,
    ) -> None:
        """The endpoints are those of the variables that `agent_kernel.models.endpoints` reads, and the given ones,
        which win.

        `default` overrides AGENT_KERNEL_MODEL. A key without an address means the provider itself, with its model in
        `agent_kernel.models.known.DEFAULT_MODELS`. With an address and no key (Ollama) a placeholder is sent.
        `environ` is read again for each run, so pass a copy if it must not change; `None` means no variables.
        `other_secrets` are redacted as keys are.
        """
        self._configured = {endpoint.name: endpoint for endpoint in endpoints}
        self._configured_default = default
        self._environ = {} if environ is None else environ
        self._read: dict[str, str | None] | None = None
        self._base_directory = base_directory
        self._other_secrets = tuple(other_secrets)
        self._demo_pace = demo_pace
        self._retry = retry
        self.clock = clock or Clock()
        self._registered: dict[str, Model] = {}
        self._lists: dict[Endpoint, ModelList] = {}
        """Those of endpoints that the environment no longer names among them, until all are closed."""
        self._models: dict[str, Model] = {}
        self._limits: dict[tuple[str, str], ContextLimit] = {}
        """What was learned of contexts, by the address and the name of the model there."""
        self._changing = threading.Lock()
        self.default: str | None = None
        """The name that `resolve(None)` uses."""
        self.default_reason = ""
        """Why this is the default, as a sentence."""
        self.endpoints: dict[str, Endpoint | BrokenEndpoint] = {}
        self.read_environment()

    def read_environment(self) -> None:
        """Read the environment again. Runs in progress keep their address and key."""
        with self._changing:
            read = {name: self._environ.get(name) for name in ENVIRONMENT}
            if read == self._read:
                return
            own = [endpoint for endpoint in of_environment(self._environ) if endpoint.name not in self._configured]
            self._models.clear()
            self.endpoints = {**self._configured, **{endpoint.name: endpoint for endpoint in own}}
            self.default, self.default_reason = self._choose_default(own)
            self._read = read

    def _choose_default(self, own: Iterable[Endpoint | BrokenEndpoint]) -> tuple[str | None, str]:
        if self._configured_default:
            return self._configured_default, "It is set in the configuration."
        named = (self._environ.get("AGENT_KERNEL_MODEL") or "").strip()
        if named:
            return named, "AGENT_KERNEL_MODEL names it."
        for endpoint in own:
            if isinstance(endpoint, Endpoint) and endpoint.default_model is not None:
                return endpoint.default_model, f"{endpoint.key_setting} is set, and nothing names a model."
        return None, ""

    def resolve(self, name: str | None = None, notebook_path: str | None = None) -> Model:
        """The model of a name; `None` means the default. Paths of recordings are relative to the folder of the notebook
        at `notebook_path`, which is relative to `base_directory`. Raises `NoModelError` if nothing is configured and
        `ConfigurationError` for an unknown name."""
        self.read_environment()
        wanted = (name or self.default or "").strip()
        if not wanted:
            raise NoModelError
        if wanted in self._registered:
            return self._registered[wanted]
        about = read_name(wanted, self._environ.get(RECORDING_VARIABLE) or "")
        if about is not None:
            path = self._recording_path(about, notebook_path)
            return self._record(about, path) if about.records else self._replay(about, path)
        if wanted not in self._models:
            self._models[wanted] = self._create(wanted)
        return self._models[wanted]

    async def listed(self, *, fresh: bool = False) -> ModelsView:
        """The models of all endpoints. An endpoint that does not answer within a few seconds has its reason instead."""
        self.read_environment()
        views = await asyncio.gather(*(self._listed(endpoint, fresh) for endpoint in self.endpoints.values()))
        return ModelsView(default=self.default, default_reason=self.default_reason, endpoints=views)

    async def _listed(self, endpoint: Endpoint | BrokenEndpoint, fresh: bool) -> EndpointView:
        if isinstance(endpoint, BrokenEndpoint):
            return EndpointView(name=endpoint.name, error=endpoint.fault)
        return self._view(endpoint, await self._list(endpoint).listing(fresh=fresh))

    def _view(self, endpoint: Endpoint, listing: Listing) -> EndpointView:
        known = listing.offers
        learned = {name: limit.learned for (url, name), limit in self._limits.items() if url == endpoint.base_url}
        unlisted = [name for name, tokens in learned.items() if tokens and name not in known]
        models = [
            ModelView(
                name=self._as_named(endpoint, name),
                tools=known.get(name, NOTHING_KNOWN).tools,
                images=known.get(name, NOTHING_KNOWN).images,
                context_tokens=learned.get(name) or known.get(name, NOTHING_KNOWN).context_tokens,
                context_is_learned=bool(learned.get(name)),
            )
            for name in (*known, *unlisted)
        ]
        return EndpointView(
            name=endpoint.name,
            api=endpoint.first_api,
            models=models,
            left_out=listing.left_out,
            error=listing.fault,
            loading=listing.loading,
        )

    def endpoint_of(self, name: str) -> Endpoint | BrokenEndpoint | None:
        """The endpoint of a model; `None` for a recording. Raises as `resolve` does."""
        if name in ("demo", *self._registered) or name.startswith("replay:"):
            return None
        about = read_name(name)
        if about is not None:
            return self.endpoint_of(about.model or self._recorded_default())
        return self._find_listed(name)[0]

    def register(self, model: Model) -> str:
        """Register a Python object as a model. Returns its name for `resolve`: its own, with a number if another object
        has that name."""
        name, number = model.name, 1
        while self._registered.get(name, model) is not model:
            number += 1
            name = f"{model.name}#{number}"
        self._registered[name] = model
        return name

    def secrets(self) -> tuple[str, ...]:
        """The texts that are redacted: the keys of all endpoints, those in the environment, whether or not an endpoint
        uses them, and the host's other secrets."""
        keys = [endpoint.secret() for endpoint in self.endpoints.values() if isinstance(endpoint, Endpoint)]
        keys += [self._environ.get(name) for name in ENVIRONMENT_KEYS]
        return (*(key.strip() for key in keys if key), *self._other_secrets)

    async def aclose(self) -> None:
        """Close the connections of this event loop, and the registered models."""
        for models in self._lists.values():
            await models.aclose()
        for model in self._registered.values():
            await model.aclose()

    def _create(self, name: str) -> Model:
        if name == "demo":
            return RecordedModel(load(DEMO), name="demo", pace=self._demo_pace)
        endpoint, wire_name = self._find(name)
        return HttpModel(
            wire_name,
            self._list(endpoint),
            name=name,
            named=lambda other: self._as_named(endpoint, other),
            limit=self._limits.setdefault((endpoint.base_url, wire_name), ContextLimit()),
            retry=self._retry,
        )

    def _list(self, endpoint: Endpoint) -> ModelList:
        if endpoint not in self._lists:
            self._lists[endpoint] = ModelList(Client(endpoint, others=self.secrets, clock=self.clock))
        return self._lists[endpoint]

    def _as_named(self, endpoint: Endpoint, wire_name: str) -> str:
        """Names for `resolve`: without the endpoint's name where the model's alone leads to this endpoint."""
        try:
            alone = self._find(wire_name) == (endpoint, wire_name)
        except ConfigurationError:
            alone = False
        return wire_name if alone else f"{endpoint.name}/{wire_name}"

    def _find(self, name: str) -> tuple[Endpoint, str]:
        endpoint, wire_name = self._find_listed(name)
        if isinstance(endpoint, BrokenEndpoint):
            raise ConfigurationError(endpoint.fault)
        return endpoint, wire_name

    def _find_listed(self, name: str) -> tuple[Endpoint | BrokenEndpoint, str]:
        if not self.endpoints:
            raise NoModelError
        prefix, slash, rest = name.partition("/")
        if slash and rest and prefix in self.endpoints and not self._is_whole(prefix, rest):
            return self.endpoints[prefix], rest
        for endpoint in self.endpoints.values():
            if endpoint.serves(name):
                return endpoint, name
        if OPENAI in self.endpoints:
            return self.endpoints[OPENAI], name
        if len(self.endpoints) == 1:
            return next(iter(self.endpoints.values())), name
        whole = ", ".join(f"{endpoint}/{name}" for endpoint in self.endpoints)
        raise ConfigurationError(
            f"No endpoint lists the model {name!r}. Say which one serves it: {whole}. `%agent models` lists what "
            "there is."
        )

    def _is_whole(self, prefix: str, rest: str) -> bool:
        """Whether a name such as `openai/gpt-oss-20b` is a service's own name for a model, as at OpenRouter, LM Studio
        and vLLM, and not a model of the environment's endpoint `openai`."""
        endpoint = self.endpoints[prefix]
        elsewhere = isinstance(endpoint, Endpoint) and endpoint.ambient and endpoint.provider is None
        return prefix == OPENAI and elsewhere and OPENAI_NAMES.match(rest) is not None

    def _replay(self, name: RecordingName, path: Path) -> Model:
        try:
            changed = path.stat().st_mtime_ns
        except OSError:
            changed = 0  # reading it says what is wrong
        key = f"replay {name.on_change} {changed} {path}"  # a changed recording is read again
        if key not in self._models:
            self._models[key] = RecordedModel(load(path), name=f"replay:{name.path}", on_change=name.on_change)
        return self._models[key]

    def _record(self, name: RecordingName, path: Path) -> Model:
        model = self.resolve(name.model or self._recorded_default())
        key = f"record {name.turns.first}-{name.turns.last} {model.name} {path}"
        if key not in self._models:
            self._models[key] = RecordingModel(path, model, turns=name.turns, secrets=self.secrets)
        return self._models[key]

    def _recorded_default(self) -> str:
        """The model that is recorded where none is named: the default, if that is one. Raises `NoModelError`."""
        about = read_name(self.default or "")
        endpoints = (one for one in self.endpoints.values() if isinstance(one, Endpoint))
        defaults = (one.default_model for one in endpoints if one.default_model is not None)
        if found := self.default if about is None else about.model or next(defaults, None):
            return found
        raise NoModelError

    def _recording_path(self, name: RecordingName, notebook_path: str | None) -> Path:
        if self._base_directory is None:
            return Path(name.path).expanduser().resolve()
        base = self._base_directory.resolve()
        folder = (base / (notebook_path or "").lstrip("/")).parent if notebook_path else base
        path = (folder / name.path).resolve()
        if not path.is_relative_to(base):
            kind = "record" if name.records else "replay"
            raise ConfigurationError(
                f"{kind}: may only name files inside the server's directory, and {name.path!r} is not."
            )
        return path


def warm_up() -> None:
    """Import what the first run needs, about a second of work: call it in a thread. A second call costs nothing; a run
    that starts meanwhile waits on Python's import locks."""
    import aiohttp  # noqa: F401 -- loaded ahead of its use
    import langgraph.graph  # noqa: F401 -- loaded ahead of its use
    import openai  # noqa: F401 -- loaded ahead of its use

    prices.load()
