"""Lists the available models, for `%agent models` and the tab key after `--model`."""

import functools
import threading
from concurrent.futures import Future

from agent_kernel.notebook.hosts.discovery import host_for
from agent_kernel.notebook.kernel.state import KernelState, kernel_state
from agent_kernel.protocol.kernel_events import AskModels
from agent_kernel.protocol.lists import EndpointView, ModelsView, ModelView

LIST_SECONDS = 10.0
"""How long `%agent models` waits: the endpoints have half of it."""
SHOWN = 100
"""How many models of one endpoint are printed; the tab key completes all."""


class ModelList:
    """The host's models, as they came last. One per kernel; for the main thread."""

    def __init__(self, state: KernelState) -> None:
        self._state = state
        self._known: ModelsView | None = None
        self._asked: Future[ModelsView] | None = None

    def wait(self, seconds: float) -> ModelsView | None:
        """The latest list, after up to `seconds`; `None` if none has come. A host that fails raises nothing here. It
        caches its endpoints' answers itself."""
        asked = self._asked or self._ask()
        self._asked = None
        try:
            self._known = asked.result(seconds)
        except TimeoutError:
            self._asked = asked  # it may still come: the next call takes it
        except Exception:  # noqa: BLE001, S110 -- a pressed key must not raise
            pass
        return self._known

    def _ask(self) -> Future[ModelsView]:
        host, listed = host_for(self._state, None), Future[ModelsView]()

        def ask() -> None:
            try:
                listed.set_result(host.ask(AskModels()))
            except Exception as error:  # noqa: BLE001 -- the future carries it
                listed.set_exception(error)

        threading.Thread(target=ask, name="agent-kernel-models", daemon=True).start()
        return listed


def table(models: ModelsView) -> str:
    """The text of `%agent models`."""
    parts = [f"The default model is {models.default}. {models.default_reason}".rstrip()] if models.default else []
    if not models.endpoints:
        parts.append("No endpoint is configured. Set OPENAI_API_KEY, ANTHROPIC_API_KEY, or OPENAI_BASE_URL.")
    elif not models.default:
        parts.append("There is no default model: name one with --model, or set AGENT_KERNEL_MODEL.")
    parts.extend(_endpoint(endpoint) for endpoint in models.endpoints)
    parts.append("--model demo is a recording, which needs no key.")
    return "\n\n".join(parts)


def _endpoint(endpoint: EndpointView) -> str:
    if endpoint.error:
        return f"{endpoint.name}: {endpoint.error}"
    if not endpoint.models:
        return f"{endpoint.name}: it lists no models."
    shown = endpoint.models[:SHOWN]
    width = max(len("model"), *(len(model.name) for model in shown))
    rows = [f"{endpoint.name}", f"  {'model':<{width}}  tools  images  context"]
    rows += [
        f"  {model.name:<{width}}  {_word(model.tools):<5}  {_word(model.images):<6}  {_context(model)}"
        for model in shown
    ]
    more = len(endpoint.models) - len(shown) + endpoint.left_out
    if more:
        rows.append(f"  and {more:,} more")
    return "\n".join(rows)


def _word(value: bool | None) -> str:
    return "?" if value is None else "yes" if value else "no"


def _context(model: ModelView) -> str:
    count = "?" if model.context_tokens is None else f"{model.context_tokens:,}"
    return f"{count} (from a refusal)" if model.context_is_learned else count


@functools.cache
def model_list() -> ModelList:
    """The list of this kernel."""
    return ModelList(kernel_state())
