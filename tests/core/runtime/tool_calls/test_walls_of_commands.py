"""The walls around a shell command: what its card shows, what rules and people may allow, and what is handed on."""

from typing import Any

import pytest

from agent_kernel.approvals.folder_file import parse
from agent_kernel.approvals.policy import Policy
from agent_kernel.approvals.rules import JudgedCall
from agent_kernel.approvals.scripted import approve_all
from agent_kernel.errors import IllegalTransition
from agent_kernel.protocol.calls import ApprovedCall, Outcome, Walls, WallsFound
from agent_kernel.protocol.commands import ToolRetryCommand
from agent_kernel.protocol.events import ApprovalRequestEvent
from agent_kernel.protocol.vocabulary import WallLevel
from agent_kernel.runtime.clients.dispatch import handle_command
from agent_kernel.runtime.turns.pauses import outside_walls
from agent_kernel.testing import ScriptedModel, call, say
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stage, Stages, run_view

RUN_SHELL = next(tool for tool in BUILTIN_TOOLS if tool.name == "run_shell")
IN_FOLDER, BUT_UDP = "writes only in this folder", "no network but UDP"
MAYBE, NO_WALLS = "this machine has them", "Runs without walls: it can do all that you can."
BUBBLEWRAP, LANDLOCK, NEITHER = WallsFound("bubblewrap"), WallsFound("Landlock"), WallsFound("none", "not installed")
MAKE = 'allow run_shell inside walls where command matches "make *"'


def executor(walls: WallsFound | None) -> FunctionExecutor:
    return FunctionExecutor(lambda call, emit: "made", walls=walls)


async def started(stages: Stages, walls: WallsFound | None, settings: dict[str, Any], **spec: Any) -> Stage:
    arguments = {"command": "make all"} | spec.pop("arguments", {})
    model = ScriptedModel([call("run_shell", **arguments), say("Done.")])
    stage = await stages(model, executor=executor(walls), **settings)
    await stage.start(**{"tools": (RUN_SHELL,)} | spec)
    return stage


async def facts(stage: Stage) -> list[str]:
    """What the card shows."""
    preview = (await stage.requests())[0].preview
    assert preview is not None
    return preview.facts


@pytest.mark.parametrize(
    ("walls", "level", "arguments", "shown", "means"),
    [
        (LANDLOCK, "workspace", {}, "workspace (Landlock; UDP is open)", f"Runs inside walls: {IN_FOLDER}, {BUT_UDP}."),
        (BUBBLEWRAP, "read-only", {}, "read-only (bubblewrap)", "Runs inside walls: writes nothing, no network."),
        (NEITHER, "workspace", {}, "none (not installed)", NO_WALLS),
        (BUBBLEWRAP, "workspace", {"outside": True}, "none (it runs outside)", NO_WALLS),
        (None, "workspace", {}, "workspace (not known yet)", f"Runs inside walls if {MAYBE}: {IN_FOLDER}, no network."),
    ],
)
async def test_a_card_shows_the_walls_and_the_call_is_bound_to_them(
    stages: Stages, walls: WallsFound | None, level: WallLevel, arguments: dict[str, Any], shown: str, means: str
) -> None:
    given = {"shell_walls": level, "hidden_paths": ("/the/log",), "shell_environment": ("PGHOST",)}
    stage = await started(stages, walls, given, arguments=arguments)
    assert await facts(stage) == [means, f"walls: {shown}."]
    await stage.approve()
    await stage.until_runs()
    [ran] = stage.executor.ran
    assert (ran.base, ran.walls) == ("" if walls is None else shown, Walls(level, ("/the/log",), ("PGHOST",)))


