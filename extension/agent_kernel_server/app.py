"""`AgentKernelServer`: the extension app. It passes its traits and Jupyter's managers to the service."""

import os
from pathlib import Path
from typing import Any, get_args

from jupyter_core.paths import jupyter_data_dir
from jupyter_server.extension.application import ExtensionApp
from jupyter_server.utils import url_path_join
from traitlets import Bool, Dict, Enum, Float, Integer, List, TraitError, Unicode, default, validate

from agent_kernel.approvals.limits import checked_limits
from agent_kernel.approvals.rules import check_rules
from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.vocabulary import ENVIRONMENT_KEYS, WallLevel
from agent_kernel.runtime.settings import DEFAULTS
from agent_kernel.tools.declaration import checked_timeouts
from agent_kernel_server.handlers import FRONT_END, HANDLERS
from agent_kernel_server.service import Service
from agent_kernel_server.service_settings import make_service, warn_of_broken

SERVER_PID_VARIABLE = "AGENT_KERNEL_SERVER_PID"
"""A kernel is served by this extension exactly if this variable equals its `JPY_PARENT_PID`."""

LOG_NAME = "agent-kernel.sqlite"


class AgentKernelServer(ExtensionApp):
    """Hosts the agents of this server's notebooks."""

    name = "agent_kernel_server"
    description = "An agent that works in your own kernel and asks before it acts."
    service: Service | None = None
    """`None` before the server has read its settings, and once it has stopped."""

    default_model = Unicode(
        None,
        allow_none=True,
        help="""The model of a run that names none: a name that the endpoint serves, `ENDPOINT/NAME` for one of
        `endpoints`, `demo`, `replay:PATH` or `record:PATH`. Where it is unset, the environment's AGENT_KERNEL_MODEL is
        used.""",
    ).tag(config=True)

    endpoints = Dict(
        help="""Services that models are asked at, by name: `{"lab": {"base_url": "http://localhost:11434/v1",
        "api_key_env": "LAB_KEY", "models": ["qwen3"]}}`. `api_key_env` names the environment variable that holds the
        key, so no key stands in a configuration file; leave it out for an endpoint that wants none. `api` is
        `responses`, `chat` or `messages` (by default what the address speaks: `chat` but for OpenAI and Anthropic);
        `images`, `tools` and `context_tokens` say what the models take, where the service doesn't. OPENAI_API_KEY
        and OPENAI_BASE_URL make one more endpoint, `openai`, and ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL another,
        `anthropic`. An endpoint with a mistake in it says so to the runs that name it; all others work.""",
    ).tag(config=True)

    data_dir = Unicode(
        help="""The directory of the log (agent-kernel.sqlite, mode 0600).
        Default: `agent-kernel` in Jupyter's data directory.""",
    ).tag(config=True)

    mcp_servers = Dict(
        help="""The site's MCP servers, by name, in the form of `mcpServers` in `mcp.json`: `{"files": {"command":
        "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem"]}}`, or with `{"type": "http", "url": ...,
        "headers": ...}`. `${NAME}` is a variable of this server's environment. Each user's own are in `mcp.json` in
        Jupyter's configuration directory; of two of one name the site's counts.""",
    ).tag(config=True)

    policy_cap = Enum(
        ("ask", "edit", "allow", "deny", "plan"),
        default_value=None,
        allow_none=True,
        help="""The most permissive policy that a notebook may choose; from strict to permissive: `deny`, `plan`, `ask`,
        `edit`, `allow`. `ask` means that nobody can switch approvals off for a whole run. Unset: no cap.""",
    ).tag(config=True)

    result_characters = Integer(
        DEFAULTS.result_characters, min=1, help="How much of one tool's result the model is given, in characters."
    ).tag(config=True)

    result_lines = Integer(
        DEFAULTS.result_lines, min=1, help="How much of one tool's result the model is given, in lines."
    ).tag(config=True)

    step_characters = Integer(
        DEFAULTS.step_characters, min=1, help="How much all results of one step may hold together, in characters."
    ).tag(config=True)

    site_rules = List(
        Unicode(),
        help="Rules of the site that hold for every run beside its policy, such as `deny run_shell`.",
    ).tag(config=True)

    shell_walls = Enum(
        get_args(WallLevel),
        default_value="workspace",
        help="""The walls around shell commands: `workspace` (they write in the notebook's folder and a private
        temporary one), `read-only`, or `none`. Inside there is no network, and keys, Jupyter's own files and
        the log are hidden. A file in a notebook's folder may make them stricter; where there are none, cards say why.
        """,
    ).tag(config=True)

    shell_environment = List(
        Unicode(),
        help="Variables that a shell command inside walls may know, beside PATH and the like: `PGHOST`, `MY_LAB_*`.",
    ).tag(config=True)

    approval_seconds = Float(
        DEFAULTS.approval_seconds,
        allow_none=True,
        min=0,
        help="Seconds until a call that waits for an approval expires. Unset: never.",
    ).tag(config=True)

    output_dir = Unicode(
        None,
        allow_none=True,
        help="Where outputs go that are too long for the model. Unset: the folder agent-kernel/outputs in your cache, "
        "with a week's files and 500 MB at most.",
    ).tag(config=True)

    stop_seconds = Float(
        DEFAULTS.stop_seconds,
        min=0,
        help="How long an interrupted call may take to end before its outcome counts as unknown, in seconds.",
    ).tag(config=True)

    gateway_seconds = Float(
        60.0,
        min=0,
        help="How long a kernel's gateway may be out of reach until the kernel's runs end, in seconds.",
    ).tag(config=True)

    kernel_waiting_seconds = Float(
        28_800.0,
        allow_none=True,
        min=0,
        help="""How long a run that waits for a person keeps its kernel from being culled (`cull_idle_timeout`), in
        seconds: 8 hours. While its agent works, a kernel is never idle. Unset: as long as it waits.""",
    ).tag(config=True)

    token_flush_seconds = Float(
        DEFAULTS.token_flush_seconds, min=0, help="How long tokens are gathered before they are committed, in seconds."
    ).tag(config=True)

    validation_retries = Integer(
        DEFAULTS.validation_retries,
        min=0,
        help="How many steps with only invalid tool calls a model may make before the run ends.",
    ).tag(config=True)

    default_budget = Dict(
        help="""The hard limits of a run that sets none: any of `tokens`, `usd` (US dollars), `tool_calls`, `seconds`,
        `steps`. With `usd`, a model whose price is not known asks before its first turn.
        Default: {"tool_calls": 100, "steps": 100}.""",
    ).tag(config=True)

    conversation_budget = Dict(
        help="""The hard limits of all runs of a conversation together, with the names of `default_budget`. A notebook
        may set smaller ones; a person who is asked may add to them. Unset: none.""",
    ).tag(config=True)

    tool_timeouts = Dict(
        help="""Seconds that a call of a tool may run before it is interrupted, by the tool's name:
        `{"run_python": 3600, "run_shell": 300}`. A tool's own timeout holds where it is shorter. Unset: none but a
        tool's own; run_shell stops by itself after 120 s, or what the model asks for, at most 600 s.""",
    ).tag(config=True)

    pause_at_repeats = Bool(
        DEFAULTS.pause_at_repeats,
        help="""Whether a run asks before it goes on that repeats itself: three times the same call with the same
        result, or four times the same two in turn.""",
    ).tag(config=True)

    send_images = Bool(
        DEFAULTS.send_images,
        help="""Whether models that take images are given the plots that calls show and the pictures that prompts have.
        Where not, the model is told that there was one, and its size.""",
    ).tag(config=True)

    hide_keys = Bool(
        False,
        help="""Take the variables that hold keys (OPENAI_API_KEY, ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN,
        and `api_key_env` of each endpoint) out of the environment that kernels and terminals inherit. Notebooks that
        use such a variable themselves then have to set it themselves.""",
    ).tag(config=True)

    @default("data_dir")
    def _default_data_dir(self) -> str:
        return str(Path(jupyter_data_dir()) / "agent-kernel")

    @default("default_budget")
    def _default_default_budget(self) -> dict[str, Any]:
        return DEFAULTS.default_budget.given()

    @validate("site_rules", "default_budget", "conversation_budget", "tool_timeouts")
    def _validate(self, proposal: Any) -> Any:
        name, value = proposal["trait"].name, proposal["value"]
        try:
            match name:
                case "site_rules":
                    check_rules(value)
                    return list(value)
                case "tool_timeouts":
                    return checked_timeouts(value, name)
                case _:
                    return checked_limits(value, name).given()
        except ConfigurationError as error:
            raise TraitError(f"site_rules: {error}" if name == "site_rules" else str(error)) from None

    def initialize_settings(self) -> None:
        server = self.serverapp
        assert server is not None
        environ = dict(os.environ)
        self._hidden: dict[str, str] = {}
        if self.hide_keys:
            named = {fields.get("api_key_env") for fields in self.endpoints.values() if isinstance(fields, dict)}
            names = {*ENVIRONMENT_KEYS, *(name for name in named if isinstance(name, str))}
            self._hidden = {name: os.environ.pop(name) for name in names if name in os.environ}
        if self.endpoints:
            warn_of_broken(self.endpoints, self.log)
        cached = self.settings.get("static_immutable_cache", [])
        self.settings["static_immutable_cache"] = [*cached, url_path_join(server.base_url, FRONT_END)]
        self.service = make_service(self, server, Path(self.data_dir) / LOG_NAME, environ)
        os.environ[SERVER_PID_VARIABLE] = str(os.getpid())

    def initialize_handlers(self) -> None:
        self.handlers.extend(HANDLERS)

    async def _start_jupyter_server_extension(self, _: Any) -> None:
        assert self.service is not None
        self.service.start()

    async def stop_extension(self) -> None:
        if os.environ.get(SERVER_PID_VARIABLE) == str(os.getpid()):
            del os.environ[SERVER_PID_VARIABLE]
        if self.service is not None:
            await self.service.aclose()
            self.service = None
            os.environ.update(self._hidden)

    def current_activity(self) -> dict[str, int] | None:
        """The number of open runs, which keep the server from being culled; `None` if there are none."""
        runs = self.service.kernels.active_runs() if self.service is not None else 0
        return {"runs": runs} if runs else None
