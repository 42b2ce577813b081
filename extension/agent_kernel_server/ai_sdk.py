"""The AI SDK's endpoint: one more client of a conversation, which speaks in UI messages.

What a page sends of the past is compared with the log and never taken over: a new message of the user, answers to
approvals and outputs of the page's own tools are read, and nothing else.
"""

import asyncio
from dataclasses import dataclass, replace

import orjson
from tornado import web

from agent_kernel.errors import AgentKernelError, AlreadyDecided, UnknownConversation
from agent_kernel.models.images import data_url
from agent_kernel.protocol.ai_sdk import ChatRequest, SentMessage, SentPart
from agent_kernel.protocol.commands import ApprovalResponseCommand
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.protocol.views import ImageRefs
from agent_kernel.runtime.clients.dispatch import handle_command, reply_for
from agent_kernel.runtime.clients.ui_answers import Answer, answer_id
from agent_kernel.runtime.clients.ui_messages import History, UIPart
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel_server.ai_sdk_messages import as_asked, checked_prompt, keep_pictures, page_tools, take_output
from agent_kernel_server.ai_sdk_streams import ChatStreamHandler, Follower, Target
from agent_kernel_server.identity import may
from agent_kernel_server.requests import Refusal

MOST_BYTES = 32 << 20
"""The longest body: a page sends all its messages with each request."""


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A message of the user that starts a run."""

    message_id: str
    text: str
    images: ImageRefs


class ChatHandler(ChatStreamHandler):
    """Takes what `DefaultChatTransport` sends, and answers with a UI message stream."""

    most_bytes = MOST_BYTES

    async def post(self) -> None:
        request = await asyncio.to_thread(self.read_body, ChatRequest)
        tools = page_tools(request)
        conversation = await self._conversation(request)
        names = {tool.name for tool in tools} | await self.page_tools_of(conversation)
        async with self.following(conversation, names, _prompt_id(request)) as follower:
            target = await self._act(request, tools, conversation, follower)
            await self.stream(follower, target)

    async def _conversation(self, request: ChatRequest) -> Conversation:
        """The chat's conversation; a new one for an id that is new. Raises `Refusal`."""
        runtime = await self.runtime()
        try:
            conversation = await runtime.conversation(request.id)
        except UnknownConversation:
            if not request.says_more:
                raise
            if not await may(self, "write"):
                raise web.HTTPError(403) from None
            kernel_id = await self._kernel(request)
            return await self.service.create_conversation(
                kernel_id=kernel_id, model=request.model, conversation_id=request.id
            )
        if request.says_more:
            await self._refuse_other_kernel(request, conversation)
        return conversation

    async def _kernel(self, request: ChatRequest) -> str | None:
        """The kernel of a new chat. Raises `Refusal` 404."""
        kernel_id = await self._named_kernel(request)
        if kernel_id is None and request.notebook_path is not None:
            message = f"No kernel runs for the notebook {request.notebook_path!r}. Open it first."
            raise Refusal(404, message, field="notebook_path")
        if kernel_id is not None and not self.service.kernels.knows(kernel_id):
            raise Refusal(404, f"There is no kernel {kernel_id!r}.", field="kernel_id")
        return kernel_id

    async def _named_kernel(self, request: ChatRequest) -> str | None:
        if request.kernel_id is None and request.notebook_path is not None:
            return await self.service.kernel_of(request.notebook_path)
        return request.kernel_id

    async def _refuse_other_kernel(self, request: ChatRequest, conversation: Conversation) -> None:
        """A page names its kernel in each request. Raises `Refusal` 409 for another one than the chat's; that may have
        ended, and what was said stays with the chat."""
        kernel_id = await self._named_kernel(request)
        if kernel_id is not None and kernel_id != conversation.kernel_id:
            raise Refusal(409, "This chat belongs to another kernel. Begin a new one.", field="kernel_id")

    async def _act(
        self, request: ChatRequest, tools: tuple[ToolDeclaration, ...], conversation: Conversation, follower: Follower
    ) -> Target:
        """Do what a request asks for, once."""
        history = follower.history
        if request.trigger == "regenerate-message":
            return await self._try_again(request, tools, conversation, follower)
        last = request.messages[-1]
        if request.says_more:
            for message in request.messages:
                if (answer := history.answers.get(message.id)) is not None:
                    await self._answer(message, answer, conversation)
            return await self._ask(request, last, tools, conversation, follower)
        return await self._go_on(request.target, conversation, history)

    async def _ask(
        self,
        request: ChatRequest,
        prompt: SentMessage,
        tools: tuple[ToolDeclaration, ...],
        conversation: Conversation,
        follower: Follower,
    ) -> Target:
        """A message of the user: a new one starts a run, or goes to the one that is under way."""
        text, history = checked_prompt(prompt), follower.history
        known = history.prompts.get(prompt.id)
        if known is not None and known != text:
            message = "This message was sent before with another text. What was said stays; send a new message."
            raise Refusal(409, message, field="messages")
        if known is not None:
            return Target(prompt.id, answer=history.answers[answer_id(prompt.id)])

        async def start() -> str:
            images = await keep_pictures(prompt.files, conversation)
            return await self._start(request, _Prompt(prompt.id, text, images), tools, conversation, history)

        run_id = await self.service.chats.start_once(request.id, prompt.id, start)
        return await _begun(prompt.id, run_id, conversation, follower)

    async def _start(
        self,
        request: ChatRequest,
        prompt: "_Prompt",
        tools: tuple[ToolDeclaration, ...],
        conversation: Conversation,
        history: History,
        replaces: tuple[str, ...] = (),
    ) -> str:
        """Start a run, and return its id. A conversation that has begun keeps the tools of its last run."""
        if history.prompts or conversation.is_busy:

            def changed(spec: RunSpec) -> RunSpec:
                return replace(as_asked(spec, request, tools), replaces=replaces)

            return await conversation.send_message(
                prompt.text,
                decided_by=self.person,
                message_id=prompt.message_id,
                images=prompt.images,
                changed=changed,
            )
        spec = RunSpec(
            new_run_id(),
            prompt.text,
            policy=request.policy,
            prompt_id=prompt.message_id,
            prompt_images=prompt.images,
        )
        asked = as_asked(spec, request, tools)
        await self.service.start_run(conversation.conversation_id, asked, asked_by=self.person)
        return asked.run_id

    async def _try_again(
        self, request: ChatRequest, tools: tuple[ToolDeclaration, ...], conversation: Conversation, follower: Follower
    ) -> Target:
        """The last answer once more: the run goes on where its model failed; else its prompt is asked again, and the
        model is not told of the answer that it replaces."""
        history = follower.history
        named = history.answers.get(request.messageId or "")
        again = history.answers.get(answer_id(_again(named.prompt_id))) if named is not None else None
        if again is not None:  # this request was sent before
            return Target(again.prompt_id, again.run_id, again)
        answer = history.answer
        is_asked_again = answer is not None and (answer.tried_again or answer.prompt_id.endswith(_again("")))
        if answer is not None and is_asked_again and not answer.over:
            return Target(answer.prompt_id, answer.run_id, answer)
        if answer is None or answer.run_id is None:
            raise Refusal(409, "There is no answer yet that could be tried again.", field="trigger")
        if (run_id := self.service.chats.run_of(request.id, _again(answer.prompt_id))) is not None:
            return await _begun(_again(answer.prompt_id), run_id, conversation, follower)
        if not answer.over or conversation.is_busy:
            raise Refusal(409, "The last answer has not ended. Stop its run first, or wait.", field="trigger")
        if answer.model_failed:
            await conversation.retry_run(answer.run_id)
            return Target(answer.prompt_id, answer.run_id, answer)
        images = (await conversation.prompt_images(answer.prompt_id)).get(answer.prompt_id, [])
        prompt = _Prompt(_again(answer.prompt_id), history.prompts[answer.prompt_id], images)
        replaced = (answer.run_id,)

        async def start() -> str:
            return await self._start(request, prompt, tools, conversation, history, replaced)

        run_id = await self.service.chats.start_once(request.id, prompt.message_id, start)
        return await _begun(prompt.message_id, run_id, conversation, follower)

    async def _go_on(self, message: SentMessage, conversation: Conversation, history: History) -> Target:
        """Answers of a person in a message that the page has. Without any, the response is what the page lacks."""
        answer = history.answers.get(message.id)
        if answer is None:
            raise Refusal(409, "The log has no such answer in this chat. Load the chat again.", field="messages")
        target = await self._answer(message, answer, conversation)
        target.steps = sum(part.type == "step-start" for part in message.parts)
        return target

    async def _answer(self, message: SentMessage, answer: Answer, conversation: Conversation) -> Target:
        """Take the answers in a message: decisions, and outputs of the page's own tools. Those that are known, or come
        too late, change nothing: the response has the state that stands."""
        target = Target(answer.prompt_id, answer.run_id, answer)
        for part in message.parts:
            if part.toolCallId is not None and part.state is not None:
                target.states[part.toolCallId] = "executing" if part.preliminary else part.state
            try:
                answered = await self._decide(part, conversation, answer) or await take_output(
                    part, conversation, answer
                )
            except AlreadyDecided:
                continue
            except AgentKernelError as error:
                target.faults.append(reply_for(error).message)
                continue
            if answered is not None:
                target.settling.add(answered)
        return target

    async def _decide(self, part: SentPart, conversation: Conversation, answer: Answer) -> str | None:
        """Decide on a call as the part says; the call's id, where something was decided."""
        approval = part.approval
        if part.state != "approval-responded" or approval is None or approval.approved is None:
            return None
        found = [name for name, call in answer.calls.items() if call.approval_id == approval.id]
        if found and answer.calls[found[0]].stage != "asked":
            return None
        command = ApprovalResponseCommand(
            approval_id=approval.id, approved=approval.approved, reason=approval.reason or None
        )
        await handle_command(command, conversation, self.person)
        return found[0] if found else None


