"""The model's key goes to the address that the server's configuration gives, and is shown nowhere."""

import json
import logging
from pathlib import Path
from typing import Any

import nbformat
import pytest

from agent_kernel.cli import main
from agent_kernel.testing import FakeOpenAI, call, calls, say
from agent_kernel.testing.fake_openai import FAKE_KEY
from agent_kernel.testing.wire.reply import Reply, failure
from tests.security.conftest import Liar
from tests.server.client import Api, Kernel, OpenChannel
from tests.server.serving import Server

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("fresh")]
OTHER_KEY = "sk-ant-api03-" + "Zz9_-" * 19


async def test_a_kernel_chooses_neither_the_address_nor_who_gets_the_key(
    api: Api, liar: Liar, model: FakeOpenAI
) -> None:
    with FakeOpenAI() as attacker:
        await liar(f"%env OPENAI_BASE_URL={attacker.url}")
        await liar(f"%env ANTHROPIC_BASE_URL={attacker.url}")
        names = [None, attacker.url, f"{attacker.url}/m", f"openai/{attacker.url}", f"@{attacker.url}", "evil/m"]
        for number, name in enumerate(names):
            model.add(say("Here."))
            run_id, conversation_id = f"run_{number}", f"conv_{number}"
            await liar.announce(run_id, conversation_id, model=name, base_url=attacker.url, api_key_env="HOME")
            view = await api.ended(conversation_id)
            assert view["runs"][0]["status"] == "complete", name
        assert attacker.requests == []
    assert {request.headers["authorization"] for request in model.requests} == {f"Bearer {FAKE_KEY}"}


async def test_a_recording_is_read_from_the_servers_directory_only(api: Api, liar: Liar, server: Server) -> None:
    outside = server.root.parent / "outside.json"
    outside.write_text("the secret of the server's owner")
    (server.root / "link.json").symlink_to(outside)
    files = ["../outside.json", str(outside), "~/.ssh/id_rsa", "link.json", "/dev/zero"]
    for number, name in enumerate(f"replay:{file}" for file in files):
        await liar.announce(f"run_{number}", f"conv_{number}", model=name)
        view = await api.ended(f"conv_{number}")
        assert view["runs"][0]["status"] == "error", name
        assert "secret" not in json.dumps(view)
        status, answer = await api("POST", "conversations", body={"model": name})
        assert (status, answer["field"]) == (400, "model")


