"""How cells of a notebook are told to the model."""

from agent_kernel.tools.builtin.cells import output_text

PATH = "~/env/lib/python3.11/site-packages/pandas/core/frame.py:4330"
LIBRARY = f"File \x1b[0;32m{PATH}\x1b[0m, in DataFrame.__getitem__(self, key)"


def test_a_librarys_frames_are_named_only_and_the_users_are_whole() -> None:
    own = "Cell \x1b[0;32mIn[3], line 2\x1b[0m\n      1 df = load()\n----> 2 df['pric']"
    source = "\n   4328     if self.columns.nlevels > 1:\n-> 4330     indexer = self.columns.get_loc(key)" * 40
    compiled = "File pandas/_libs/index.pyx:172, in IndexEngine.get_loc()\n--> 172 'Could not get source'"
    text = output_text(
        {"output_type": "error", "traceback": ["---", own, LIBRARY + source, compiled, "KeyError: 'pric'"]}
    )
    assert text.split("\n") == [
        *("---", "Cell In[3], line 2", "      1 df = load()", "----> 2 df['pric']"),
        "File pandas/core/frame.py:4330, in DataFrame.__getitem__(self, key)",
        "File pandas/_libs/index.pyx:172, in IndexEngine.get_loc()",
        "KeyError: 'pric'",
    ]
