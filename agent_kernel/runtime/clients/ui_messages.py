"""A conversation as the AI SDK's UI messages."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agent_kernel.runtime.clients.ui_answers import Answer, Chunk, UIMessage
from agent_kernel.tools.builtin.declarations import ASK_USER

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
        self._of_run: dict[str, Answer] = {}
        self._ended_runs: set[str] = set()
        self.answer: Answer | None = None
        """The newest."""

    def take(self, event: dict[str, Any], *, live: bool = False) -> tuple[Answer | None, list[Chunk]]:
        """The answer that an event belongs to, and its new chunks."""
        if event["type"] == "message" and event["role"] == "user":
            return self._begin(event)
        if event["type"] == "complete":
            self._ended_runs.add(event["run_id"])
        elif event["type"] == "run" and event["run"]["status"] == "running":
            self._ended_runs.discard(event["run_id"])
        # What ends a call of an earlier answer comes after the message that replaced it at times.
        answer = self._answer_of(event)
        return answer, answer.take(event, live=live) if answer is not None else []

    def _answer_of(self, event: dict[str, Any]) -> Answer | None:
        tool_call_id = event.get("tool_call_id")
        if tool_call_id is not None and event.get("state") != "proposed":
            for answer in reversed(self.answers.values()):
                if tool_call_id in answer.calls:
                    return answer
        return self._of_run.get(event.get("run_id") or "")

    def _begin(self, event: dict[str, Any]) -> tuple[Answer, list[Chunk]]:
        if self.answer is not None:
            self.answer.over = True
        prompt_id, run_id = event["message_id"], event.get("run_id")
        self.prompts[prompt_id] = event["content"]
        answer = Answer(prompt_id, run_id, self._conversation_id, self._page_tools)
        self.answer = self.answers[answer.message_id] = answer
        answer.over = run_id in self._ended_runs  # a note for the next run's model
        if run_id is not None:
            self._of_run[run_id] = answer
        return answer, [answer.start]

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
            message = answer.message()
            if message["parts"]:
                found.append(message)
        return found