def _prompt_id(request: ChatRequest) -> str | None:
    """The message of the user that a request is about, as far as it says."""
    named = request.messageId or "" if request.trigger == "regenerate-message" else request.target.id
    return named.removesuffix(answer_id(""))


async def _begun(prompt_id: str, run_id: str, conversation: Conversation, follower: Follower) -> Target:
    """What a message's run has said so far, and will say. Raises `Refusal` for one that never began."""
    if await conversation.has_ended(run_id):
        await follower.catch_up()
        if prompt_id not in follower.history.prompts:
            raise Refusal(409, "The run of this message was stopped before it began. Send a new message.")
    return Target(prompt_id, run_id, follower.history.answers.get(answer_id(prompt_id)))


def _again(prompt_id: str) -> str:
    return f"{prompt_id}-again"


class ChatMessagesHandler(ChatStreamHandler):
    """The messages of a chat, for `useChat({ messages })`."""

    async def get(self, chat_id: str) -> None:
        conversation = await (await self.runtime()).conversation(chat_id)
        follower = Follower(conversation, await self.page_tools_of(conversation))
        try:
            await follower.catch_up()
        finally:
            follower.close()
        sent = await _pictures(conversation)
        self.send(await asyncio.to_thread(lambda: orjson.dumps(follower.history.messages(sent))))