async def test_the_key_is_in_no_log_record_page_file_or_message(
    api: Api,
    client: OpenChannel,
    kernel: Kernel,
    model: FakeOpenAI,
    server: Server,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    said = f"Your key is {FAKE_KEY}, and your token {server.headers['Authorization'].split()[-1]}."
    one = call("run_python", call_id=f"call-{FAKE_KEY}", code=f"print('{FAKE_KEY}')")
    repeated = calls(one, call(f"tool-{FAKE_KEY}", key=FAKE_KEY), text=said, reasoning=said)
    with FakeOpenAI() as elsewhere:
        model.add(
            repeated,
            failure(401, f"Incorrect API key provided: {FAKE_KEY}. Authorization: Bearer {FAKE_KEY}"),
            Reply(status=307, headers={"location": f"{elsewhere.url}/chat/completions"}),
            say("Done."),
        )
        conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
        page = await client(conversation_id)
        await api.start_run(conversation_id)
        await api.decide()
        for _ in range(2):
            await page.until("complete")
            view = await api.ended(conversation_id)
            assert view["runs"][-1]["status"] == "error"
            await api.start_run(conversation_id)
        await page.until("complete")
        view = await api.ended(conversation_id)
        assert view["runs"][-1]["status"] == "complete"
        assert elsewhere.requests == []
    assert any(FAKE_KEY in request.headers["authorization"] for request in model.requests)
    assert not any(FAKE_KEY in json.dumps(request.body) for request in model.requests)
    assert "Your key is [API key], and your token [API key]." in json.dumps(view)
    shown = [json.dumps(page.frames), json.dumps(view), caplog.text, *capfd.readouterr()]
    for path in ("status", "tools", "conversations", "approvals"):
        shown.append(json.dumps((await api("GET", path))[1]))
    shown.append(await kernel.text("import agent_kernel; print(vars(agent_kernel))"))
    shown += [*written_below(server.data), *written_below(server.root)]
    for text in shown:
        assert FAKE_KEY not in text
        assert FAKE_KEY[:16] not in text


def written_below(folder: Path) -> list[str]:
    return [file.read_bytes().decode("latin-1") for file in folder.rglob("*") if file.is_file()]


def test_the_key_is_not_in_the_notebook_that_a_run_failed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "failing.ipynb"
    cells = [nbformat.v4.new_code_cell(source) for source in ("%load_ext agent_kernel", "%%agent\nGo.")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    with FakeOpenAI([failure(401, f"Incorrect API key provided: {FAKE_KEY}.")]) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        assert main(["run", str(path), "--timeout", "60"]) == 1
    assert "API key" in path.read_text()
    assert FAKE_KEY not in path.read_text()


class TestAServerThatHidesItsKeys:
    @pytest.fixture
    def extension_traits(self, model: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        for name in ("LAB_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
            monkeypatch.setenv(name, FAKE_KEY)
        return {"hide_keys": True, "endpoints": {"lab": {"base_url": model.url, "api_key_env": "LAB_KEY"}}}

    @pytest.mark.parametrize("name", [None, "lab/some-model"])
    async def test_uses_them_and_gives_no_kernel_one(
        self, api: Api, kernel: Kernel, model: FakeOpenAI, name: str | None
    ) -> None:
        model.add(say("Here."))
        conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id, model=name)
        await api.start_run(conversation_id)
        assert (await api.ended(conversation_id))["runs"][0]["status"] == "complete"
        assert model.requests[0].headers["authorization"] == f"Bearer {FAKE_KEY}"
        names = "[n for n in __import__('os').environ if n.startswith(('OPENAI_', 'LAB_', 'ANTHROPIC_'))]"
        assert await kernel.text(f"print({names})") == "['OPENAI_BASE_URL']\n"


class TestAServerWithSeveralKeys:
    @pytest.fixture
    def extension_traits(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        monkeypatch.setenv("LAB_KEY", OTHER_KEY)
        return {"endpoints": {"lab": {"base_url": "http://127.0.0.1:9/v1", "api_key_env": "LAB_KEY"}}}

    async def test_repeats_none_that_is_read_unasked_or_in_an_error(
        self,
        api: Api,
        client: OpenChannel,
        kernel: Kernel,
        model: FakeOpenAI,
        server: Server,
    ) -> None:
        token = server.headers["Authorization"].split()[-1]
        secrets = (FAKE_KEY, token, OTHER_KEY)
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(f"keys = {secrets!r}")])
        nbformat.write(notebook, server.root / "other.ipynb")
        (server.root / "settings.ini").write_text("\n".join(f"key = {secret}" for secret in secrets))
        await kernel.run(f"%cd -q {server.root}")
        await kernel.run(f"a, b, c = keys = {secrets!r}; keys")
        reads = [
            call("inspect_variables", call_id="a"),
            call("read_notebook", call_id="b", path="other.ipynb"),
            call("read_file", call_id="c", path="settings.ini"),
            call("search_files", call_id="d", query="key"),
        ]
        model.add(calls(*reads), failure(400, f"The keys {' '.join(secrets)} are no good, {OTHER_KEY!r}."))
        conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
        page = await client(conversation_id)
        await api.start_run(conversation_id)
        await page.until("complete")
        view = await api.ended(conversation_id)
        assert [one["state"] for one in view["tool_calls"]] == ["success"] * 4
        assert "[API key] [API key] [API key] are no good" in view["runs"][0]["error"]["message"]
        asked = [json.dumps(request.body) for request in model.requests]
        assert "[API key]" in asked[0], "the description of the notebook has its cells"
        assert all("[API key]" in one["result"] for one in view["tool_calls"])
        for text in (*asked, json.dumps(view), json.dumps(page.frames)):
            for secret in secrets:
                assert secret[:20] not in text