@pytest.mark.parametrize(
    ("walls", "arguments", "unasked"),
    [
        (BUBBLEWRAP, {}, True),
        (NEITHER, {}, False),
        (BUBBLEWRAP, {"outside": True}, False),
        (BUBBLEWRAP, {"command": "make all; rm x"}, False),
    ],
)
async def test_a_rule_may_allow_a_command_inside_walls_alone(
    stages: Stages, walls: WallsFound | None, arguments: dict[str, Any], unasked: bool
) -> None:
    stage = await started(stages, walls, {}, arguments=arguments, rules=(MAKE,))
    if unasked:
        await stage.until_runs()
        assert not stage.of(ApprovalRequestEvent)
    else:
        await stage.requests()
        assert stage.executor.ran == []


@pytest.mark.parametrize("given", [{"policy": "allow"}, {"script": approve_all(times=2)}], ids=["mode", "script"])
async def test_a_command_outside_asks_whatever_the_mode_and_the_script_say(
    stages: Stages, given: dict[str, Any]
) -> None:
    stage = await started(stages, BUBBLEWRAP, {}, arguments={"outside": True}, **given)
    await stage.requests()
    assert stage.executor.ran == []


async def test_run_outside_once_has_the_model_ask_for_that_command_without_walls(stages: Stages) -> None:
    def stopped(call: ApprovedCall, emit: Any) -> Outcome:
        return Outcome("error", "walls: workspace (bubblewrap)\nstopped by the walls: no network\nExit code: 6")

    again = call("run_shell", command="curl x", outside=True)
    model = ScriptedModel([call("run_shell", command="curl x"), say("It has no network."), again, say("Done.")])
    stage = await stages(model, executor=FunctionExecutor(stopped, walls=BUBBLEWRAP))
    [ended] = (await stage.run(tools=(RUN_SHELL,), policy="allow")).tool_calls
    assert str(ended.result).startswith("Error: walls: workspace (bubblewrap)\nstopped by the walls: no network\n")
    command = ToolRetryCommand(type="tool_retry", tool_call_id=ended.tool_call_id, outside=True)
    await handle_command(command, stage.conversation, "ana")
    assert await facts(stage) == [NO_WALLS, "walls: none (it runs outside)."]
    told = stage.model.requests[2].messages[-1]["content"]
    assert told.startswith('Try this call again: run_shell with {"command":"curl x","outside":true}')
    asked = await stage.approve()
    await stage.until_runs(asked.tool_call_id)
    with pytest.raises(IllegalTransition, match="no walls around run_python"):
        outside_walls(ended.model_copy(update={"tool_name": "run_python"}))


@pytest.mark.parametrize(
    ("site", "file", "level", "note"),
    [
        ("workspace", "read-only", "read-only", None),
        ("read-only", "workspace", "read-only", 'walls = "workspace" changes nothing'),
        ("workspace", "none", "workspace", 'walls = "none" changes nothing'),
    ],
)
async def test_a_folders_file_makes_walls_stricter_never_looser(
    stages: Stages, site: WallLevel, file: WallLevel, level: str, note: str | None
) -> None:
    limits = parse(f'walls = "{file}"'.encode(), ".agent-kernel.toml")
    stage = await started(stages, BUBBLEWRAP, {"shell_walls": site, "read_limits": lambda _: limits})
    assert (await facts(stage))[-1] == f"walls: {level} (bubblewrap)."
    policy = run_view(stage).policy
    assert any(note in said for said in policy.notes) if note else policy.notes == []
    assert policy.limited_by == (None if note else f".agent-kernel.toml: walls {file}")


@pytest.mark.parametrize(
    ("rule", "outside", "approval"),
    [
        ("allow run_shell", False, "allow"),
        ("allow run_shell", True, "ask"),
        ("allow run_shell outside walls", True, "allow"),
        ("deny run_shell outside walls", True, "deny"),
    ],
)
def test_no_rule_covers_a_command_outside_but_one_that_says_so(rule: str, outside: bool, approval: str) -> None:
    arguments = {"command": "make"} | ({"outside": True} if outside else {})
    judged = JudgedCall("run_shell", arguments, "d", "ask", read_only=False, inside=not outside)
    assert Policy([rule]).judge(judged).approval == approval
