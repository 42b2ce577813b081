"""What a shell command shows, and that nothing of it is left running when it is stopped."""

import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_kernel.errors import ToolFailed
from agent_kernel.tools.builtin.shell import run_shell


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_gone(pid_file: Path) -> bool:
    try:
        return Path(f"/proc/{pid_file.read_text().strip()}/stat").read_text().split()[2] == "Z"
    except FileNotFoundError:
        return True


@pytest.fixture
def pid_file(tmp_path: Path) -> Path:
    return tmp_path / "pid"


def test_output_arrives_live_and_the_exit_code_is_told(tmp_path: Path) -> None:
    pieces: list[str] = []
    text = run_shell(tmp_path, "pwd; echo é >&2; exit 3", emit=pieces.append)
    assert text == f"{tmp_path}\né\nExit code: 3"
    assert "".join(pieces) == f"{tmp_path}\né\n"


def test_a_command_past_its_time_is_stopped_with_its_children(tmp_path: Path, pid_file: Path) -> None:
    with pytest.raises(ToolFailed, match=r"started\n.*Stopped after 2 s"):
        run_shell(tmp_path, f"echo started; {child(pid_file)}", timeout=2, emit=lambda _: None)
    wait_for(lambda: is_gone(pid_file))


def child(pid_file: Path, then: str = "wait") -> str:
    return f"sleep 60 & echo $! > {pid_file}; {then}"


def test_an_interrupt_stops_the_command_and_its_children(tmp_path: Path, pid_file: Path) -> None:
    reading, main = threading.Event(), threading.main_thread().ident
    helper = threading.Thread(target=lambda: reading.wait(30) and signal.pthread_kill(main, signal.SIGINT))
    helper.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_shell(tmp_path, child(pid_file, "echo begun; wait"), emit=lambda _: reading.set())
    finally:
        helper.join()
    wait_for(lambda: is_gone(pid_file))


def test_an_interrupt_while_the_command_starts_stops_it(
    tmp_path: Path, pid_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has begun, and whoever starts it does not know its process yet."""
    start = subprocess.Popen._execute_child  # type: ignore[attr-defined]

    def interrupted(*arguments: object) -> None:
        start(*arguments)
        wait_for(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "_execute_child", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_shell(tmp_path, child(pid_file), emit=lambda _: None)
    monkeypatch.undo()
    wait_for(lambda: is_gone(pid_file))
