"""The answers of a person, and the requests that they become."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from agent_kernel.protocol.figures import money
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.protocol.vocabulary import Limit, Scope
from agent_kernel.record import words
from agent_kernel.record.story import arguments_of, summary_of
from agent_kernel.terminal.cards import limits_of, pretty, question_of
from agent_kernel.terminal.keyboard import INTERRUPT, Keyboard
from agent_kernel.terminal.state import Approval, Ask, Outcome, Pause, Question
from agent_kernel.terminal.text import one_line
from agent_kernel.terminal.transcript import Transcript

ACTIONS, CARD = words.ACTIONS, words.CARD


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent for an answer. The path may name a call by `{approval_id}`, which events do not always have."""

    path: str
    body: Mapping[str, Any]
    answers: tuple[str, ...]
    """The keys of the questions that it answers."""


Requests = list[Request] | str
"""What to send; or `INTERRUPT`, or "" to be asked again."""


class Answers:
    """Puts questions to the person."""

    def __init__(self, transcript: Transcript, keys: Keyboard) -> None:
        self._transcript = transcript
        self._keys = keys
        self._shown: str = ""
        """The question whose card is the last thing on screen."""
        self._ever_shown: set[str] = set()

    def printed(self) -> None:
        """Something was printed below the last card."""
        self._shown = ""

    async def ask(self, ask: Ask, asks: list[Ask]) -> Requests:
        match ask:
            case Approval():
                return await self._approval(ask, [one for one in asks if isinstance(one, Approval)])
            case Question():
                return await self._question(ask)
            case Outcome():
                return await self._outcome(ask)
            case Pause():
                return await self._pause(ask)
            case _:
                assert_never(ask)

    # Approvals

    def _show_waiting(self, ask: Approval, waiting: list[Approval]) -> None:
        """All calls that one answer could decide on are on screen, and nothing came after this one but they."""
        unseen = [one for one in waiting if one.key not in self._ever_shown]
        if self._shown == ask.key and not unseen:
            return
        shown = unseen if ask in unseen else [ask, *unseen]
        if len(waiting) > 1:
            self._transcript.end_text()
            self._transcript.terminal.gap()
            self._transcript.line(CARD["several"].format(count=len(waiting)))
        for one in shown:
            self._transcript.show_call(one.call, place=_place(one, waiting))
            self._ever_shown.add(one.key)
        self._shown = ask.key

    async def _approval(self, ask: Approval, waiting: list[Approval]) -> Requests:
        call = ask.call
        self._show_waiting(ask, waiting)
        choices = {"a": ACTIONS["approve"], "d": ACTIONS["deny"], "e": ACTIONS["edit"]}
        if call.rules and any(scope in words.SCOPES for scope in call.scopes):
            choices["l"] = f"{ACTIONS['allow']}…"
        if call.preview is not None and call.preview.left_out:
            choices["v"] = "Show all"
        if len(waiting) > 1:
            choices |= {"A": f"{ACTIONS['approveAll']} ({len(waiting)})", "D": ACTIONS["denyAll"]}
        title = f"{one_line(call.tool_name, 60)}{_place(ask, waiting)}"
        pressed = await self._keys.key(f"{title}: {CARD['exactly']}", choices)
        match pressed:
            case "a":
                return [_decision(ask, approved=True)]
            case "d":
                return await self._denial(ask)
            case "e":
                return await self._edit(ask)
            case "l":
                return await self._always(ask)
            case "v":
                self._transcript.show_everything(call)
                return ""
            case "A" | "D":
                return [_decision(one, approved=pressed == "A") for one in waiting]
        return pressed

    async def _denial(self, ask: Approval) -> Requests:
        reason = await self._keys.line(f"{CARD['reason']}:", note=CARD["reasonNote"])
        if reason is None or reason == INTERRUPT:
            return ""
        return [_decision(ask, approved=False, **({"reason": reason.strip()[:10_000]} if reason.strip() else {}))]

    async def _edit(self, ask: Approval) -> Requests:
        before, suffix, rebuild = editable(ask.call)
        text = before
        while True:
            edited = await self._keys.edit(text, suffix)
            if edited is None:
                self._say("The editor failed. Nothing was changed; $EDITOR names another one.")
                return ""
            text = edited
            if text.rstrip("\n") == before.rstrip("\n"):
                self._say("Nothing was changed.")
                return ""
            self._transcript.terminal.gap()
            self._transcript.line(f"* {one_line(ask.call.tool_name, 60)}  as you changed it")
            self._transcript.terminal.code(text, {".py": "python", ".sh": "shell"}.get(suffix, "json"))
            self.printed()
            choices = {"a": ACTIONS["approve"], "e": ACTIONS["edit"], "b": ACTIONS["back"]}
            pressed = await self._keys.key(f"{CARD['yourVersion']}", choices, escape="b")
            if pressed == "a":
                return [_decision(ask, approved=True, edited_input=rebuild(text))]
            if pressed != "e":
                return pressed if pressed == INTERRUPT else ""

    async def _always(self, ask: Approval) -> Requests:
        """Which rule, and where: it is shown as it will be saved, before it is saved."""
        offers = ask.call.rules[:9]
        what = {str(number): one_line(f"{one.label} {one.note}", 120) for number, one in enumerate(offers, 1)}
        pressed = await self._keys.key("What?", what | {"b": ACTIONS["back"]}, escape="b")
        if pressed not in what:
            return pressed if pressed == INTERRUPT else ""
        rule = offers[int(pressed) - 1]
        scopes: list[Scope] = [scope for scope in words.SCOPES if scope in ask.call.scopes]
        where = {
            str(number): f"{words.SCOPES[scope]['name']} ({words.SCOPES[scope]['note']})"
            for number, scope in enumerate(scopes, 1)
        }
        pressed = await self._keys.key("Where?", where | {"b": ACTIONS["back"]}, escape="b")
        if pressed not in where:
            return pressed if pressed == INTERRUPT else ""
        scope = scopes[int(pressed) - 1]
        said = f"Rule: {one_line(rule.text, 400)} {words.SCOPES[scope]['rule']}\n{CARD['rulesWin']}"
        pressed = await self._keys.key(said, {"s": ACTIONS["saveRule"], "b": ACTIONS["back"]}, escape="b")
        if pressed != "s":
            return pressed if pressed == INTERRUPT else ""
        return [_decision(ask, approved=True, scope=scope, rule=rule.text)]

    # The others

    async def _question(self, ask: Question) -> Requests:
        if self._shown != ask.key:
            self._transcript.show_call(ask.call)
            self._shown = ask.key
        _, choices = question_of(ask.call)
        note = "A number chooses. Escape: " if choices else "Escape: "
        text = await self._keys.line(f"{CARD['yourAnswer']}:", note=f"{note}{ACTIONS['skip']}")
        if text == INTERRUPT:
            return text
        if text is None:
            pressed = await self._keys.key(
                f"{CARD['skipNote']}", {"s": ACTIONS["skip"], "b": ACTIONS["back"]}, escape="b"
            )
            path = "approvals/{approval_id}/cancel"
            return [Request(path, {}, (ask.key,))] if pressed == "s" else pressed.replace("b", "")
        text = text.strip()
        if text.isdecimal() and 1 <= int(text) <= len(choices):
            text = choices[int(text) - 1]
        return [Request("approvals/{approval_id}/result", {"output": text}, (ask.key,))] if text else ""

    async def _outcome(self, ask: Outcome) -> Requests:
        if self._shown != ask.key and not self._transcript.ends_with(ask.call):
            self._transcript.show_call(ask.call)
            self._transcript.show_outcome(ask.call)
            self._shown = ask.key
        choices = {"r": ACTIONS["runAgain"], "c": ACTIONS["goOn"]}
        pressed = await self._keys.key(f"{CARD['look']} {CARD['outcomeNote']}", choices)
        answers = {"r": "retry", "c": "continue"}
        if pressed not in answers:
            return pressed
        return [Request("approvals/{approval_id}/outcome", {"answer": answers[pressed]}, (ask.key,))]

    async def _pause(self, ask: Pause) -> Requests:
        if self._shown != ask.key:
            self._transcript.show_pause(ask)
            self._shown = ask.key
        pause, add, without = ask.pause, dict[str, float](), False
        text = CARD["orStop"]
        go_on = ACTIONS["goOn"]
        if pause.unpriced and not pause.repeated:
            without, go_on = True, ACTIONS["goOnWithout"]
            text = f"{CARD['noLimit'].format(amount=money(limits_of(ask).usd or 0))} {text}"
        pressed = await self._keys.key(text, {"c": go_on, "s": ACTIONS["stop"]})
        if pressed == "s":
            return [Request(f"conversations/{{conversation_id}}/runs/{ask.run.run_id}/cancel", {}, (ask.key,))]
        if pressed != "c":
            return pressed
        if not pause.repeated and not without:
            for name in pause.reached:
                value = await self._more(name, ask)
                if value is None:
                    return ""
                add[name] = value
        path = f"conversations/{{conversation_id}}/runs/{ask.run.run_id}/budget"
        body = {"pause_id": pause.pause_id, "add": add, "without_usd": without}
        return [Request(path, body, (ask.key,))]

    async def _more(self, name: Limit, ask: Pause) -> float | None:
        """How much is added to a limit; half of what there was is offered."""
        most = getattr(limits_of(ask), name) or 0
        offered = (
            f"{max(0.01, most / 2):.2f}"
            if name == "usd"
            else str(max(1, round(most / (120 if name == "seconds" else 2))))
        )
        while True:
            text = await self._keys.line(f"{words.LIMITS[name]['add']}:", default=offered)
            if text is None or text == INTERRUPT:
                return None
            plain = text.strip().lstrip("$").replace(",", "").replace("_", "")
            try:
                value = float(plain) if name == "usd" else float(int(plain))
            except ValueError:
                value = 0
            if 0 < value <= 1e9:
                return value * 60 if name == "seconds" else value if name == "usd" else int(value)
            self._say("Write a number above 0.")

    def _say(self, text: str) -> None:
        self._transcript.line(text, margin="  ")
        self.printed()