async def _pictures(conversation: Conversation) -> dict[str, list[UIPart]]:
    """The pictures in messages of the user as parts, by the ids of the messages."""
    sent = await conversation.prompt_images()
    if not sent:
        return {}
    data = await conversation.pictures([ref for refs in sent.values() for ref in refs])
    return {
        message_id: [
            {"type": "file", "mediaType": ref["media_type"], "url": url} for ref in refs if (url := data_url(ref, data))
        ]
        for message_id, refs in sent.items()
    }


class ResumeHandler(ChatStreamHandler):
    """Goes on with the answer that streams: from its first chunk, then live. 204 where none does."""

    async def get(self, chat_id: str) -> None:
        try:
            conversation = await (await self.runtime()).conversation(chat_id)
        except UnknownConversation:
            self.send_nothing()
            return
        async with self.following(conversation, await self.page_tools_of(conversation), None) as follower:
            target = await self._target(conversation, follower.history)
            if target is None:
                self.send_nothing()
            else:
                await self.stream(follower, target)

    async def _target(self, conversation: Conversation, history: History) -> Target | None:
        started = self.service.chats.newest(conversation.conversation_id)
        if started is not None and started[0] not in history.prompts and not await conversation.has_ended(started[1]):
            return Target(*started)
        answer = history.answer
        if answer is None or answer.over or answer.waits:
            return None
        return Target(answer.prompt_id, answer.run_id, answer)
