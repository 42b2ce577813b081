"""Supports `with ipywidgets.Output():` inside a call, and `interact`, which is built on it; and tells what became of
the widgets that a call shows.

An Output widget has the page redirect the outputs of one request to itself, by the id of a request that the page sent.
A call's request was not sent by the page. So outputs inside the `with` are put into the widget's `outputs` here.
"""

import asyncio
import contextlib
import io
import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from agent_kernel.execution.display_text import display_text, widget_in

STREAM_CHARACTERS = 1_048_576
DISPLAY_CHARACTERS = 16_777_216
SYNC_SECONDS = 0.1
"""The shortest time between two updates while text grows: each sends the whole text."""

_NOTE = "\n[The output stops here, at 1 MiB.]\n"


class OutputWidget:
    """Fills the `outputs` of one Output widget, in nbformat's form."""

    def __init__(self, widget: Any) -> None:
        self._widget = widget
        self._outputs: list[dict[str, Any]] = [dict(output) for output in widget.outputs]
        self._display_ids: dict[str, int] = {}
        self._stream_room = STREAM_CHARACTERS
        self._display_room = DISPLAY_CHARACTERS
        self._clear_next = False
        self._synced = 0.0

    def write(self, name: str, text: str) -> None:
        self._clear_if_asked()
        if self._stream_room <= 0:
            return
        if len(text) > self._stream_room:
            text = text[: self._stream_room] + _NOTE
        self._stream_room -= len(text)
        last = self._outputs[-1] if self._outputs else {}
        if last.get("output_type") == "stream" and last.get("name") == name:
            self._outputs[-1] = {**last, "text": last["text"] + text}
        else:
            self._outputs.append({"output_type": "stream", "name": name, "text": text})
        if time.monotonic() - self._synced > SYNC_SECONDS:
            self.sync()

    def take(self, message: dict[str, Any]) -> None:
        """A hook of the display publisher, which then publishes nothing."""
        content = message["content"]
        if message["header"]["msg_type"] == "clear_output":
            self.clear(bool(content.get("wait")))
        else:
            self._display(content["data"], content["metadata"], content["transient"].get("display_id"))

    def _display(self, data: Mapping[str, Any], metadata: Mapping[str, Any], display_id: str | None) -> None:
        self._clear_if_asked()
        size = len(json.dumps(data))
        if size > self._display_room:
            data, metadata = {"text/plain": display_text(data, shown=False)[:2_000]}, {}
        else:
            self._display_room -= size
        output = {"output_type": "display_data", "data": dict(data), "metadata": dict(metadata)}
        place = self._display_ids.get(display_id) if display_id is not None else None
        if place is not None:
            self._outputs[place] = output
        else:
            if display_id is not None:
                self._display_ids[display_id] = len(self._outputs)
            self._outputs.append(output)
        self.sync()

    def error(self, name: str, message: str, traceback: str) -> None:
        self._clear_if_asked()
        lines = traceback.splitlines()
        self._outputs.append({"output_type": "error", "ename": name, "evalue": message, "traceback": lines})
        self.sync()

    def clear(self, wait: bool) -> None:
        self._clear_next = True
        if not wait:
            self._clear_if_asked()
            self.sync()

    def sync(self) -> None:
        self._synced = time.monotonic()
        self._widget.outputs = tuple(self._outputs)

    def _clear_if_asked(self) -> None:
        if self._clear_next:
            self._clear_next = False
            self._outputs.clear()
            self._display_ids.clear()


class _Stream(io.TextIOBase):
    """`sys.stdout` or `sys.stderr` inside of a widget."""

    def __init__(self, name: str, widget: OutputWidget) -> None:
        self._name = name
        self._widget = widget

    def write(self, text: str) -> int:
        self._widget.write(self._name, text)
        return len(text)


def replacements(shell: Any, traceback_of: Callable[[BaseException], str]) -> dict[str, Callable[..., Any]]:
    """Methods of `Output` while a call runs. The server reads the widget's state for the model."""
    inside: list[tuple[OutputWidget, contextlib.ExitStack]] = []

    def __enter__(widget: Any) -> None:  # noqa: N807 -- it replaces one
        stack = contextlib.ExitStack()
        taken = OutputWidget(widget)
        stack.enter_context(contextlib.redirect_stdout(_Stream("stdout", taken)))
        stack.enter_context(contextlib.redirect_stderr(_Stream("stderr", taken)))
        if hasattr(shell.display_pub, "register_hook"):
            shell.display_pub.register_hook(taken.take)
            stack.callback(shell.display_pub.unregister_hook, taken.take)
        inside.append((taken, stack))

    def __exit__(_widget: Any, kind: Any, error: Any, _traceback: Any) -> bool:  # noqa: N807 -- it replaces one
        taken, stack = inside.pop()
        stack.close()
        # An interrupt ends the call, whatever the code is in the middle of.
        stops = isinstance(error, KeyboardInterrupt | asyncio.CancelledError)
        if error is not None and not stops:
            taken.error(kind.__name__, str(error), traceback_of(error))
        taken.sync()
        return error is not None and not stops

    return {"__enter__": __enter__, "__exit__": __exit__}


class ShownWidgets:
    """The widgets that a call shows, and their text at its end: a progress bar is shown when it says 0%."""

    def __init__(self, shell: Any) -> None:
        self._publish = shell.display_pub.publish
        self._format = shell.display_formatter.format
        self._shown: dict[str, tuple[Any, dict[str, Any]]] = {}
        """The object and what was shown of it, by the widget's model id."""

    def format(self, shown: Any, *arguments: Any, **named: Any) -> Any:
        """In place of the display formatter's method, which `display` and the last value of a cell go through."""
        data, metadata = self._format(shown, *arguments, **named)
        if (model_id := widget_in(data)) is not None:
            self._shown[model_id] = (shown, data)
        return data, metadata

    def update(self) -> None:
        """Publish what has changed. `OutputReader` knows a widget by its model id; one that was closed is gone."""
        for model_id, (shown, before) in self._shown.items():
            try:
                repr(shown)
                data, metadata = self._format(shown)
            except Exception:  # noqa: BLE001 -- tqdm's bar once it is collected; IPython would show an error of the call
                data, metadata = before | {"text/plain": _own_text(shown)}, {}
            if widget_in(data) != model_id or getattr(shown, "comm", shown) is None:
                data, metadata = {}, {}
            if data.get("text/plain") != before.get("text/plain"):
                self._publish(data, metadata, transient={"display_id": model_id}, update=True)


def _own_text(widget: Any) -> str:
    """What any widget says of itself: the values of its parts."""
    try:
        return str(sys.modules["ipywidgets"].Widget.__repr__(widget))
    except Exception:  # noqa: BLE001 -- any code of the user's
        return object.__repr__(widget)


def output_class() -> type[Any] | None:
    """`ipywidgets.Output`, if it has been imported."""
    module = sys.modules.get("ipywidgets.widgets.widget_output")
    found: type[Any] | None = getattr(module, "Output", None)
    return found
