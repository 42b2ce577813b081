"""`agent-kernel setup`: `%%agent` in each kernel, with real kernels."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_kernel import cli
from tests.notebooks.kernel import TestKernel


@pytest.fixture
def ipython_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    return tmp_path / "ipython"


def test_a_new_kernel_knows_the_magic_and_has_imported_nothing_for_it(
    ipython_dir: Path, start_kernel: Callable[..., TestKernel]
) -> None:
    assert cli.main(["setup", "--yes"]) == 0
    kernel = start_kernel()
    assert kernel.run("import sys; print('agent_kernel' in sys.modules)").streams() == "False\n"
    assert "No agent has run in this kernel yet." in kernel.run("%agent").streams()


def test_undo_takes_it_back_and_either_done_twice_changes_nothing(
    ipython_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ipython_dir / "profile_default" / "startup" / "50-agent-kernel.py"
    for _ in range(2):
        assert cli.main(["setup", "--yes"]) == 0
    said = capsys.readouterr().out
    assert f"Write {path}:" in said
    assert f"Nothing to do: {path} is there already." in said
    for _ in range(2):
        assert cli.main(["setup", "--undo", "--yes"]) == 0
    assert not path.exists()
    path.write_text("mine = 1\n")
    assert cli.main(["setup", "--yes"]) == cli.main(["setup", "--undo", "--yes"]) == 1
    assert path.read_text() == "mine = 1\n"


def test_a_kernel_starts_as_ever_where_the_package_is_gone(ipython_dir: Path, tmp_path: Path) -> None:
    assert cli.main(["setup", "--yes"]) == 0
    hidden = (
        "import sys; sys.modules['agent_kernel'] = None\n"
        "from IPython import start_ipython; start_ipython(['--quick', '-c', 'print(1 + 1)'])"
    )
    for code in (hidden, hidden.replace("'--quick', ", "")):
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
        assert ended.stdout.endswith("2\n")
        assert ended.stderr == ""
