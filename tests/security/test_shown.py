"""What is shown is inert, wherever a hostile word comes in: a file's name, a path, a table, a drawing."""

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
    "x\u202egnp.exe",
]
TABLES = [
    "<table onclick=alert(1)><tr><td onmouseover=alert(1)>1</td></tr></table>",
    "<table><tr><td style='background:url(https://evil.example/?q=1)'>1</td></tr></table>",
    "<table background='https://evil.example/x.png'><tr><th><script>alert(1)</script></th></tr></table>",
    "<table class='dataframe jp-Button' id='approve' data-agent-record='x'><tr><td>1</td></tr></table>",
    "<table><tr><td><img src='https://evil.example/?leak' srcset='x 1x'></td></tr></table>",
]
DRAWINGS = [
    "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script><circle r='1'/></svg>",
    "<svg onload='alert(1)'><animate onbegin='alert(1)' attributeName='x'/></svg>",
    "<svg><foreignObject><iframe src='javascript:alert(1)'/></foreignObject></svg>",
    "<svg><use href='https://evil.example/x.svg#a'/><image href='https://evil.example/x.png'/></svg>",
    "<?xml version='1.0'?><!DOCTYPE svg [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><svg>&x;</svg>",
]


@pytest.mark.parametrize("word", [*NAMES, *TABLES, *DRAWINGS])
def test_names_tables_and_drawings_may_hold_anything(word: str) -> None:
    edited = {"path": word, "content": word, "old_text": word, "new_text": word}
    table = f"# x\n\n{word}\n\n| a |\n| --- |\n| {word} |"
    shown = [
        displayed(text_html=word, text_plain="1"),
        displayed(text_markdown=table),
        displayed(**{"image_svg+xml": word}),
        displayed(application_javascript="alert(1)", text_html=word),
    ]
    calls = [
        a_call(1, "write_file", {"path": word, "content": word}, outputs=[printed(word)], result=f"Created {word}."),
        a_call(2, "edit_file", edited, preview=Preview(kind="diff", text=f"--- {word}\n+++ {word}\n-{word}\n")),
        a_call(3, "read_file", {"path": word}, state="error", result=f"There is no file {word!r}."),
        a_call(4, "run_shell", {"command": f"cat '{word}'"}, output_file=f"/tmp/{word}", truncated=True),
        a_call(5, outputs=shown),
    ]
    record = render_record(a_run(), [says("Done.", *calls)], calls)
    markup = MarkdownIt("commonmark", {"html": True}).enable("table").render(record["text/markdown"])
    for text in (record["text/html"], markup):
        assert_harmless(text)
        assert "\u202e" not in text
