"""What the AI SDK endpoint reads of a request: the user's message with its pictures, outputs of the page's own tools,
and what the page asks of a run."""

import asyncio
import re
from dataclasses import replace

import orjson

from agent_kernel.approvals.policy import Policy
from agent_kernel.models.images import MEDIA_TYPES, NoPicture, decode
from agent_kernel.protocol.ai_sdk import MESSAGE_ID, ChatRequest, SentMessage, SentPart
from agent_kernel.protocol.views import ImageRefs
from agent_kernel.runtime.clients.ui_answers import Answer, answer_id
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.runtime.tool_calls.shown_images import MOST_IMAGES
from agent_kernel.tools.builtin.declarations import BUILTIN_NAMES
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel_server.base_handler import Refusal

PROMPT_CHARACTERS = 1_000_000
OUTPUT_CHARACTERS = 1_000_000
"""The longest output of a page's own tool."""
_DATA_URL = re.compile("data:([^;,]*)[^,]*;base64,")


def checked_prompt(prompt: SentMessage) -> str:
    """The text of a message of the user; none where it has only pictures. Raises `Refusal` 400."""
    if re.fullmatch(MESSAGE_ID, prompt.id) is None or prompt.id.endswith(answer_id("")):
        message = f"The id of a message has up to 128 letters, digits and . _ : - and does not end in {answer_id('')}"
        raise Refusal(400, message, field="messages")
    text, files = prompt.text, prompt.files
    if not (text or files) or len(text) > PROMPT_CHARACTERS:
        raise Refusal(400, f"A message has text, up to {PROMPT_CHARACTERS:,} characters.", field="messages")
    if len(files) > MOST_IMAGES:
        raise Refusal(400, f"A message has {len(files)} pictures; it may have {MOST_IMAGES}.", field="messages")
    for part in files:
        kind = _DATA_URL.match(part.url or "")
        if kind is None or kind[1] not in MEDIA_TYPES:
            name = (kind[1] if kind is not None else part.mediaType or "of unknown type")[:100]
            message = (
                f"A file that is {name} is not taken: a message may have pictures, PNG or JPEG, as data URLs. Save "
                "other files beside the notebook, and name them in the message."
            )
            raise Refusal(400, message, field="messages")
    return text


async def keep_pictures(files: list[SentPart], conversation: Conversation) -> ImageRefs:
    """Store the pictures of a message that `checked_prompt` has seen. Raises `Refusal` 400."""
    if not files:
        return []
    try:
        raw = await asyncio.to_thread(lambda: [decode(_DATA_URL.sub("", part.url or "", count=1)) for part in files])
        return await conversation.keep_pictures(raw)
    except NoPicture as reason:
        raise Refusal(400, f"A picture of this message can't be used: {reason}.", field="messages") from reason


async def take_output(part: SentPart, conversation: Conversation, answer: Answer) -> str | None:
    """Hand the output of a page's own tool to the call that waits for it; the call's id."""
    call = answer.calls.get(part.toolCallId or "")
    if call is None or part.toolCallId is None or not (call.for_page and call.stage == "executing"):
        return None
    if part.state == "output-error":
        text, failed = part.errorText or "The page's tool failed.", True
    elif part.state == "output-available" and not part.preliminary:
        text, failed = part.output if isinstance(part.output, str) else orjson.dumps(part.output).decode(), False
    else:
        return None
    if len(text) > OUTPUT_CHARACTERS:
        raise Refusal(400, f"An output may have {OUTPUT_CHARACTERS:,} characters.", field="messages")
    await conversation.tool_result(part.toolCallId, text, failed=failed)
    return part.toolCallId


def page_tools(request: ChatRequest) -> tuple[ToolDeclaration, ...]:
    """The tools that the page runs itself. Raises `Refusal` 400."""
    for name in request.tools:
        if name in BUILTIN_NAMES:
            raise Refusal(400, f"{name} is a tool of Agent Kernel. Choose another name.", field="tools")
    return tuple(
        ToolDeclaration(name, tool.description, tool.parameters, approval="allow", runs_in="page")
        for name, tool in request.tools.items()
    )


def as_asked(spec: RunSpec, request: ChatRequest, tools: tuple[ToolDeclaration, ...]) -> RunSpec:
    """The specification of the last run with what a page asks for. A page's tool replaces none that runs in the kernel,
    and its policy only ever makes the last one stricter."""
    kept = tuple(tool for tool in spec.tools if tool.runs_in == "kernel" or tool.name not in request.tools)
    names = {tool.name for tool in kept}
    policy = Policy(default=spec.policy or "ask").capped(request.policy).default if request.policy else spec.policy
    return replace(
        spec,
        watched=True,
        model=request.model or spec.model,
        effort=request.effort or spec.effort,
        policy=policy,
        tools=(*kept, *(tool for tool in tools if tool.name not in names)),
    )
