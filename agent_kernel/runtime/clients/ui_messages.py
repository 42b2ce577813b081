"""A conversation as the AI SDK's UI messages: whole ones, and what a page lacks of one that it has in part."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agent_kernel.runtime.clients.ui_answers import Answer, Chunk, Piece
from agent_kernel.tools.builtin.declarations import ASK_USER

UIMessage = dict[str, Any]
UIPart = dict[str, Any]


class History:
    """The messages of a conversation, from its events in order: all of them, or those since the beginning of a run."""

    def __init__(self, conversation_id: str, page_tools: Collection[str] = ()) -> None:
        self._conversation_id = conversation_id
        self._page_tools = {ASK_USER, *page_tools}
        self.prompts: dict[str, str] = {}
        """The texts of the user's messages, by their ids."""
        self.answers: dict[str, Answer] = {}
        """By the id of their messages, in order."""
        self._pieces: dict[str, list[Piece]] = {}
        self._of_run: dict[str, Answer] = {}
        self._ended_runs: set[str] = set()
        self.answer: Answer | None = None
        """The newest."""

    def take(self, event: dict[str, Any], *, live: bool = False) -> tuple[Answer | None, list[Piece]]:
        """The answer that an event belongs to, and its new pieces."""
        if event["type"] == "message" and event["role"] == "user":
            return self._begin(event)
        if event["type"] == "complete":
            self._ended_runs.add(event["run_id"])
        elif event["type"] == "run" and event["run"]["status"] == "running":
            self._ended_runs.discard(event["run_id"])
        # What ends a call of an earlier answer comes after the message that replaced it at times.
        answer = self._answer_of(event)
        if answer is None:
            return None, []
        pieces = answer.take(event, live=live)
        self._pieces[answer.message_id] += [one for one in pieces if not one.chunk.get("preliminary")]
        return answer, pieces

    def _answer_of(self, event: dict[str, Any]) -> Answer | None:
        tool_call_id = event.get("tool_call_id")
        if tool_call_id is not None and event.get("state") != "proposed":
            for answer in reversed(self.answers.values()):
                if tool_call_id in answer.calls:
                    return answer
        return self._of_run.get(event.get("run_id") or "")

    def _begin(self, event: dict[str, Any]) -> tuple[Answer, list[Piece]]:
        if self.answer is not None:
            self.answer.over = True
        prompt_id, run_id = event["message_id"], event.get("run_id")
        self.prompts[prompt_id] = event["content"]
        answer = Answer(prompt_id, run_id, self._conversation_id, self._page_tools)
        self.answer = self.answers[answer.message_id] = answer
        answer.over = run_id in self._ended_runs  # a note for the next run's model
        self._pieces[answer.message_id] = [answer.first]
        if run_id is not None:
            self._of_run[run_id] = answer
        return answer, [answer.first]

    def pieces(self, answer: Answer) -> list[Piece]:
        """All pieces of an answer so far, without preliminary outputs."""
        return self._pieces[answer.message_id]

    def messages(self, pictures: Mapping[str, Sequence[UIPart]]) -> list[UIMessage]:
        """All messages, with the pictures that the user has sent, by the ids of their messages. An answer of which
        nothing came is left out."""
        found: list[UIMessage] = []
        for answer in self.answers.values():
            metadata = {"conversationId": self._conversation_id, "runId": answer.run_id}
            text = self.prompts[answer.prompt_id]
            parts = [*pictures.get(answer.prompt_id, ())]
            if text or not parts:
                parts.append({"type": "text", "text": text})
            found.append({"id": answer.prompt_id, "role": "user", "metadata": metadata, "parts": parts})
            message = folded(answer, self.pieces(answer))
            if message["parts"]:
                found.append(message)
        return found


def folded(answer: Answer, pieces: list[Piece]) -> UIMessage:
    """The whole message that a page makes of these pieces."""
    fold = _Fold(answer)
    for piece in pieces:
        fold.take(piece)
    return fold.message()


