"""What someone reads in a notebook when the run is over."""

import re
from typing import Any

import pytest

from agent_kernel.protocol.views import (
    ErrorView,
    NoticeView,
    PolicyView,
    RuleView,
    ToolCallView,
)
from agent_kernel.protocol.vocabulary import RECORDING_CHANGED
from agent_kernel.record import render_record
from agent_kernel.record.words import RECORDED
from agent_kernel.runtime.tool_calls.script_decisions import RECORDING
from tests.core.record.record_examples import a_call, a_run, bare, displayed, printed, raised, says
from tests.cpu import bounded


def five_calls() -> list[ToolCallView]:
    return [
        a_call(1, "inspect_variables", {"names": ["orders"]}, by="policy", duration_ms=100, read_only=True),
        a_call(2, decided_by="ana", outputs=[printed("312\n")]),
        a_call(
            3,
            arguments={"code": 'orders.drop(columns=["exported_at"], inplace=True)'},
            state="denied",
            decided_by="ana",
            duration_ms=None,
            reason="Keep the raw table as it is.",
            result="Denied by ana.",
        ),
        a_call(
            4,
            arguments={"code": 'weekly = orders_clean.groupby("week")'},
            state="error",
            decided_by="ana",
            duration_ms=200,
            outputs=[raised("Traceback (most recent call last):\n\x1b[0;31mKeyError\x1b[0m: 'week'")],
        ),
        a_call(5, "write_file", {"path": "reports/weekly.md", "content": "# Week"}, edited=True, decided_by="ana"),
    ]


def bundle(
    calls: list[ToolCallView], answer: str = "The clean table has **47,898 orders**.", **run: object
) -> dict[str, str]:
    messages = [says("I look first.", *calls), says(answer)] if calls else [says(answer)]
    shown = render_record(a_run(**run), messages, calls)
    return {**shown, "text/html": bare(shown["text/html"])}


def test_the_answer_opens_the_record_and_one_small_line_says_model_policy_time_and_cost() -> None:
    messages = [says("The clean table has **47,898 orders**.")]
    html = bare(render_record(a_run(), messages, [], below_prompt=True)["text/html"])
    assert html == (
        '<div class="agent-record" data-agent-record="run_1">\n'
        '<div data-role="answer"><p>The clean table has <strong>47,898 orders</strong>.</p></div>\n'
        "<p><small>gpt-5.2 · asked before acting · "
        '<time datetime="2026-11-20T14:02:09Z">20 November 2026, 14:02 UTC</time> · 9\u00a0min 51\u00a0s · '
        "20.1k tokens in, 1.4k out · $0.039</small></p>\n</div>"
    )
    assert "<blockquote><p>Find duplicate orders in `orders`.</p></blockquote>" in bundle([])["text/html"]
    assert bundle([], "")["text/plain"].startswith("Agent run: complete.\n"), "a run without an answer"


def test_the_transcript_names_each_call_its_end_and_who_decided() -> None:
    html = bundle(five_calls())["text/html"]
    assert "<details><summary>5 steps: 3 done, 1 denied, 1 failed</summary>" in html
    summaries = [re.sub("<[^>]+>", "", found) for found in re.findall("<summary>(.*?)</summary>", html)[1:]]
    assert summaries == [
        "Look at variables orders (inspect_variables): Done, allowed by policy",
        "Run Python orders.head() (run_python): Done, approved by ana",
        "Run Python orders.drop(columns=[&quot;exported_at&quot;], inplace=True) (run_python): Denied by ana",
        "Run Python weekly = orders_clean.groupby(&quot;week&quot;) (run_python): Failed, KeyError, approved by ana",
        "Write reports/weekly.md (write_file): Done, edited and approved by ana",
    ]
    assert (
        "<p><small>Time of each step: 0.1\u00a0s, 0.3\u00a0s, -, 0.2\u00a0s, 0.3\u00a0s.</small></p>\n</details>"
        in html
    )
    assert "<p>Reason: Keep the raw table as it is. Nothing ran.</p>" in html
    assert "<pre>312</pre>" in html
    assert "<span>KeyError</span>: &#x27;week&#x27;" in html, "with its colour"
    assert "<p>I look first.</p>" in html
    assert "\x1b" not in html
    assert html.count("<details") == html.count("</details>") == 6
    assert "Denied by ana." not in html, "a call that never ran has no output"


