"""What is shown is inert, wherever a hostile word comes in: a file's name, a path, a table, a drawing."""

from typing import Any

import pytest
from markdown_it import MarkdownIt

from agent_kernel.protocol.views import Preview
from agent_kernel.record import render_record
from tests.core.record.record_examples import a_call, a_run, displayed, printed, says
from tests.core.record.test_safety import assert_harmless

NAMES = [
    "<img src=x onerror=alert(1)>.csv",
    'report"><script>alert(1)</script>.md',
    "[click](javascript:alert(1)).ipynb",
    "`</code><svg/onload=alert(1)>`.py",
    "a\n\n<script>alert(1)</script>\n\n.txt",
    "data:text/html;base64,PHNjcmlwdD4=",
    "x\u202egnp.exe",
    "| a | <b onclick=alert(1)> |",
]
TABLES = [
    "<table onclick=alert(1)><tr><td onmouseover=alert(1)>1</td></tr></table>",
    "<table><tr><td><a href='javascript:alert(1)'>1</a></td></tr></table>",
    "<table><tr><td style='background:url(https://evil.example/?q=1)'>1</td></tr></table>",
    "<table background='https://evil.example/x.png'><tr><th><script>alert(1)</script></th></tr></table>",
    "<table class='dataframe jp-Button' id='approve' data-agent-record='x'><tr><td>1</td></tr></table>",
    "<table><tr><td></table></details><form action=/agent-kernel/api><button>Approve</button>",
    "<style>@import 'https://evil.example/x.css'</style><table><tr><td>1</td></tr></table>",
    "<table><tr><td><img src='https://evil.example/?leak' srcset='x 1x'></td></tr></table>",
]
DRAWINGS = [
    "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script><circle r='1'/></svg>",
    "<svg onload='alert(1)'><animate onbegin='alert(1)' attributeName='x'/></svg>",
    "<svg><foreignObject><iframe src='javascript:alert(1)'/></foreignObject></svg>",
    "<svg><a href='javascript:alert(1)'><text>x</text></a></svg>",
    "<svg><use href='https://evil.example/x.svg#a'/><image href='https://evil.example/x.png'/></svg>",
    "<?xml version='1.0'?><!DOCTYPE svg [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><svg>&x;</svg>",
]


def assert_inert(*calls: Any) -> None:
    shown = render_record(a_run(), [says("Done.", *calls)], list(calls))
    assert_harmless(shown["text/html"])
    markup = MarkdownIt("commonmark", {"html": True}).enable("table").render(shown["text/markdown"])
    assert_harmless(markup)
    for text in (shown["text/html"], markup):
        assert "\u202e" not in text


@pytest.mark.parametrize("name", NAMES)
def test_a_file_may_be_named_anything(name: str) -> None:
    arguments = {"path": name, "content": name, "old_text": name, "new_text": name}
    assert_inert(
        a_call(1, "write_file", {"path": name, "content": name}, outputs=[printed(name)], result=f"Created {name}."),
        a_call(2, "edit_file", arguments, preview=Preview(kind="diff", text=f"--- {name}\n+++ {name}\n-{name}\n")),
        a_call(3, "read_file", {"path": name}, state="error", result=f"There is no file {name!r}."),
        a_call(4, "run_shell", {"command": f"cat '{name}'"}, output_file=f"/tmp/{name}", truncated=True),
    )


@pytest.mark.parametrize("markup", [*TABLES, *DRAWINGS])
def test_a_table_or_a_drawing_may_hold_anything(markup: str) -> None:
    assert_inert(
        a_call(
            1,
            outputs=[
                displayed(text_html=markup, text_plain="1"),
                displayed(text_markdown=f"# x\n\n{markup}\n\n| a |\n| --- |\n| {markup} |"),
                displayed(**{"image_svg+xml": markup}),
                displayed(application_javascript="alert(1)", text_html=markup),
            ],
        )
    )