def _place(ask: Approval, waiting: list[Approval]) -> str:
    return f" ({waiting.index(ask) + 1} of {len(waiting)})" if len(waiting) > 1 else ""


def _decision(ask: Approval, *, approved: bool, **fields: Any) -> Request:
    """The digest is that of what was on screen: nothing else is decided on."""
    path = f"approvals/{ask.call.approval_id}"
    return Request(path, {"approved": approved, "digest": ask.call.digest, **fields}, (ask.key,))


def editable(call: ToolCallView) -> tuple[str, str, Callable[[str], Any]]:
    """The text that is edited, its file's ending, and how the arguments are made of it."""
    arguments = arguments_of(call)
    for tool, name, suffix in (("run_python", "code", ".py"), ("run_shell", "command", ".sh")):
        if call.tool_name == tool and arguments is not None and isinstance(arguments.get(name), str):
            last = "" if arguments[name].endswith("\n") else "\n"

            def rebuild(text: str, name: str = name, last: str = last) -> Any:
                return {**arguments, name: text.removesuffix("\n") if last else text}

            return arguments[name] + last, suffix, rebuild
    return pretty(call.tool_input) + "\n", ".json", lambda text: text.strip()


def title_of(call: ToolCallView) -> str:
    return one_line(f"{call.tool_name} {summary_of(call)}", 80)
