"""What a prompt names, read through the executor once, and kept with the prompt: its pictures, which are sent with it
or named in Markdown, `![](figure.png)`; and its mentions, `@name` of a variable, `@sales.csv` of a file, `@[3]` or
`@cell:ID` of a cell."""

import asyncio
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from agent_kernel.errors import KernelGone, ToolFailed
from agent_kernel.models.images import NoPicture
from agent_kernel.models.redaction import hide_keys
from agent_kernel.protocol.kernel import MENTIONS_OPEN, MOST_MENTIONS, Mention
from agent_kernel.protocol.views import ImageRefs
from agent_kernel.runtime.tool_calls.shown_images import MOST_IMAGES, NO_PICTURES, Prepared, prepare_one
from agent_kernel.tools.builtin.prompt_pictures import attached_name
from agent_kernel.tools.executor import ToolExecutor

if TYPE_CHECKING:
    from agent_kernel.runtime.state.active_run import ActiveRun

READ_SECONDS = 10.0
_MARK = "!["
_PROMPT_CHARACTERS = 50_000
_MOST_BRACKETS = 2_000
"""The most brackets in a prompt that is parsed: the parser takes quadratic time for them."""
_SHOWN = 100


async def prompt_pictures(run: "ActiveRun", prompt: str, sent: ImageRefs) -> Prepared:
    """The pictures of a prompt for the model; those that were `sent` with it are in the log. A notice names others that
    can't be read; the run continues without them."""
    if _MARK not in prompt:
        return Prepared(list(sent)) if sent else NO_PICTURES
    names = await asyncio.to_thread(picture_names, prompt)
    prepared = Prepared(list(sent))
    for name in names[:MOST_IMAGES]:
        try:
            raw = await _read(run.executor, name)
            one = await asyncio.to_thread(prepare_one, raw, sent=run.sends_images)
        except (KernelGone, NoPicture, TimeoutError, ToolFailed) as reason:
            said = "the kernel did not send it in time" if isinstance(reason, TimeoutError) else str(reason)
            run.notify(f"The picture {_shown(name)} is not sent to the model: {said}.")
        else:
            prepared.refs.extend(one.refs)
            prepared.data.update(one.data)
    for name in names[MOST_IMAGES:]:
        run.notify(f"The picture {_shown(name)} is not sent to the model: a prompt may have {MOST_IMAGES}.")
    return prepared


def picture_names(prompt: str) -> list[str]:
    """The addresses of the pictures in a Markdown text, each once, in order. Slow: call it in a thread."""
    inline = [child for token in _parsed(prompt) for child in token.children or ()]
    names = (str(token.attrGet("src") or "") for token in inline if token.type == "image")
    return list(dict.fromkeys(unquote(name) for name in names))


async def _read(executor: ToolExecutor | None, name: str) -> bytes:
    """Raises `ToolFailed`, `KernelGone`, `TimeoutError`."""
    if attached_name(name) is None and _is_elsewhere(name):
        raise ToolFailed("only files in the notebook's folder are read")
    if executor is None:
        raise ToolFailed("this conversation has no kernel to read it")
    async with asyncio.timeout(READ_SECONDS):
        return await executor.read_picture(name)


def _is_elsewhere(name: str) -> bool:
    try:
        scheme = urlsplit(name).scheme
    except ValueError:  # a server's address that is none
        return True
    return len(scheme) > 1 or name.startswith("//")  # one letter is a drive


def _shown(name: str) -> str:
    short = name if len(name) <= _SHOWN else f"{name[: _SHOWN - 3]}..."
    return repr(short)


