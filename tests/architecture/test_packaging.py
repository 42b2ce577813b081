"""What a distribution holds, and when it refuses to be made."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUNDLE = "widgets/agent_kernel_widgets/static/index.js"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The tracked files as they are now, without a built front end."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / "project" / name)
    return tmp_path / "project"


@pytest.fixture
def built(checkout: Path) -> Path:
    (checkout / BUNDLE).parent.mkdir(parents=True)
    (checkout / BUNDLE).write_text("export default {};\n")
    return checkout


def build(project: Path, target: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target],
        cwd=project,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def made(project: Path, pattern: str) -> Path:
    (file,) = (project / "dist").glob(pattern)
    return file


def test_a_wheel_without_the_front_end_refuses_to_build(checkout: Path) -> None:
    refused = build(checkout, "wheel", HATCH_JUPYTER_BUILDER_SKIP_NPM="1")
    assert refused.returncode != 0
    assert BUNDLE in refused.stderr
    assert not list(checkout.glob("dist/*.whl"))


def test_a_wheel_of_a_source_distribution_needs_no_node_and_holds_what_a_user_installs(
    built: Path, tmp_path: Path
) -> None:
    example = built / "examples" / "ai-sdk"
    for folder in ("node_modules", "dist", ".agent-kernel"):
        (example / folder).mkdir()
        (example / folder / "large").write_text("as after `make example`")
    assert build(built, "sdist").returncode == 0
    with tarfile.open(made(built, "*.tar.gz")) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert (unpacked / "examples" / "ai-sdk" / "package-lock.json").is_file()
    assert not list((unpacked / "examples").rglob("large"))
    assert (unpacked / "widgets" / "src").is_dir()
    without_node = str(Path(sys.executable).parent)
    assert shutil.which("npm", path=without_node) is None
    result = build(unpacked, "wheel", PATH=without_node)
    assert result.returncode == 0, result.stderr
    names = zipfile.ZipFile(made(unpacked, "*.whl")).namelist()
    assert {name.partition("/")[0] for name in names if not name.startswith("agent_kernel-")} == {
        "agent_kernel",
        "agent_kernel_server",
        "agent_kernel_widgets",
    }
    data = "agent_kernel-0.1.0.data/data"
    notebooks = Path(__file__).parents[2] / "notebooks"
    kinds = ("*.ipynb", "README.md", "data/*.csv", "recordings/*.jsonl", "recordings/*/*.png")
    demo = [str(path.relative_to(notebooks)) for kind in kinds for path in notebooks.glob(kind)]
    assert len(demo) > 20
    assert {
        "agent_kernel/models/recordings/demo.jsonl",
        "agent_kernel_widgets/static/index.js",
        "agent_kernel_widgets/static/loader.js",
        f"{data}/etc/jupyter/jupyter_server_config.d/agent_kernel_server.json",
        *(f"{data}/share/agent-kernel/notebooks/{name}" for name in demo),
        *(f"{package}/py.typed" for package in ("agent_kernel", "agent_kernel_server", "agent_kernel_widgets")),
    } <= set(names)
    assert any(name.startswith("agent_kernel_widgets/static/parts/cards-") for name in names)
