"""A project whose notebook has an agent that plays a recording, to be run by `pytest --nbval`."""

import json
import subprocess
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

PROMPT = "Plot the numbers and add them up."
CODE = "import matplotlib.pyplot as plt\nplt.bar(range(3), numbers)\nplt.show()\nprint(sum(numbers))"
CALL = {"name": "run_python", "arguments": {"code": CODE}}
RECORDING = [
    {"kind": "recording", "version": 2, "model": "gpt-5.2"},
    {"kind": "turn", "prompt": PROMPT, "after": "start", "answer": {"content": "I add them up.", "calls": [CALL]}},
    {"kind": "turn", "prompt": PROMPT, "step": 1, "after": "success", "answer": {"content": "That was it."}},
    {"kind": "decision", "prompt": PROMPT, "tool": "run_python", "arguments": CALL["arguments"], "approved": True},
]
NUMBERS = "numbers = [3, 7, 5]"
CELLS = [
    "%load_ext agent_kernel\n%matplotlib inline",
    NUMBERS,
    f"%%agent --model replay:sums.jsonl\n{PROMPT}",
    "import os\nprint(os.environ.get('AGENT_KERNEL_REPLAY'), os.environ.get('AGENT_KERNEL_APPROVE'))",
]


def write_project(project: Path) -> Path:
    """Write the recording and the notebook, which has not run yet."""
    (project / "sums.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in RECORDING))
    notebook = project / "first.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(source) for source in CELLS]), notebook)
    return notebook


def change(notebook: Path, old: str, new: str) -> None:
    """Change the cells' sources, as a person does who then forgets to run them."""
    read = nbformat.read(notebook, as_version=4)
    for cell in read.cells:
        cell.source = cell.source.replace(old, new)
    nbformat.write(read, notebook)


def run_pytest(python: str, project: Path, env: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-m", "pytest", "--nbval", "--nbval-current-env", "--color=no", *options],
        cwd=project,
        env={name: value for name, value in env.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def in_order(text: str, *parts: str) -> bool:
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)