MOST_CHARACTERS, LEAN_CHARACTERS = 20_000, 4_000
"""Of all that a prompt's mentions say, also to a model whose context is small."""
_NAME_CHARACTERS = 255
_MENTION = re.compile(
    r"(?<![\w@.+/\\)\]-])@(?:(?P<cell>\[\d{1,9}\]|cell:[\w-]{1,64}(?![\w-]))|\"(?P<quoted>[^\"\n]+)\"|(?P<name>[\w./~-]+))"
)
_DECORATOR = re.compile(r"\s*@[\w.]+(?:\(.*\))?\s*")
_DEFINITION = re.compile(r"\s*(?:(?:async\s+)?def|class)\s+\w+\s*[(:\[]")


async def prompt_mentions(run: "ActiveRun", prompt: str) -> str:
    """What the model is told of the prompt's mentions; empty where it mentions nothing. A notice names those that can't
    be read; a name of nothing stays as it was written."""
    if "@" not in prompt or run.executor is None:
        return ""
    names = await asyncio.to_thread(mentioned_names, prompt)
    if not names:
        return ""
    try:
        read = await run.executor.read_mentions(names[:MOST_MENTIONS])
    except (KernelGone, ToolFailed) as reason:
        run.notify(f"What the prompt mentions is not sent to the model: {reason}.")
        return ""
    for name in names[MOST_MENTIONS:]:
        run.notify(f"@{name} is not sent to the model: a prompt may have {MOST_MENTIONS} mentions.")
    for mention in read:
        if mention.refusal is not None:
            run.notify(f"@{mention.name} is not sent to the model: {mention.refusal}.")
    told = [mention for mention in read if mention.refusal is None]
    if not told:
        return ""
    shown = dict.fromkeys((*run.view.mentions, *(f"@{mention.name}" for mention in told)))
    run.save_soon(mentions=list(shown))
    text = hide_keys(run.secrets.clean(_block(told, LEAN_CHARACTERS if run.view.lean else MOST_CHARACTERS)))
    run.seen_cells.tell(mention.cell for mention in told if mention.cell is not None and mention.text in text)
    return MENTIONS_OPEN + text


def _block(told: list[Mention], room: int) -> str:
    """Cells last: recordings compare what is before them."""
    blocks: list[str] = []
    for number, mention in enumerate(sorted(told, key=lambda one: one.is_cell)):
        share = room // (len(told) - number)
        text = f"@{mention.name} is {mention.text}"
        if len(text) > share:
            text = f"{text[: share - 20]}\n[... cut ...]"
        blocks.append(text)
        room -= len(text)
    return "\n\n".join(blocks)


def mentioned_names(prompt: str) -> list[str]:
    """The names after `@` in a Markdown text, each once, in order: none in code, decorators and addresses. Slow: call
    it in a thread."""
    tokens = _parsed(_without_decorators(prompt))
    names = (name for text in _texts(tokens) for name in _names(text))
    return list(dict.fromkeys(names))


def _parsed(prompt: str) -> list[Token]:
    """A prompt as Markdown; nothing of one that would take long. Escaped characters stay apart from the text."""
    if len(prompt) > _PROMPT_CHARACTERS or prompt.count("[") > _MOST_BRACKETS:
        return []
    return MarkdownIt("commonmark", {"html": False}).disable("text_join").parse(prompt)


def _names(text: str) -> Iterator[str]:
    for found in _MENTION.finditer(text):
        name = found["cell"] or found["quoted"] or found["name"].rstrip(".-/")
        if name and len(name) <= _NAME_CHARACTERS:
            yield name


def _texts(tokens: list[Token]) -> Iterator[str]:
    """The running text between pieces of code."""
    for token in tokens:
        text = ""
        for child in token.children or ():
            if child.type == "text":
                text += child.content
                continue
            yield text
            text = ""
        yield text


def _without_decorators(prompt: str) -> str:
    """The prompt without lines such as `@app.route("/")` above a function or a class that is not marked as code."""
    kept: list[str] = []
    above = False
    for line in reversed(prompt.split("\n")):
        decorates = above and _DECORATOR.fullmatch(line) is not None
        above = decorates or _DEFINITION.match(line) is not None
        kept.append("" if decorates else line)
    return "\n".join(reversed(kept))
