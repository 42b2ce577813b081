"""Rules on the files that calls open: judged by where a path leads, and by who could see what it says."""

from typing import Any

import pytest

from agent_kernel.approvals.offers import offered_rules
from agent_kernel.approvals.policy import Policy
from agent_kernel.approvals.rules import JudgedCall
from agent_kernel.protocol.calls import Place, ToolVerdict
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.vocabulary import Approval
from agent_kernel.testing import call, calls, say
from agent_kernel.tools.builtin.places import UNKNOWN
from agent_kernel.tools.declaration import ToolDeclaration
from tests.core.runtime.runtime_fixtures import YES, FunctionExecutor, Stages
from tests.core.runtime.tool_calls.test_rules import waiting

TEXTS = {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}
WRITE = ToolDeclaration("write_file", "Write.", TEXTS)
CSV = 'allow write_file where path matches "data/*.csv"'


def judged(rules: list[str], path: str, place: Place, tool: str = "write_file", mode: Any = "ask") -> Approval:
    call = JudgedCall(tool, {"path": path}, "d" * 64, "ask", read_only=False, place=place)
    return Policy(rules, mode).judge(call).approval


def inside(path: str, *, linked: bool = False) -> Place:
    return Place(path=f"/home/ana/{path}", inside=path, linked=linked)


def outside(path: str) -> Place:
    return Place(path=path, linked=True)


@pytest.mark.parametrize(
    ("path", "place", "expected"),
    [
        ("data/x.csv", inside("data/x.csv"), "allow"),
        ("other/x.csv", inside("data/x.csv", linked=True), "allow"),
        ("data/x.csv", inside("other/x.csv", linked=True), "ask"),
        ("data/x.csv", outside("/home/ana/data/x.csv"), "ask"),
        ("data/x.csv", UNKNOWN, "ask"),
        ("data/.x.csv", inside("data/.x.csv"), "ask"),
        ("data/x\x1b[2K.csv", inside("data/x\x1b[2K.csv"), "ask"),
    ],
)
def test_a_rule_for_a_folder_covers_what_is_opened_in_it(path: str, place: Place, expected: Approval) -> None:
    assert judged([CSV], path, place) == expected


@pytest.mark.parametrize(
    ("rule", "place", "expected"),
    [
        ('allow write_file where path matches "/big/disk/*.csv"', outside("/big/disk/x.csv"), "allow"),
        ('allow write_file where path matches "data/.*.csv"', inside("data/.x.csv"), "allow"),
        ('allow write_file where path matches "*/*"', inside(".git/config"), "ask"),
        ("allow write_file where path is data/x.csv", outside("/elsewhere/x.csv"), "ask"),
        ("allow write_file", outside("/elsewhere/x.csv"), "allow"),
        (f"allow write_file where digest is {'d' * 64}", inside("data/x.csv"), "allow"),
        (f"allow write_file where digest is {'d' * 64}", inside("data/x.csv", linked=True), "ask"),
    ],
)
def test_a_rule_says_which_places_it_means(rule: str, place: Place, expected: Approval) -> None:
    assert judged([rule], "data/x.csv", place) == expected


@pytest.mark.parametrize("verb", ["deny", "ask"])
@pytest.mark.parametrize(
    ("rule", "path", "place"),
    [
        ("secret/*", "secret/key", inside("public/key", linked=True)),
        ("secret/*", "public/key", inside("secret/key", linked=True)),
        ("/home/ana/.ssh/*", "keys/id", outside("/home/ana/.ssh/id")),
        ("/home/ana/secret/*", "secret/key", inside("secret/key")),
    ],
)
def test_a_rule_against_a_place_is_not_got_around_by_a_link(verb: str, rule: str, path: str, place: Place) -> None:
    assert judged([f'{verb} read_file where path matches "{rule}"'], path, place, "read_file", "allow") == verb


BIG_DISK = 'allow write_file where path matches "/big/disk/*.csv"'


@pytest.mark.parametrize(
    ("path", "place", "narrow"),
    [("data/x.csv", outside("/big/disk/x.csv"), BIG_DISK), ("data/.x.csv", inside("data/.x.csv"), "This exact call")],
)
def test_a_file_is_offered_by_where_it_is_and_hidden_files_not_at_large(path: str, place: Place, narrow: str) -> None:
    call = waiting("write_file", path=path, content="x").model_copy(update={"place": place})
    first, *others = offered_rules(call)
    assert narrow in (first.label, first.text)
    assert [offer.text for offer in others] == ["allow write_file", "allow *"]


X = call("write_file", path="data/x.csv", content="1")


async def test_a_link_that_was_changed_while_a_call_waited_ends_it_unrun(stages: Stages) -> None:
    executor = FunctionExecutor()
    stage = await stages([X, say("ok")], executor=executor)
    handle, _ = await stage.asking(tools=(WRITE,))
    executor.links["data/x.csv"] = "/home/ana/y.csv"
    await stage.approve()
    [ended] = (await handle.wait()).tool_calls
    assert (executor.ran, ended.state) == ([], "denied")
    assert ended.reason == "Its path leads to another file than when it was approved: a link was changed."


@pytest.mark.parametrize("mode", ["ask", "edit"])
async def test_a_place_that_nobody_tells_is_asked_about(stages: Stages, mode: Any) -> None:
    class Silent(FunctionExecutor):
        async def tool_verdict(self, tool_name: str, arguments_json: str) -> ToolVerdict:
            return ToolVerdict("ask", may_edit=True)

    stage = await stages([X, say("ok")], executor=Silent())
    result = await stage.run("Go", YES, tools=(WRITE,), policy=mode, rules=(CSV,))
    assert result.tool_calls[0].state == "success"


async def test_what_is_opened_is_the_place_that_was_on_the_card(stages: Stages) -> None:
    executor = FunctionExecutor(links={"data/x.csv": "/big/x.csv"})
    stage = await stages([X, say("ok")], executor=executor)
    handle, _ = await stage.asking(tools=(WRITE,))
    [shown] = await stage.runtime.list_calls("awaiting_approval")
    await stage.approve()
    await handle.wait()
    assert [one.place for one in (shown, *executor.ran)] == [outside("/big/x.csv")] * 2


async def test_a_path_that_was_edited_is_bound_to_its_own_place(stages: Stages) -> None:
    executor = FunctionExecutor(links={"b.csv": "/big/b.csv"})
    stage = await stages([X, say("ok")], executor=executor)
    edited = Decision(approved=True, edited_input='{"path": "b.csv", "content": "1"}')
    await stage.run("Go", edited, tools=(WRITE,))
    assert [ran.place for ran in executor.ran] == [outside("/big/b.csv")]


async def test_a_rule_that_comes_while_a_call_waits_binds_it_to_the_place_that_the_rule_covers(stages: Stages) -> None:
    executor = FunctionExecutor(links={"data/x.csv": "/home/ana/y.csv"})
    stage = await stages([calls(X, call("write_file", path="data/z.csv", content="1")), say("ok")], executor=executor)
    handle, requests = await stage.asking(2, tools=(WRITE,))
    del executor.links["data/x.csv"]  # no link for the moment in which the rule is saved
    plain = next(one for one in requests if "data/z" in one.tool_input)
    await stage.decide(Decision(approved=True, scope="conversation", rule=CSV), plain)
    await handle.wait()
    assert {ran.place for ran in executor.ran} == {inside("data/x.csv"), inside("data/z.csv")}
