"""What a refusal says is found in whatever shape services, gateways and proxies give it."""

import json
from typing import Any

import pytest

from agent_kernel.models.refusals import MOST_CHARACTERS, Refusal, page_text, read_refusal
from agent_kernel.testing.wire.reply import Reply
from tests.core.models.model_fixtures import error_of

NGINX = (
    b"<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>\r\n"
    b"<center><h1>413 Request Entity Too Large</h1></center>\r\n<hr>"
    b"<center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n"
)
CLOUDFLARE = b"""<!DOCTYPE html>
<!--[if lt IE 7]> <html class="no-js ie6 oldie"> <![endif]-->
<head><title>api.example.org | 502: Bad gateway</title><style>p {color: red}</style><script>if (1 < 2) {}</script>
</head><body><h1>Bad gateway</h1><p>The web server reported a bad&nbsp;gateway &amp; left.</p></body></html>"""
SAID = "Tools must have a name."
REAL = {"error": {"message": SAID, "type": "invalid_request_error", "param": "tools", "code": None}}


def openrouter(raw: Any) -> dict[str, Any]:
    metadata = {"raw": raw, "provider_name": "OpenAI", "is_byok": False}
    return {"error": {"message": "Provider returned error", "code": 400, "metadata": metadata}, "user_id": "user_1"}


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (REAL, SAID),
        (openrouter(json.dumps(REAL)), f"Provider returned error: {SAID}"),
        (openrouter(f"event: error\ndata: {json.dumps(REAL)}\n\n"), f"Provider returned error: {SAID}"),
        (openrouter(NGINX.decode()), "Provider returned error: 413 Request Entity Too Large: nginx/1.22.1"),
        ({"error": {"message": "Upstream failed", **REAL}}, f"Upstream failed: {SAID}"),
        ([REAL], SAID),
        ({"message": json.dumps(REAL), "error_code": "BAD_REQUEST"}, SAID),
        ({"error": SAID}, SAID),
        ({"error": "Bad Request", "message": SAID}, SAID),
        ({"success": False, "errors": [{"code": 7, "message": SAID}], "messages": []}, SAID),
        (
            {"detail": [{"loc": ["body", "tools", 0], "msg": "Field required", "type": "missing"}, {"msg": SAID}]},
            f"body.tools.0: Field required; {SAID}",
        ),
        ({"object": "error", "message": {"detail": [{"loc": ["body"], "msg": SAID}]}}, f"body: {SAID}"),
        ({"status": "failure"}, '{"status":"failure"}'),
    ],
)
def test_a_services_own_words_are_found_however_they_are_nested(body: Any, detail: str) -> None:
    said = read_refusal(json.dumps(body).encode())
    assert said.detail == detail
    assert said.structured
    assert read_refusal(body) == said


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (NGINX, "413 Request Entity Too Large: nginx/1.22.1"),
        (CLOUDFLARE, "api.example.org | 502: Bad gateway: The web server reported a bad gateway & left."),
        (b"\xef\xbb\xbf\n <HTML><BODY>Sign in<BR>here</BODY></HTML>", "Sign in"),
        (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>No.</Message></Error>", "AccessDenied"),
        (b"upstream connect error", "upstream connect error"),
        (b"", ""),
    ],
)
def test_of_a_page_its_title_and_one_line_are_read_and_nobody_takes_it_for_the_services_own_error(
    body: bytes, detail: str
) -> None:
    assert read_refusal(body) == Refusal(detail)


@pytest.mark.parametrize(
    "body", [b"<!--" * 250_000, b"<html>" + b"<a " * 300_000, b"[" * 10**6, b'{"message":' * 10**5, b"data: " * 10**5]
)
def test_a_megabyte_that_is_made_to_be_slow_is_read_in_part(body: bytes) -> None:
    assert len(read_refusal(body).detail) <= MOST_CHARACTERS
    assert len(page_text(body.decode())) <= MOST_CHARACTERS


async def test_a_page_is_not_quoted_raw() -> None:
    error = str(await error_of(Reply(CLOUDFLARE, status=502, content_type="text/html", times=4)))
    assert "failed after 4 tries (502): api.example.org | 502: Bad gateway: The web server reported" in error
    assert "<" not in error