def test_the_plain_text_tells_the_same_without_times_and_ids() -> None:
    plain = bundle(five_calls())["text/plain"]
    assert plain == (
        "> Find duplicate orders in `orders`.\n\n"
        "The clean table has **47,898 orders**.\n\n"
        "312\n\n"
        "5 steps: 3 done, 1 denied, 1 failed\n"
        "1. Look at variables orders (inspect_variables): Done, allowed by policy\n"
        "2. Run Python orders.head() (run_python): Done, approved by ana\n"
        "   Shown with the answer: text.\n"
        '3. Run Python orders.drop(columns=["exported_at"], inplace=True) (run_python): Denied by ana\n'
        "   Reason: Keep the raw table as it is. Nothing ran.\n"
        '4. Run Python weekly = orders_clean.groupby("week") (run_python): Failed, KeyError, approved by ana\n'
        "5. Write reports/weekly.md (write_file): Done, edited and approved by ana\n"
        "   The call was edited before it was approved.\n\n"
        "gpt-5.2 · asked before acting"
    )


def test_a_replays_record_says_first_how_many_calls_a_recording_approved() -> None:
    assert RECORDED["by"] == RECORDING
    recorded = {"by": "script", "decided_by": RECORDING}
    one, two, denied, by_code, asked = five_calls()
    calls = [
        one.model_copy(update=recorded),
        two.model_copy(update=recorded | {"state": "success"}),
        denied.model_copy(update=recorded | {"state": "denied"}),
        by_code.model_copy(update={"by": "script", "decided_by": None}),
        asked.model_copy(update={"by": "user", "decided_by": RECORDING}),
    ]
    run = a_run(recorded=True, model="replay:sum.jsonl")
    for content in render_record(run, [says("", *calls)], calls).values():
        line = re.sub("<[^>]+>", "", content)
        assert "\nA recording approved 2 calls · Recorded answers of sum.jsonl" in line
    assert "A recording approved 1 call · " in render_record(run, [says("", calls[0])], calls[:1])["text/plain"]
    assert "A recording approved" not in render_record(run, [says("", calls[2])], calls[2:])["text/plain"]


def failed(message: str) -> dict[str, Any]:
    return {"status": "error", "error": ErrorView(code="LLM_ERROR", message=message)}


RULE = RuleView(rule_id="r", scope="project", tool_name="read_file", text="allow read_file")


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (failed("gpt-5.2 returned 429."), "The model did not answer. gpt-5.2 returned 429."),
        (failed(f"{RECORDING_CHANGED}: sum.jsonl:4 answers."), f"\n{RECORDING_CHANGED}: sum.jsonl:4"),
        ({"status": "cancelled"}, "Agent run: stopped.\n"),
        ({"policy": PolicyView(mode="allow", rules=[RULE])}, "acted without asking, 1 always-allow rule"),
        ({"continues": 2}, "continued from cell [2]"),
        ({"mentions": ["@sales", "@[3]"]}, "read with the prompt: @sales, @[3]"),
    ],
)
def test_what_a_run_was_and_how_it_ended_has_its_word(run: dict[str, Any], words: str) -> None:
    assert words in bundle([], **run)["text/plain"]


def test_every_end_of_a_call_is_told_honestly() -> None:
    calls = [
        a_call(1, state="unknown", reason="The server restarted while this call was running."),
        a_call(2, state="cancelled", reason="Stopped by you."),
        a_call(3, state="invalid", by=None, arguments="{broken", result="path is missing."),
        a_call(4, state="superseded", by=None, reason="Replaced by a new message."),
        a_call(5, state="expired", by=None),
        a_call(6, state="denied", by="policy", reason="Nobody was there to ask."),
        a_call(7, by="script"),
    ]
    plain = bundle(calls)["text/plain"]
    assert "7 steps: 1 done, 1 denied, 1 cancelled, 1 not valid, 1 replaced, 1 expired, 1 outcome unknown\n" in plain
    assert "It may have finished, run in part, or not run at all." in plain
    assert "path is missing. The model was told." in plain
    assert "5. Run Python orders.head() (run_python): Expired\n   Nothing ran." in plain
    assert "Denied by policy\n   Reason: Nobody was there to ask. Nothing ran." in plain
    assert "7. Run Python orders.head() (run_python): Done, approved by a script\n" in plain


