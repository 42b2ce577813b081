"""What a shell command shows, and that nothing of it is left running when it is stopped."""

import os
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


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except FileNotFoundError:
        return True


def test_output_arrives_live_and_the_exit_code_is_told(tmp_path: Path) -> None:
    pieces: list[str] = []
    text = run_shell(tmp_path, "pwd; echo é >&2; exit 3", emit=pieces.append)
    assert text == f"{tmp_path}\né\nExit code: 3"
    assert "".join(pieces) == f"{tmp_path}\né\n"


def test_a_silent_command_tells_its_exit_code(tmp_path: Path) -> None:
    assert run_shell(tmp_path, "true", emit=lambda _: None) == "Exit code: 0"
    assert run_shell(tmp_path, "kill -9 $$", emit=lambda _: None) == "Stopped by SIGKILL"


def test_a_command_past_its_time_is_stopped_with_its_children(tmp_path: Path) -> None:
    command = f"echo started; sleep 60 & echo $! > {tmp_path}/pid; wait"
    with pytest.raises(ToolFailed, match=r"started\n.*Stopped after 2 s"):
        run_shell(tmp_path, command, timeout=2, emit=lambda _: None)
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: is_gone(pid))


def test_an_interrupt_stops_the_command_and_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    reading = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        assert reading.wait(30)
        signal.pthread_kill(main, signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    command = f"sleep 60 & echo $! > {pid_file}; echo begun; wait"
    try:
        with pytest.raises(KeyboardInterrupt):
            run_shell(tmp_path, command, emit=lambda _: reading.set())
    finally:
        helper.join()
    pid = int(pid_file.read_text())
    wait_for(lambda: is_gone(pid))


def test_an_interrupt_while_the_command_starts_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has begun, and whoever starts it does not know its process yet."""
    pid_file = tmp_path / "pid"
    start = subprocess.Popen._execute_child  # type: ignore[attr-defined]

    def interrupted(*arguments: object) -> None:
        start(*arguments)
        wait_for(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "_execute_child", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_shell(tmp_path, f"sleep 60 & echo $! > {pid_file}; wait", emit=lambda _: None)
    monkeypatch.undo()
    pid = int(pid_file.read_text())
    wait_for(lambda: is_gone(pid))


def test_a_process_left_in_the_background_does_not_hold_the_call(tmp_path: Path) -> None:
    started = time.monotonic()
    text = run_shell(tmp_path, "sleep 30 & echo $!", emit=lambda _: None)
    assert time.monotonic() - started < 20
    pid, code = text.splitlines()
    assert code == "Exit code: 0"
    os.kill(int(pid), signal.SIGKILL)
