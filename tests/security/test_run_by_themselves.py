"""The mode `edit` writes nothing that runs by itself, and Agent Kernel imports nothing from the notebook's folder."""

import sys
from pathlib import Path

import pytest

from agent_kernel.testing import FakeOpenAI, call, calls, say
from agent_kernel.tools.builtin.places import builtin_verdict
from agent_kernel.tools.review.file_changes import file_card
from tests.server.client import Api, Kernel

SHADOWING = """
    PIL.py PIL.pyw Pil.py PIL.PY src/app/PIL/__init__.py pandas/__init__.py IPython/__init__.py zmq.py agent_kernel.py
    json.py tests/random.py code/__init__.py builtins.py pip.py jupyter_new_thing.py numexpr.py org/__init__.py
"""
STARTS = """
    sitecustomize.py SiteCustomize.py sitecustomize.cpython-312-x86_64-linux-gnu.so usercustomize/__init__.py
    usercustomize/a.txt sitecustomize sitecustomize.py. sitecustomize.py::$DATA x.pth a/b.PTH ipykernel_launcher.py
    jupyter_server_config.py ipython_config.py profile_default/startup/a.py share/kernels/python3/kernel.json
    tests/conftest.py CONFTEST.py
"""
ENVIRONMENTS = """
    condaenv/lib/python3.12/site-packages/x.txt condaenv/conda-meta/history new/pyvenv.cfg env/bin/activate
    env/Scripts/activate.bat node_modules/a/index.js x.dist-info/entry_points.txt __pycache__/notes.txt a.so lib.so.1
"""
GIT = """
    bare.git/config Bare.GIT/config copy/head githooks/pre-commit hooks/post-checkout x/commondir
"""
TOOLS = """
    MAKEFILE src/Makefile noxfile.py .vscode/tasks.json .pre-commit-config.yaml setup.py pyproject.toml package.json
    Dockerfile.dev docs/conf.py matplotlibrc vite.config.js git.exe notes.desktop MAKEFI~1 a.IPYNB a.ipynb.
    \ufb01le/\uff2dakefile
"""
ODD = ("a\nb.csv", "a\r\nb.csv", "a\x07.csv", "d\n/x.csv")
WRITTEN = [*f"{SHADOWING}{STARTS}{ENVIRONMENTS}{GIT}{TOOLS}".split(), *ODD]
ORDINARY = """
    analysis.py data/rows.csv new/folder/a.txt mypackage/__init__.py code/analysis.py json/rows.json config.yaml
    random.csv head.csv update.md python/notes.md git/notes.md requirements.txt a.pth.md 数据/表.csv data.jsonl
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def is_unasked(root: Path, path: str, content: str = "x\n") -> bool:
    return builtin_verdict("write_file", {"path": path, "content": content}, root).may_edit


@pytest.mark.parametrize("path", WRITTEN)
def test_the_mode_edit_asks_about_what_runs_by_itself(root: Path, path: str) -> None:
    assert not is_unasked(root, path)


@pytest.mark.parametrize("path", ORDINARY.split())
def test_the_mode_edit_writes_ordinary_files_unasked(root: Path, path: str) -> None:
    assert is_unasked(root, path)


def test_a_card_says_why(root: Path) -> None:
    for path, why in (
        ("PIL.py", "It takes the place of the installed module pil"),
        ("conftest.py", "pytest runs it"),
        ("Makefile", "A tool runs what it says"),
        ("bare.git/config", "Git runs what it says"),
        ("x.pth", "Python runs it whenever it starts"),
    ):
        card = file_card(root, "write_file", {"path": path, "content": "x"})
        assert card is not None
        assert [(one.title, one.detail) for one in card.warnings] == [
            ("Runs by itself:", f"{why}. The mode edit asks, too.")
        ]
    ordinary = file_card(root, "write_file", {"path": "notes.md", "content": "x"})
    assert ordinary is not None
    assert ordinary.warnings == []


@pytest.mark.parametrize(
    ("marks", "written"),
    [
        *(
            ((f"tools/{mark}",), "tools/share/notes.md")
            for mark in ("pyvenv.cfg", "conda-meta/history", "bin/activate")
        ),
        (("tools/Scripts/activate.bat",), "tools/share/notes.md"),
        *((("copy/HEAD", f"copy/{mark}"), "copy/config") for mark in ("objects/", "refs/", "commondir")),
        (("HEAD", "refs/"), "notes.md"),
    ],
)
def test_an_environment_and_a_git_directory_are_known_by_what_is_in_them(
    root: Path, marks: tuple[str, ...], written: str
) -> None:
    assert is_unasked(root, written)
    for mark in marks:
        place = root / mark
        (place if mark.endswith("/") else place.parent).mkdir(parents=True, exist_ok=True)
        if not mark.endswith("/"):
            place.touch()
    assert not is_unasked(root, written)


def test_modules_are_found_without_looking_into_the_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user has there is the user's, wherever the folder is on `sys.path`."""
    (root / "mine.py").touch()
    outside = root.parent / "outside"
    for folder in (root / "src", outside / "shared"):
        folder.mkdir(parents=True)
    for name in ("src/other.py", "../outside/theirs.py", "../outside/built.cpython-312-x86_64-linux-gnu.so"):
        (root / name).touch()
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "path", ["", str(root), str(root / "src"), str(outside), *sys.path])
    paths = ["mine.py", "other.py", "shared/more.csv", "theirs.py", "built.py", "shared/more.py"]
    assert [path for path in paths if is_unasked(root, path)] == paths[:3]


