"""The AI SDK's endpoint: one more client of a conversation, which speaks in UI messages.

What a page sends of the past is compared with the log and never taken over: a new message of the user, answers to
approvals and outputs of the page's own tools are read, and nothing else.
"""

import asyncio
from dataclasses import replace

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
from agent_kernel_server.base_handler import Refusal
from agent_kernel_server.identity import may
from agent_kernel_server.mcp_server.notebooks import Place

MOST_BYTES = 32 << 20
"""The longest body: a page sends all its messages with each request."""


class ChatHandler(ChatStreamHandler):
    """Takes what `DefaultChatTransport` sends, and answers with a UI message stream."""

    most_bytes = MOST_BYTES
    asked: ChatRequest
    tools: tuple[ToolDeclaration, ...]
    """The page's own."""
    conversation: Conversation
    follower: Follower

    @property
    def history(self) -> History:
        return self.follower.history

    async def post(self) -> None:
        self.asked = await asyncio.to_thread(self.read_body, ChatRequest)
        self.tools = page_tools(self.asked)
        self.conversation = await self._find_conversation()
        names = {tool.name for tool in self.tools} | await self.page_tools_of(self.conversation)
        async with self.following(self.conversation, names, _prompt_id(self.asked)) as self.follower:
            await self.stream(self.follower, await self._act())

    async def _find_conversation(self) -> Conversation:
        """The chat's conversation; a new one for an id that is new. Raises `Refusal`."""
        asked, runtime = self.asked, await self.runtime()
        try:
            conversation = await runtime.conversation(asked.id)
        except UnknownConversation:
            if not asked.says_more:
                raise
            if not await may(self, "write"):
                raise web.HTTPError(403) from None
            kernel_id = await self._kernel()
            return await self.service.create_conversation(
                kernel_id=kernel_id, model=asked.model, conversation_id=asked.id
            )
        # A page names its kernel in each request. That may have ended, and what was said stays with the chat.
        if asked.says_more and await self._named_kernel() not in (None, conversation.kernel_id):
            raise Refusal(409, "This chat belongs to another kernel. Begin a new one.", field="kernel_id")
        return conversation

    async def _kernel(self) -> str | None:
        """The kernel of a new chat. Raises `Refusal` 404."""
        kernel_id = await self._named_kernel()
        if kernel_id is None and self.asked.notebook_path is not None:
            message = f"No kernel runs for the notebook {self.asked.notebook_path!r}. Open it first."
            raise Refusal(404, message, field="notebook_path")
        if kernel_id is not None and not self.service.kernels.knows(kernel_id):
            raise Refusal(404, f"There is no kernel {kernel_id!r}.", field="kernel_id")
        return kernel_id

    async def _named_kernel(self) -> str | None:
        if self.asked.kernel_id is None and self.asked.notebook_path is not None:
            place = Place(self.asked.notebook_path.strip("/"))
            return await self.service.client_calls.notebooks.kernel_of(place)
        return self.asked.kernel_id

    async def _act(self) -> Target:
        """Do what the request asks for, once."""
        if self.asked.trigger == "regenerate-message":
            return await self._try_again()
        if self.asked.says_more:
            for message in self.asked.messages:
                if (answer := self.history.answers.get(message.id)) is not None:
                    await self._answer(message, answer)
            return await self._ask(self.asked.messages[-1])
        return await self._go_on(self.asked.target)

    async def _ask(self, prompt: SentMessage) -> Target:
        """A message of the user: a new one starts a run, or goes to the one that is under way."""
        text, known = checked_prompt(prompt), self.history.prompts.get(prompt.id)
        if known is not None and known != text:
            message = "This message was sent before with another text. What was said stays; send a new message."
            raise Refusal(409, message, field="messages")
        if known is not None:
            return Target(prompt.id, answer=self.history.answers[answer_id(prompt.id)])

        async def start() -> str:
            return await self._start(prompt.id, text, await keep_pictures(prompt.files, self.conversation))

        return await self._begun(prompt.id, await self.service.chats.start_once(self.asked.id, prompt.id, start))

    async def _start(self, prompt_id: str, text: str, images: ImageRefs, replaces: tuple[str, ...] = ()) -> str:
        """Start a run, and return its id. A conversation that has begun keeps the tools of its last run."""
        if self.history.prompts or self.conversation.is_busy:

            def changed(spec: RunSpec) -> RunSpec:
                return replace(as_asked(spec, self.asked, self.tools), replaces=replaces)

            return await self.conversation.send_message(
                text, decided_by=self.person, message_id=prompt_id, images=images, changed=changed
            )
        spec = RunSpec(new_run_id(), text, policy=self.asked.policy, prompt_id=prompt_id, prompt_images=images)
        spec = as_asked(spec, self.asked, self.tools)
        await self.service.start_run(self.conversation.conversation_id, spec, asked_by=self.person)
        return spec.run_id

    async def _begun(self, prompt_id: str, run_id: str) -> Target:
        """What a message's run has said so far, and will say. Raises `Refusal` for one that never began."""
        if await self.conversation.has_ended(run_id):
            await self.follower.catch_up()
            if prompt_id not in self.history.prompts:
                raise Refusal(409, "The run of this message was stopped before it began. Send a new message.")
        return Target(prompt_id, run_id, self.history.answers.get(answer_id(prompt_id)))

    async def _try_again(self) -> Target:
        """The last answer once more: the run goes on where its model failed; else its prompt is asked again, and the
        model is not told of the answer that it replaces."""
        history = self.history
        named = history.answers.get(self.asked.messageId or "")
        again = history.answers.get(answer_id(_again(named.prompt_id))) if named is not None else None
        if again is not None:  # this request was sent before
            return Target(again.prompt_id, again.run_id, again)
        answer = history.answer
        if answer is None or answer.run_id is None:
            raise Refusal(409, "There is no answer yet that could be tried again.", field="trigger")
        if not answer.over and (answer.tried_again or answer.prompt_id.endswith(_again(""))):
            return Target(answer.prompt_id, answer.run_id, answer)
        if answer.model_failed and not self.conversation.is_busy:
            await self.conversation.retry_run(answer.run_id)
            return Target(answer.prompt_id, answer.run_id, answer)
        again_id, replaced = _again(answer.prompt_id), answer
        images = (await self.conversation.prompt_images(replaced.prompt_id)).get(replaced.prompt_id, [])

        async def start() -> str:
            if not replaced.over or self.conversation.is_busy:
                raise Refusal(409, "The last answer has not ended. Stop its run first, or wait.", field="trigger")
            return await self._start(again_id, history.prompts[replaced.prompt_id], images, (str(replaced.run_id),))

        return await self._begun(again_id, await self.service.chats.start_once(self.asked.id, again_id, start))

    async def _go_on(self, message: SentMessage) -> Target:
        """Answers of a person in a message that the page has. Without any, the response is what the page lacks."""
        answer = self.history.answers.get(message.id)
        if answer is None:
            raise Refusal(409, "The log has no such answer in this chat. Load the chat again.", field="messages")
        target = await self._answer(message, answer)
        target.steps = sum(part.type == "step-start" for part in message.parts)
        return target

    async def _answer(self, message: SentMessage, answer: Answer) -> Target:
        """Take the answers in a message: decisions, and outputs of the page's own tools. Those that are known, or come
        too late, change nothing: the response has the state that stands."""
        target = Target(answer.prompt_id, answer.run_id, answer)
        for part in message.parts:
            if part.toolCallId is not None and part.state is not None:
                target.states[part.toolCallId] = "executing" if part.preliminary else part.state
            try:
                answered = await self._decide(part, answer) or await take_output(part, self.conversation, answer)
            except AlreadyDecided:
                continue
            except AgentKernelError as error:
                target.faults.append(reply_for(error).message)
                continue
            if answered is not None:
                target.settling.add(answered)
        return target

    async def _decide(self, part: SentPart, answer: Answer) -> str | None:
        """Decide on a call as the part says; the call's id, where something was decided."""
        approval = part.approval
        if part.state != "approval-responded" or approval is None or approval.approved is None:
            return None
        found = next((name for name, call in answer.calls.items() if call.approval_id == approval.id), None)
        if found is not None and answer.calls[found].stage != "asked":
            return None
        command = ApprovalResponseCommand(
            approval_id=approval.id, approved=approval.approved, reason=approval.reason or None
        )
        await handle_command(command, self.conversation, self.person)
        return found


def _prompt_id(request: ChatRequest) -> str | None:
    """The message of the user that a request is about, as far as it says."""
    named = request.messageId or "" if request.trigger == "regenerate-message" else request.target.id
    return named.removesuffix(answer_id(""))


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
        self.answer(await asyncio.to_thread(lambda: orjson.dumps(follower.history.messages(sent))))


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
            self.answer_nothing()
            return
        async with self.following(conversation, await self.page_tools_of(conversation), None) as follower:
            target = await self._target(conversation, follower.history)
            if target is None:
                self.answer_nothing()
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
