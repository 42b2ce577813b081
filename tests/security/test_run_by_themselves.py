"""The mode `edit` writes nothing that runs by itself, and Agent Kernel imports nothing from the notebook's folder."""

import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.models.recordings.format import load
from agent_kernel.models.resolver import DEMO
from agent_kernel.protocol.calls import Place
from agent_kernel.testing import FakeOpenAI, call, calls, say
from agent_kernel.tools.builtin.places import builtin_verdict
from agent_kernel.tools.builtin.run_by_themselves import why_it_decides, why_it_runs
from agent_kernel.tools.review.file_changes import file_card
from tests.server.client import Api, Kernel

SHADOWING = """
    PIL.py PIL/__init__.py pil.py PIL.pyw Pil.py PIL.PY scripts/PIL.py src/app/PIL/__init__.py
    numpy.py pandas/__init__.py matplotlib.py IPython/__init__.py traitlets.py zmq.py tornado/__init__.py debugpy.py
    comm.py psutil.py pydantic.py orjson.py aiohttp/__init__.py agent_kernel.py agent_kernel/__init__.py
    agent_kernel_widgets.py json.py random.py tests/random.py code/__init__.py statistics.py antigravity.py this.py
    _strptime.py builtins.py pip.py setuptools.py site.py jupyter_new_thing.py jupyter_client.py
    argcomplete.py numexpr.py bottleneck/__init__.py pytz.py colorama.py org/__init__.py java.py cupy.py uvloop.py
"""
STARTS = """
    sitecustomize.py sitecustomize/__init__.py sitecustomize.pyc sitecustomize.so usercustomize.py SiteCustomize.py
    sitecustomize.cpython-312-x86_64-linux-gnu.so sitecustomize.cp312-win_amd64.pyd usercustomize/__init__.py
    usercustomize/a.txt lib/usercustomize.pyo sitecustomize sitecustomize.py. sitecustomize.py::$DATA
    x.pth a/b.PTH python312._pth ipykernel_launcher.py ipykernel/__init__.py ipykernel.py IPyKernel_launcher.py
    ipykernel.so ipykernel_launcher/__main__.py jupyter_server_config.py jupyter_notebook_config.json ipython_config.py
    profile_default/startup/a.py nbgrader_config.py share/kernels/python3/kernel.json voila.json
    conftest.py tests/conftest.py CONFTEST.py conftest/__init__.py conftest.so
"""
ENVIRONMENTS = """
    condaenv/lib/python3.12/site-packages/x.pth condaenv/lib/python3.12/site-packages/x.txt env/Lib/site-packages/a.py
    usr/lib/python3/dist-packages/a.py condaenv/conda-meta/history new/pyvenv.cfg env/bin/activate env/bin/activate.fish
    env/bin/python env/bin/python3.12 env/Scripts/activate.bat node_modules/a/index.js __pypackages__/3.12/lib/a.py
    renv/activate.R x.dist-info/entry_points.txt x.egg-info/entry_points.txt x.egg-link __pycache__/notes.txt
    lib/python3.12/this.txt a.so a.pyd a.dll a.dylib lib.so.1 a.pyc a.abi3.so
"""
GIT = """
    bare.git/hooks/post-commit bare.git/config bare.git/HEAD Bare.GIT/config copy/HEAD copy/head githooks/pre-commit
    hooks/post-checkout hooks/commit-msg hooks/pre-push hooks/fsmonitor-watchman a.git/info/attributes x/commondir
    submodules/a.git/modules/b/config
"""
TOOLS = """
    Makefile makefile GNUmakefile MAKEFILE src/Makefile rules.mk noxfile.py tasks.json .vscode/tasks.json .idea/a.xml
    .envrc .pre-commit-config.yaml tox.ini setup.py setup.cfg pyproject.toml package.json justfile Rakefile Dockerfile
    Dockerfile.dev docker-compose.yml compose.yaml Jenkinsfile Vagrantfile Snakefile dodo.py fabfile.py tasks.py
    docs/conf.py pytest.ini mypy.ini pylintrc matplotlibrc a.code-workspace CMakeLists.txt build.rs flake.nix mise.toml
    lefthook.yml mkdocs.yml vite.config.js webpack.config.cjs gulpfile.js git.exe python.bat notes.desktop MAKEFI~1
    cargo.toml latexmkrc a.IPYNB a.ipynb. a.ipynb::$DATA
"""
ODD = ("a\nb.csv", "a\tb.csv", "a\rb.csv", "a\r\nb.csv", "a\x07.csv", "a\x7f.csv", "a\x85.csv", "d\n/x.csv", "a\x1b[0m")
WRITTEN = [*f"{SHADOWING}{STARTS}{ENVIRONMENTS}{GIT}{TOOLS}".split(), *ODD]
ORDINARY = """
    analysis.py notes.md data/rows.csv new/folder/a.txt my_module.py mypackage/__init__.py mypackage/cleaning.py
    code/analysis.py json/rows.json html/index.html report.html config.yaml settings.json figures/plot.svg test_rows.py
    random.csv numpy.md pandas.txt head.csv update.md pre-processing.md profile_report.html python/notes.md hooks.py
    activate-users.md sitecustomise.md git/notes.md objects/a.csv requirements.txt dockerfile-notes.md a.pth.md
    übersicht.md 数据/表.csv data.jsonl results.json
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


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_a_name_is_compared_in_every_form_of_unicode(root: Path, form: Any) -> None:
    assert not is_unasked(root, unicodedata.normalize(form, "\ufb01le/\uff2dakefile"))


@pytest.mark.parametrize(
    "place", [Place("/a", "x/y/a.py"), Place("", "a.py"), Place("/w/a\0/b.py", "b.py"), Place("/w/b.py", "c.py")]
)
def test_a_place_that_a_kernel_makes_up_is_asked_about(place: Place) -> None:
    assert why_it_runs(place)


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


ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta/history", "bin/activate", "Scripts/activate.bat")


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
    f"{HEADER}\n",
    f"  {HEADER}\n{{}}\n",
    f"\n\n{HEADER}",
    '{"version": 2, "kind": "recording"}',
    '{"\\u006bind": "re\\u0063ording"}',
    '{"kind": "other", "kind": "recording"}',
    f"{HEADER}{' ' * 9_000_000}x",
    f'{{"kind":"recording","n":{"9" * 5_000}}}',
    f"{HEADER}\r\n",
    f'{{"a": {"[" * 100_000}',
    f"{HEADER}\nnot JSON",
]


@pytest.mark.parametrize("content", RECORDINGS, ids=range(len(RECORDINGS)))
@pytest.mark.parametrize("path", ["a.jsonl", "replay"])
def test_the_mode_edit_asks_about_a_recording_of_any_name(root: Path, path: str, content: str) -> None:
    assert not is_unasked(root, path, content)


@pytest.mark.parametrize(
    "content", ["{}", '{"a": 1}\n{"b": 2}\n', "recording\n", '["conversations"]', '{"kind": "row"}', "{broken", "", "{"]
)
def test_the_mode_edit_writes_other_data_unasked(root: Path, content: str) -> None:
    assert is_unasked(root, "data.jsonl", content)


def test_all_that_plays_counts_as_a_recording() -> None:
    for path in (DEMO, *(Path(__file__).parents[2] / "notebooks" / "recordings").glob("*.jsonl")):
        assert load(path)
        assert why_it_decides(path.read_text(encoding="utf-8")), path


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


async def test_two_calls_of_one_step_make_no_recording_unasked(
    api: Api, kernel: Kernel, model: FakeOpenAI, root: Path
) -> None:
    """Each is judged again when it starts, whichever starts first."""
    await kernel.run(f"import os\nos.chdir({str(root)!r})")
    await kernel.run("%load_ext agent_kernel")
    model.add(
        calls(
            call("write_file", path="a.txt", content='{"kind":"a"}'),
            call("edit_file", path="a.txt", old_text='"a"', new_text='"recording"'),
        ),
        say("Done."),
    )
    ended = await api.ended(await api.begin(kernel, policy="edit"))
    first, second = (one["state"] for one in ended["tool_calls"])
    assert (first, second) in [("success", "denied"), ("success", "error")]  # an error, where there is no file yet
    assert (root / "a.txt").read_text() == '{"kind":"a"}'