HEADER = '{"kind":"recording","version":2,"model":"x"}'
RECORDINGS = [
    HEADER,
    f"  {HEADER}\n{{}}\n",
    '{"\\u006bind": "re\\u0063ording"}',
    '{"kind": "other", "kind": "recording"}',
    f'{{"kind":"recording","n":{"9" * 5_000}}}',
    f'{{"a": {"[" * 100_000}',
]


@pytest.mark.parametrize("content", RECORDINGS, ids=range(len(RECORDINGS)))
@pytest.mark.parametrize("path", ["a.jsonl", "replay"])
def test_the_mode_edit_asks_about_a_recording_of_any_name(root: Path, path: str, content: str) -> None:
    assert not is_unasked(root, path, content)


@pytest.mark.parametrize(
    ("before", "old", "new"),
    [
        ('{"kind":"a"}\n', '"a"', '"recording"'),  # becomes one
        (f"{HEADER}\n", "x", "y"),  # is one
        (f"{HEADER}\n", "recording", "other"),  # was one
        (f"note\n{HEADER}\n", "note\n", ""),
    ],
)
def test_the_mode_edit_asks_about_edits_of_recordings(root: Path, before: str, old: str, new: str) -> None:
    (root / "a.txt").write_text(before)
    arguments = {"path": "a.txt", "old_text": old, "new_text": new}
    assert not builtin_verdict("edit_file", arguments, root).may_edit
    card = file_card(root, "edit_file", arguments)
    assert card is not None
    assert "recording" in card.warnings[0].detail


async def test_a_run_in_the_mode_edit_writes_notes_and_asks_about_what_runs_by_itself(
    api: Api, kernel: Kernel, model: FakeOpenAI, root: Path
) -> None:
    await kernel.run(f"import os\nos.chdir({str(root)!r})")
    files = {"notes.md": "x", "PIL.py": "x", "talk.txt": HEADER}
    model.add(calls(*(call("write_file", path=path, content=text) for path, text in files.items())), say("Done."))
    conversation_id = await api.begin(kernel, policy="edit")
    for path in ("PIL.py", "talk.txt"):
        waiting = await api.decide(approved=False)
        assert path in waiting["tool_input"]
        assert [one["title"] for one in waiting["warnings"]] == ["Writes files:", "Runs by itself:"]
    ended = await api.ended(conversation_id)
    assert [one["state"] for one in ended["tool_calls"]] == ["success", "denied", "denied"]
    assert [path for path in files if (root / path).exists()] == ["notes.md"]
