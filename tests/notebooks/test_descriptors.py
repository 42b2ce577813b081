"""What a call's child processes print is the call's, however busy the machine; what they print later is not awaited."""

import ast
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="descriptors are not captured on Windows")

PROGRAM = """
import os, subprocess, sys, time
from agent_kernel.notebook.execution.descriptors import captured_descriptors

texts, child = [], None
def write(name, text):
    time.sleep(0.5)  # a thread that gets no time
    texts.append(text)

with captured_descriptors(write):
    {within}
print(repr(("".join(texts), child is not None and child.poll() is None)))
if child is not None:
    child.kill()  # it has this program's stderr, whose end the test waits for
"""


def captured(within: str) -> tuple[str, bool]:
    """What is printed while `within` runs, and whether its `child` lives when that is known."""
    program = [sys.executable, "-c", PROGRAM.format(within=within)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    text, lives = ast.literal_eval(done.stdout)
    return text, lives


def test_all_that_was_printed_is_there_when_the_call_ends() -> None:
    within = "for number in range(3): os.write(1, b'%d ' % number); time.sleep(0.1)"
    assert captured(within) == ("0 1 2 ", False)


def test_a_process_that_lives_on_is_not_waited_for() -> None:
    child = "child = subprocess.Popen(['sh', '-c', 'echo begun; exec sleep 60'])"
    assert captured(f"{child}\n    while not texts: time.sleep(0.01)") == ("begun\n", True)
