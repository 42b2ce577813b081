"""Writes a question as a notebook, in a folder of its own with its table beside it."""

import shutil
from pathlib import Path

import nbformat

from benchmarks.dabench.dataset import Dataset, Question

NOTEBOOK = "question.ipynb"
PROMPT = """\
%%agent
The table `{file_name}` is in the folder of this notebook. Answer a question about it.

Question: {question}

Constraints: {constraints}

Answer format:
{format}

Work with the table by code in this notebook. Write the answers at the end of your last message, each exactly in the
form `@name[value]` that the answer format gives, with the value in place of the words in the brackets.\
"""


def prompt_of(question: Question) -> str:
    """The cell that asks the question."""
    return PROMPT.format_map(question.model_dump())


def write_notebook(dataset: Dataset, question: Question, folder: Path) -> Path:
    """Write the notebook, and copy its table to it. Returns its path. What earlier runs left in the folder is removed.

    The folder holds no label, and nothing of the other questions.
    """
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    shutil.copyfile(dataset.table(question), folder / question.file_name)
    prompt = prompt_of(question)
    cells = [
        nbformat.v4.new_code_cell("%load_ext agent_kernel", id="extension"),
        nbformat.v4.new_code_cell(prompt, id="question"),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = folder / NOTEBOOK
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path
