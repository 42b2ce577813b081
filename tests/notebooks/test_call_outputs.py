"""What an approved call prints, shows and raises, in a real kernel."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.conftest import INSTALL
from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]
VIEW = "application/vnd.jupyter.widget-view+json"


def outputs(found: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [output for output in found["outputs"] if output["kind"] == kind]


UPDATES = "from IPython.display import display\nh = display('first', display_id='d1')\nh.update('second')"


@pytest.mark.parametrize(
    ("code", "shown", "told"),
    [
        (
            "print('one')\nimport sys\nprint('two', file=sys.stderr)\n6 * 7",
            [("stdout", "one\n"), ("stderr", "two\n"), (None, {"text/plain": "42"})],
            "one\ntwo\n42",
        ),
        (UPDATES, [("d1", {"text/plain": "'first'"}), ("d1", {"text/plain": "'second'"})], "'second'"),
        (
            "import asyncio\nawait asyncio.sleep(0)\nlines = !echo from the shell\nprint(lines[0])",
            [("stdout", "from the shell\n")],
            "from the shell",
        ),
    ],
    ids=["last value", "updated", "shell and await"],
)
def test_what_a_call_shows_and_what_the_model_is_told(
    shared_kernel: TestKernel, code: str, shown: list[Any], told: str
) -> None:
    found = shared_kernel.call(f"shows {code}", code)
    short = {
        "stream": lambda o: (o["name"], o["text"]),
        "display": lambda o: (o["display_id"], o["data"]),
    }
    assert [short[output["kind"]](output) for output in found["outputs"]] == shown
    assert (found["outcome"]["status"], found["outcome"]["content"]) == ("success", told)


def test_a_widgets_text_is_how_it_was_when_the_call_ended(shared_kernel: TestKernel) -> None:
    code = (
        "import ipywidgets\nfrom IPython.display import display\nfrom tqdm.auto import tqdm\n"
        "kept, gone = tqdm(range(80)), tqdm(range(80), leave=False)\n"
        "for _ in kept: pass\n"
        "for _ in gone: pass\n"
        "still, moved = ipywidgets.IntSlider(1), ipywidgets.IntSlider(2)\n"
        "display(still)\ndisplay(moved)\nmoved.value = 7\nipywidgets.Output()"
    )
    found = shared_kernel.call("widgets", code)
    shown = {output["display_id"]: output["data"] for output in outputs(found, "display")}
    bar, gone, *others = shown.values()
    assert bar["text/plain"].startswith("100%|")
    assert gone == {}, "a bar that was closed is no longer in a cell either"
    assert [data["text/plain"] for data in others] == ["IntSlider(value=1)", "IntSlider(value=7)", "Output()"]
    assert all(data[VIEW]["model_id"] == known for known, data in shown.items() if data)
    told = found["outcome"]["content"]
    assert "100%|" in told
    assert "80/80" in told
    assert "0/80 [00:00<?" not in told
    assert len(outputs(found, "display")) == len(shown) + 3, "only what has changed is told again"


def test_a_bar_that_was_collected_before_the_call_ended_is_told_all_the_same(shared_kernel: TestKernel) -> None:
    code = (
        "import gc\nfrom tqdm.auto import tqdm\nfor _ in tqdm(range(80)): pass\n"
        "for _ in tqdm(range(80), leave=False): pass\ncollected = gc.collect()"
    )
    found = shared_kernel.call("collected bar", code)
    bar, _, bar_at_end, gone_at_end = [output["data"] for output in outputs(found, "display")]
    assert bar_at_end == bar | {"text/plain": bar_at_end["text/plain"]}
    assert gone_at_end == {}
    assert outputs(found, "error") == []
    for part in ("100%", "value=80.0", "80/80"):
        assert part in found["outcome"]["content"]


WIDGETS = "import ipywidgets\nfrom IPython.display import clear_output, display\n"


def test_what_is_shown_inside_of_an_output_widget_is_in_the_widget(shared_kernel: TestKernel) -> None:
    code = (
        f"{WIDGETS}out = ipywidgets.Output()\nprint('before')\n"
        "with out:\n    print('gone')\n    clear_output(wait=True)\n    print('inside', end=' ')\n    print('too')\n"
        "    h = display('first', display_id='o1')\n    h.update('second')\n    1 / 0\n"
        "print('after')"
    )
    found = shared_kernel.call("output widget", code)
    assert "".join(o["text"] for o in outputs(found, "stream")) == "before\nafter\n"
    assert outputs(found, "display") == []
    assert outputs(found, "clear") == []
    inside = "[(o['output_type'], o.get('text') or o.get('data') or o['ename']) for o in out.outputs]"
    assert ast.literal_eval(shared_kernel.value(inside)) == [
        ("stream", "inside too\n"),
        ("display_data", {"text/plain": "'second'"}),
        ("error", "ZeroDivisionError"),
    ]
    assert found["outcome"]["status"] == "success"
    for told in ("inside too", "'second'", "ZeroDivisionError", "after"):
        assert told in found["outcome"]["content"]


def test_a_traceback_is_plain_text_from_the_calls_own_code_on(shared_kernel: TestKernel) -> None:
    found = shared_kernel.call("raises", "def f():\n    return 1 / 0\nf()")
    (error,) = outputs(found, "error")
    assert error["data"] == {"ename": "ZeroDivisionError", "evalue": "division by zero"}
    assert found["outcome"]["status"] == "error"
    assert found["outcome"]["content"] == error["text"]
    assert error["text"].startswith('Traceback (most recent call last):\n  File "run_python", line 3, in <module>\n')
    assert error["text"].endswith("ZeroDivisionError: division by zero")
    assert "\x1b" not in error["text"]
    assert "agent_kernel" not in error["text"]


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("syntax", "def f(:\n    pass", "SyntaxError: invalid syntax"),
        ("input", "input('name?')", "StdinNotImplementedError"),
        ("exit", "exit()", "The kernel goes on"),
        ("sys.exit", "import sys\nsys.exit(3)", "SystemExit: 3"),
    ],
)
def test_what_a_call_may_not_do_is_an_honest_error(shared_kernel: TestKernel, name: str, code: str, said: str) -> None:
    found = shared_kernel.call(f"refused {name}", code)
    assert found["outcome"]["status"] == "error"
    assert said in found["outcome"]["content"]
    assert shared_kernel.value("'alive'") == "'alive'"


MULTIPROCESSING = (
    "import multiprocessing as mp\np = mp.get_context('{how}').Process(target=print, args=('from a child',))\n"
    "p.start(); p.join()"
)
CHILDREN = {
    "subprocess": "import subprocess\nsubprocess.run(['echo', 'from a child'])",
    "C code": "import ctypes\nctypes.CDLL(None).puts(b'from a child'); ctypes.CDLL(None).fflush(None)",
    "fork": MULTIPROCESSING.format(how="fork"),
    "spawn": MULTIPROCESSING.format(how="spawn"),
    "forkserver": MULTIPROCESSING.format(how="forkserver"),
    "os.fork": "import os\nchild = os.fork()\nif child == 0:\n    print('from a child', flush=True)\n    os._exit(0)\n"
    "os.waitpid(child, 0)",
    "joblib": "from joblib import Parallel, delayed\n"
    "_ = Parallel(n_jobs=2)(delayed(print)('from a child') for _ in [1])",
}


@pytest.mark.parametrize("code", CHILDREN.values(), ids=CHILDREN)
def test_what_a_child_prints_is_told_the_model(shared_kernel: TestKernel, code: str) -> None:
    found = shared_kernel.call(f"child {hash(code)}", code)
    assert "from a child" in found["outcome"]["content"]
    assert found["outcome"]["status"] == "success", found
    assert "\x16" not in str(found["outputs"])


@pytest.fixture
def own_kernel(start_kernel: Callable[..., TestKernel]) -> TestKernel:
    """For calls that leave a kernel other than it was."""
    kernel = start_kernel()
    kernel.run(INSTALL, silent=True)
    return kernel


CHANGES = {
    "handles signals": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
    "blocks signals": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})",
    "runs a loop": "import asyncio, threading\n"
    "other = threading.Thread(target=asyncio.run, args=(asyncio.sleep(0),)); other.start(); other.join()",
    "replaces the loop": "import asyncio\nasyncio.set_event_loop(asyncio.new_event_loop())",
    "cells can't await": "%autoawait off",
    "replaces display": "import builtins, IPython.display as shown\n"
    "shown.display = builtins.display = display = lambda *_, **__: None",
    "replaces print's stream": "import io, sys\nprint('goes on')\nsys.stdout = sys.__stdout__ = io.StringIO()",
    "deletes all names": "%reset -f",
    "closes its output": "import os\nos.close(1)",
}


def test_whatever_a_call_changes_it_ends_and_the_next_call_and_cell_run(own_kernel: TestKernel) -> None:
    kernel = own_kernel
    for name, code in CHANGES.items():
        changed = kernel.call(name, code if "goes on" in code else f"{code}\nprint('goes on')")["outcome"]
        assert (changed["status"], changed["content"]) == ("success", "goes on"), name
        after = kernel.call(f"after {name}", "import asyncio\nasyncio.get_running_loop()\n6 * 7")["outcome"]
        assert (after["status"], after["content"]) == ("success", "42"), name
        assert kernel.run("print('mine')").streams() == "mine\n", name


def test_the_users_history_is_untouched(kernel: TestKernel) -> None:
    assert kernel.value("'mine'") == "'mine'"
    kernel.call("between", "made_by_call = 5\nprint('x' * 10)\n'not mine'")
    kernel.call("between-raises", "1/0")
    cell = kernel.run("(_, _1, made_by_call, len(In), list(Out), get_ipython().last_execution_succeeded)")
    assert cell.value == "('mine', 'mine', 5, 3, [1], True)"
    assert cell.reply["execution_count"] == 2
    assert "not mine" not in kernel.value("str(dict(get_ipython().history_manager.outputs))")


def test_printing_100_mb_stays_bounded(own_kernel: TestKernel) -> None:
    kernel = own_kernel
    peak = "__import__('resource').getrusage(__import__('resource').RUSAGE_SELF).ru_maxrss // 1024"
    before = int(kernel.value(peak))  # not nothing: a process begins with its parent's peak
    code = "for n in range(100):\n    print('x' * 999_999)\nprint('the end')"
    found = kernel.call("flood", code)
    live = sum(len(output["text"]) for output in outputs(found, "stream"))
    content = found["outcome"]["content"]
    assert live < 1.1 * 1_048_576
    assert len(content) < 1.1 * 1_048_576
    assert content.endswith("the end")
    path = Path(content.partition("in the file ")[2].partition(" ")[0])
    try:
        assert path.stat().st_size == 50 * 1_048_576
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        path.unlink()
    assert int(kernel.value(peak)) - before < 200
