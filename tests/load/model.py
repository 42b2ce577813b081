"""The model of the load, a process of its own: `python -m tests.load.model PORT`.

The prompt carries the plan as JSON: `{"calls": 100, "a_step": 20, "counter": "/path"}` asks for a hundred calls of
`run_python`, twenty at once, then answers. It looks for words in a request and never parses it, so that what grows with
the conversation is what the server does.
"""

import itertools
import json
import re
import sys
from typing import Any

from aiohttp import web

from agent_kernel.models.base import ModelTurn
from agent_kernel.testing.scripted_model import call, calls, say
from agent_kernel.testing.wire.chat import streamed

DONE = "All of it is done."
_PLAN = re.compile(rb'\{\\"calls.*?\}')
_TOLD = re.compile(rb'"role": ?"tool"')
_numbers = itertools.count(1)


def plan(calls: int, a_step: int, counter: str) -> str:
    return json.dumps({"calls": calls, "a_step": a_step, "counter": counter})


def _next_turn(body: bytes) -> ModelTurn:
    found = _PLAN.search(body)
    asked: dict[str, Any] = json.loads(json.loads(b'"' + found.group() + b'"')) if found else {"calls": 0}
    left = asked["calls"] - len(_TOLD.findall(body))
    if left <= 0:
        return say(DONE)
    return calls(*(_call(asked["counter"]) for _ in range(min(left, asked["a_step"]))))


def _call(counter: str) -> ModelTurn:
    number = f"{next(_numbers):06d}"
    code = f"print('mark{number}', file=open({counter!r}, 'a'), flush=True)"
    return call("run_python", call_id=f"call_{number}", code=code)


async def _complete(request: web.Request) -> web.Response:
    reply = streamed(_next_turn(await request.read()))
    return web.Response(body=reply.body, content_type=reply.content_type)


def main() -> None:
    app = web.Application(client_max_size=2**30)
    app.router.add_post("/v1/chat/completions", _complete)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)


if __name__ == "__main__":
    main()
