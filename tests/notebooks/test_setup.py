"""`agent-kernel setup`: `%%agent` in each kernel, with real kernels."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_kernel import cli
from tests.notebooks.conftest import SERVED
from tests.notebooks.kernel import TestKernel


@pytest.fixture
def ipython_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    return tmp_path / "ipython"


def startup_file(ipython_dir: Path) -> Path:
    return ipython_dir / "profile_default" / "startup" / "50-agent-kernel.py"


LOADED = "import sys; print('agent_kernel' in sys.modules)"


def test_a_new_kernel_knows_the_magic_and_has_imported_nothing_for_it(
    ipython_dir: Path, start_kernel: Callable[..., TestKernel]
) -> None:
    assert cli.main(["setup", "--yes"]) == 0
    assert start_kernel().run(LOADED).streams() == "False\n"
    said = start_kernel().run("%%agent --policy deny --model demo\nWhat is 2 + 2?").streams()
    assert "not found" not in said
    assert "No agent has run in this kernel yet." in start_kernel().run("%agent").streams()


def test_undo_takes_it_back_and_either_done_twice_changes_nothing(
    ipython_dir: Path, capsys: pytest.CaptureFixture[str], start_kernel: Callable[..., TestKernel]
) -> None:
    path = startup_file(ipython_dir)
    for _ in range(2):
        assert cli.main(["setup", "--yes"]) == 0
    said = capsys.readouterr().out
    assert f"Write {path}:" in said
    assert f"Nothing to do: {path} is there already." in said
    for _ in range(2):
        assert cli.main(["setup", "--undo", "--yes"]) == 0
    assert not path.exists()
    assert "Cell magic `%%agent` not found" in start_kernel().run("%%agent\nGo").streams()


def test_a_file_of_the_users_own_is_left_as_it_is(ipython_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = startup_file(ipython_dir)
    path.parent.mkdir(parents=True)
    path.write_text("mine = 1\n")
    assert cli.main(["setup", "--undo", "--yes"]) == 1
    assert "was left as it is" in capsys.readouterr().err
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


def test_the_first_cell_of_a_served_kernel_announces_its_run_and_run_again_replaces_it(
    start_kernel: Callable[..., TestKernel],
) -> None:
    kernel = start_kernel(**SERVED)
    kernel.run("get_ipython().magics_manager.register_lazy('agent', 'agent_kernel')")
    for _ in range(2):
        kernel.result(kernel.send_cell("a", "%%agent\nGo"))
    first, second = kernel.announced(2)
    assert kernel.declared(first)["stop"] == "cell_run_again"
    assert kernel.declared(second)["replaces"] == [first]