class _Fold:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._parts: list[dict[str, Any]] = []
        self._by_id: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, dict[str, Any]] = {}
        self._metadata: dict[str, Any] = {}

    def message(self) -> UIMessage:
        parts = [part for part in self._parts if part.get("text") != ""]
        for part in parts:
            if "toolCallId" in part:
                _settle_approval(part)
        return {"id": self._answer.message_id, "role": "assistant", "metadata": self._metadata, "parts": parts}

    def take(self, piece: Piece) -> None:
        chunk = piece.chunk
        kind = chunk["type"]
        if piece.unsaid is not None:
            for name, part in self._by_id.items():
                if name.startswith(f"{piece.unsaid}-") and "text" in part:
                    part["text"] = ""
            return
        if kind in ("start", "message-metadata"):
            self._metadata |= chunk["messageMetadata"]
        elif kind == "start-step":
            self._parts.append({"type": "step-start"})
        elif kind.startswith(("text-", "reasoning-")):
            self._take_text(kind, chunk)
        elif kind.startswith("data-"):
            self._take_data(chunk)
        elif kind == "file":
            self._parts.append(dict(chunk))
        elif kind.startswith("tool-"):
            self._take_tool(kind, chunk)

    def _take_text(self, kind: str, chunk: Chunk) -> None:
        name, _, what = kind.partition("-")
        if what == "start":
            self._add(chunk["id"], {"type": name, "text": "", "state": "streaming"})
        elif what == "delta":
            self._by_id[chunk["id"]]["text"] += chunk["delta"]
        else:
            self._by_id[chunk["id"]]["state"] = "done"

    def _take_data(self, chunk: Chunk) -> None:
        known = self._by_id.get(chunk["id"])
        if known is None:
            self._add(chunk["id"], dict(chunk))
        else:
            known["data"] = chunk["data"]
        if chunk["type"] == "data-decision":
            data = chunk["data"]
            part = self._calls[data["toolCallId"]]
            part["approval"] = {"id": data["approvalId"], "approved": data["approved"]}
            if data["reason"]:
                part["approval"]["reason"] = data["reason"]
            part["state"] = "approval-responded"

    def _take_tool(self, kind: str, chunk: Chunk) -> None:
        tool_call_id = chunk["toolCallId"]
        match kind:
            case "tool-input-start":
                part = {"type": f"tool-{chunk['toolName']}", "toolCallId": tool_call_id, "state": "input-streaming"}
                self._parts.append(part)
                self._calls[tool_call_id] = part
            case "tool-input-available":
                self._calls[tool_call_id] |= {"state": "input-available", "input": chunk["input"]}
            case "tool-approval-request":
                self._calls[tool_call_id] |= {"state": "approval-requested", "approval": {"id": chunk["approvalId"]}}
            case "tool-output-available":
                self._calls[tool_call_id] |= {"state": "output-available", "output": chunk["output"]}
            case "tool-output-error":
                self._calls[tool_call_id] |= {"state": "output-error", "errorText": chunk["errorText"]}
            case "tool-output-denied":
                self._calls[tool_call_id]["state"] = "output-denied"

    def _add(self, name: str, part: dict[str, Any]) -> None:
        self._by_id[name] = part
        self._parts.append(part)


def _settle_approval(part: dict[str, Any]) -> None:
    """Give a call's part the approval that the package wants in its state."""
    approval = part.get("approval")
    if part["state"] == "output-denied":
        part["approval"] = {"id": part["toolCallId"], "approved": False, **(approval or {})}
    elif part["state"] in ("input-streaming", "input-available") or (
        part["state"] in ("output-available", "output-error") and not (approval or {}).get("approved")
    ):
        part.pop("approval", None)


def missing(pieces: list[Piece], steps: int, states: dict[str, str]) -> list[Piece]:
    """Those that a page lacks whose message has so many steps and these states of calls: of the steps that it has only
    outcomes that are new to it, of later ones everything."""
    lacking: list[Piece] = []
    for piece in pieces:
        is_open = piece.call is not None and states.get(piece.call) not in _FINAL_STATES
        if piece.step > steps or piece.chunk["type"] in _OF_NOW or (is_open and _is_news(piece, states)):
            lacking.append(piece)
    return lacking


_OF_NOW = ("message-metadata", "data-delay")
"""The chunks of which the last one counts, whatever step it came in."""
_FINAL_STATES = ("output-available", "output-error", "output-denied")
_OUTCOMES = ("tool-output-available", "tool-output-error", "tool-output-denied", "file")


def _is_news(piece: Piece, states: dict[str, str]) -> bool:
    """Whether a piece of a call that has not ended for the page tells it anything."""
    kind = piece.chunk["type"]
    return piece.is_news or kind in _OUTCOMES or kind.startswith("data-") or piece.call not in states
