"""What waits for a person in a conversation, as questions: a text, and what each line that may be typed sends."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent_kernel.protocol.views import ConversationView, PauseView, RunView, ToolCallView
from agent_kernel.record.words import ACTIONS, CARD, name_of
from agent_kernel.terminal.lines import active_run, choices_of, key_of, one_line
from agent_kernel.tools.builtin.declarations import ASK_USER

A_RUN, A_PROMPT = "a run", "a prompt"
"""The keys of the two questions that are about no call and no pause."""
COMMANDS = {"/stop": "cancel", "/now": "try-now"}
"""What can be typed while a run goes on, and the run's route for it."""
NO_RUN = "No run goes on: type what the agent should do."
_ANSWERS = {"r": "retry", "c": "continue"}


@dataclass(frozen=True, slots=True)
class Reply:
    """What a line sends: a route, and the body."""

    path: str
    body: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    """The field of the body that takes what is typed."""


@dataclass(frozen=True, slots=True)
class Question:
    key: str = ""
    """The same for what is the same to decide on."""
    text: str = ""
    """Empty where nothing is asked."""
    replies: Mapping[str, Reply] = field(default_factory=dict)
    """By the line, or by its first word where the rest is a text of the reply's."""
    other: Reply | None = None
    """What every other line sends that is not empty."""
    advice: str = ""
    """What is said of a line that sends nothing."""
    call: ToolCallView | None = None
    """The call that the question is about."""

    def reply_to(self, line: str) -> Reply | None:
        """What a line sends, its text included."""
        if line in self.replies:
            return self.replies[line]
        word, _, rest = line.partition(" ")
        found = self.replies.get(word)
        reply, text = (found, rest) if found is not None and found.text else (self.other, line)
        if reply is None or not text or line in COMMANDS:  # a command may come too late for its run
            return None
        return replace(reply, body={**reply.body, reply.text: text})


def questions_in(view: ConversationView, path: str) -> list[Question]:
    """What waits for a person, in order, and last what can be typed where nothing waits. `path` is the conversation's
    route."""
    run = active_run(view)
    if run is None:
        prompt = Reply(f"{path}/messages" if view.runs else f"{path}/runs", text="content")
        return [Question(A_PROMPT, "Ask for something; Ctrl+D leaves.", other=prompt, advice=NO_RUN)]
    of_run = f"{path}/runs/{run.run_id}"
    found = [question for call in view.tool_calls if call.run_id == run.run_id and (question := _of_call(call))]
    if run.paused is not None:
        found.append(_of_pause(run, run.paused, of_run))
    found.append(Question(A_RUN, advice="A prompt can be typed when the run has ended; /stop stops it."))
    commands = {command: Reply(f"{of_run}/{route}") for command, route in COMMANDS.items()}
    return [replace(question, replies={**question.replies, **commands}) for question in found]


def _of_call(call: ToolCallView) -> Question | None:
    path = f"approvals/{call.approval_id}"
    match call.state:
        case "awaiting_approval":
            digest = {"digest": call.digest}  # that of what is on screen: nothing else is decided on
            replies = {
                "a": Reply(path, {"approved": True} | digest),
                "d": Reply(path, {"approved": False} | digest, text="reason"),
            }
            deny = f"{ACTIONS['deny']}, and a reason behind it ({CARD['reasonNote']})"
            text = f"{one_line(name_of(call.tool_name), 60)}: {CARD['exactly']}"
            return _to_pick(key_of(call), text, {"a": ACTIONS["approve"], "d": deny}, replies, call)
        case "executing" if call.tool_name == ASK_USER:
            choices = {str(number): text for number, text in enumerate(choices_of(call), 1)}
            replies = {number: Reply(f"{path}/result", {"output": text}) for number, text in choices.items()}
            replies[""] = Reply(f"{path}/cancel")
            note = "a number chooses, " if choices else ""
            text = f"{CARD['yourAnswer']} ({note}an empty line skips the question):"
            return Question(key_of(call), text, replies, other=Reply(f"{path}/result", text="output"), call=call)
        case "unknown" if call.unknown_answer is None:
            named = {"r": ACTIONS["runAgain"], "c": ACTIONS["goOn"]}
            replies = {key: Reply(f"{path}/outcome", {"answer": _ANSWERS[key]}) for key in named}
            return _to_pick(key_of(call), f"{CARD['look']} {CARD['outcomeNote']}", named, replies, call)
        case _:
            return None


def _of_pause(run: RunView, pause: PauseView, of_run: str) -> Question:
    """A run goes on with as much again as it had; other amounts are for its card."""
    whole = run.conversation_budget if pause.of == "conversation" else None
    limits = (run.budget if whole is None else whole.limits).given()
    without = pause.unpriced and not pause.repeated
    add = {name: limits[name] for name in pause.reached if name in limits and not without}
    more = f" with {', '.join(f'{value:,} {name}' for name, value in add.items())} more" if add else ""
    body = {"pause_id": pause.pause_id, "add": add, "without_usd": without}
    named = {"c": ACTIONS["goOnWithout" if without else "goOn"] + more}
    return _to_pick(pause.pause_id, CARD["orStop"], named, {"c": Reply(f"{of_run}/budget", body)})


def _to_pick(
    key: str, text: str, named: Mapping[str, str], replies: Mapping[str, Reply], call: ToolCallView | None = None
) -> Question:
    """A question with a few answers, each under a letter."""
    listed = "  ".join(f"[{letter}] {name}" for letter, name in named.items())
    return Question(key, f"{text}\n{listed}", replies, advice=f"Type {' or '.join(named)}, and Enter.", call=call)