def test_a_huge_run_makes_a_bounded_record_in_linear_time() -> None:
    calls = [
        a_call(number, arguments={"code": "x = 1\n" * 2_000}, outputs=[printed("y" * 100 + "\n") for _ in range(50)])
        for number in range(500)
    ]
    pictures = [a_call(1000 + n, outputs=[displayed(image_png="A" * 1_900_000)]) for n in range(10)]
    shown = bounded(10, lambda: bundle([*calls, *pictures], "word " * 100_000))
    assert "Left out: this record is too long." in shown["text/html"]
    for kind, most in (("text/html", 12_000_000), ("text/markdown", 4_000_000), ("text/plain", 500_000)):
        assert len(shown[kind]) < most
    assert shown["text/html"].count("<summary>") == 511 + 42  # the last texts are folded


def test_a_summary_of_older_messages_stands_where_it_was_made_and_can_be_opened() -> None:
    one, two = a_call(1), a_call(2)
    summary = NoticeView(content="Summarised 42 messages", detail="They **looked** <b>twice</b>.", at="", steps=1)
    record = render_record(a_run(notices=[summary]), [says("", one), says("", two)], [one, two])
    html = record["text/html"]
    assert "<details><summary>Summarised 42 messages</summary>\n<p>They <strong>looked</strong>" in html
    assert "<b>" not in html
    first, second = (html.index(f"({call.tool_name})", at) for call, at in ((one, 0), (two, html.index("Summ"))))
    assert first < html.index("Summarised") < second
    assert "<summary>Summarised 42 messages</summary>\n\nThey **looked**" in record["text/markdown"]


def test_code_that_did_what_it_should_is_numbered_as_it_ran_so_that_it_can_become_cells() -> None:
    ran = [
        a_call(1, arguments={"code": "second"}, started_at="2026-11-20T14:02:50.000Z"),
        a_call(2, arguments={"code": "failed"}, started_at="2026-11-20T14:02:45.000Z", state="error"),
        a_call(3, arguments={"code": "first"}, started_at="2026-11-20T14:02:41.000Z"),
        a_call(4, arguments={"code": "denied"}, state="denied"),
        a_call(5, "run_shell", arguments={"command": "ls"}),
        a_call(6, arguments={"code": "long\n" * 50_000}, started_at="2026-11-20T14:02:59.000Z"),
    ]
    shown = render_record(a_run(), [says("", *ran)], ran)["text/html"]
    marked = re.findall(r'<code class="agent-code language-python(.*?)" style="[^"]*">(\w+)', shown)
    assert marked == [(" agent-cell-2", "second"), ("", "failed"), (" agent-cell-1", "first"), ("", "denied")]


def test_a_run_that_was_stopped_in_the_queue_says_that_it_never_began() -> None:
    notice = NoticeView(content="Stopped, because its cell was run again.", at="2026-11-20T14:05:00.000Z", steps=0)
    shown = render_record(a_run(status="cancelled", notices=[notice]), [], [], below_prompt=True)
    words = "It was stopped before it began: no model was asked, and nothing ran."
    assert f"<p>Stopped, because its cell was run again.</p>\n<p>{words}</p>\n" in shown["text/html"]
    assert f"Stopped, because its cell was run again.\n\n{words}\n" in shown["text/markdown"]
    assert f"{words}\n\ngpt-5.2 · asked" in shown["text/plain"]
    asked = render_record(a_run(status="cancelled"), [says("I look")], [])
    assert not any(words in text for text in asked.values())
