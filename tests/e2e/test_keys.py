"""Keys that are pressed inside a run's output: the notebook around it stays as it is, and the focus goes where the
person goes on."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from playwright.sync_api import Locator, Page, expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import Gate, WrittenModel
from tests.programs import wait_until

CELLS = ["%load_ext agent_kernel", "%%agent\nLook at it.", "mine = 1"]
RUN, MINE = 1, 2
OF_NOTEBOOKS = [
    *"aabbccddeeiillmmrrvvxxyyzz0011",
    *("Shift+l", "Shift+m", "Shift+v", "Enter", "Delete", "ArrowUp", "Shift+ArrowDown"),
]
"""That mean something in command mode or on a card that waits: D, D and I, I are the notebook's."""
KEYS = [
    *(key for key in OF_NOTEBOOKS if key not in "adelr"),
    *("Backspace", "Home", "Control+m", "Control+z", "Control+Shift+ArrowDown", "Control+Shift+Minus"),
]
"""That mean nothing on a card that waits."""
IN_FIELDS = [*"aabddeiillmrxyz01", "Shift+A", "Shift+D", "ArrowLeft", "Backspace", "Shift+Home", "Delete"]

NOTEBOOK = """() => {
  const { content, sessionContext } = window.jupyterapp.shell.currentWidget;
  return {
    cells: content.widgets.map(cell => [
      cell.model.type, cell.model.sharedModel.getSource(), cell.model.executionCount ?? null,
      cell.outputHidden ?? null, content.isSelected(cell),
    ]),
    active: content.activeCellIndex,
    kernel: sessionContext.session.kernel.id,
    dialogs: document.querySelectorAll('.jp-Dialog').length,
  };
}"""
FOCUS = """() => {
  const { content } = window.jupyterapp.shell.currentWidget;
  const at = document.activeElement;
  return {
    cell: content.widgets.findIndex(cell => cell.node === at),
    mode: content.mode,
    call: at.closest('[data-tool-call-id]')?.dataset.toolCallId ?? null,
    inRun: at.closest('.ak-run') !== null,
  };
}"""
HOLD_TIME = """lengths => {
  const { setTimeout, Date: { now } } = window;
  const held = [], at = now();
  window.setTimeout = (work, ms, ...more) =>
    lengths.includes(ms) ? (held.push(work), 0) : setTimeout(work, ms, ...more);
  Date.now = () => at;
  window.goOn = () => {
    Object.assign(window, { setTimeout });
    Date.now = now;
    for (const work of held) work();
  };
}"""
KEYS_MS = [400, 800, 2_000]
"""How long after a decision cards take no key, and how long the notebook takes none that was meant for a card."""
CALLS_THAT_WAIT_FOR_A_FILE = (
    "import pathlib, time\nwhile not pathlib.Path({name!r}).exists(): time.sleep(0.05)\n{after}"
)


class Keyboard:
    """A person at the keyboard."""

    def __init__(self, notebook: NotebookPage) -> None:
        self.notebook, self.page = notebook, notebook.page

    def state(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.page.evaluate(NOTEBOOK))

    def focus(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.page.evaluate(FOCUS))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def press_for_nothing(self, place: Locator, keys: Sequence[str]) -> None:
        """Press keys on something in the output, and compare the notebook before and after each."""
        place.focus()
        before = self.state()
        for key in keys:
            self.press(key)
            after = self.state()
            assert after == before, f"{key} changed the notebook"

    def free(self) -> None:
        """For 0.4 s after a decision the cards take no keys on purpose."""
        expect(self.page.locator("[data-guarded]")).to_have_count(0)

    def wait_for_focus(self, **what: Any) -> None:
        wait_until(lambda: what.items() <= self.focus().items(), f"the focus: {what}")

    @contextmanager
    def in_one_breath(self) -> Iterator[None]:
        """What is pressed meanwhile comes in the time in which cards guard against a second press, on any machine."""
        self.page.evaluate(HOLD_TIME, KEYS_MS)
        yield
        self.page.evaluate("window.goOn()")


def test_no_key_on_a_card_in_any_state_changes_the_notebook_and_the_focus_goes_on(
    open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer
) -> None:
    failing, done = Gate(call("run_python", code="1 / 0")), Gate(say("Then not."))
    model.says(
        call("run_python", code=CALLS_THAT_WAIT_FOR_A_FILE.format(name="go", after="print('done')")),
        failing,
        call("run_python", code="denied = 1"),
        done,
    )
    notebook = open_notebook(CELLS)
    notebook.run_through(RUN)
    keyboard = Keyboard(notebook)
    notebook.wait_for_state("awaiting_approval")
    keyboard.press_for_nothing(notebook.card(), KEYS)
    notebook.card().focus()
    press_in_panels(keyboard)
    keyboard.press("Control+Enter")
    notebook.wait_for_state("executing")
    keyboard.free()
    keyboard.press_for_nothing(notebook.card(), OF_NOTEBOOKS)
    notebook.wait_for_state("executing")
    (lab.root / "go").touch()
    notebook.wait_for_state("success")
    expect(notebook.card()).to_contain_text("done")

    notebook.card().focus()
    failing.open()
    notebook.wait_for_state("awaiting_approval", card=1)
    keyboard.free()  # it came to where a decision had left the focus
    notebook.card(1).focus()
    keyboard.press("a")
    notebook.wait_for_state("error", card=1)
    keyboard.wait_for_focus(call=notebook.card(2).get_attribute("data-tool-call-id"))
    keyboard.free()
    keyboard.press("d")
    expect(notebook.card(2).get_by_role("textbox", name="Reason")).to_be_focused()
    keyboard.press("n", "o", "Enter")
    notebook.wait_for_state("denied", card=2)
    keyboard.free()
    keyboard.press_for_nothing(notebook.card(2), OF_NOTEBOOKS)

    done.open()
    expect(notebook.record()).to_contain_text("Then not.")
    keyboard.wait_for_focus(cell=RUN, mode="command")
    keyboard.press_for_nothing(
        notebook.record().locator("summary").first, [key for key in OF_NOTEBOOKS if key != "Enter"]
    )
    keyboard.press("Escape")
    keyboard.wait_for_focus(cell=RUN)
    keyboard.press("b")
    wait_until(lambda: len(keyboard.state()["cells"]) == len(CELLS) + 1, "B on the cell to be the notebook's again")


def press_in_panels(keyboard: Keyboard) -> None:
    """Reason, Edit and Always allow: letters are text in fields, and the notebook's nowhere."""
    notebook, before = keyboard.notebook, keyboard.state()
    keyboard.press("d")
    reason = notebook.card().get_by_role("textbox", name="Reason")
    expect(reason).to_be_focused()
    keyboard.press_for_nothing(reason, IN_FIELDS)
    reason.fill("")
    keyboard.press("n", "o", "Shift+Enter", "y")
    expect(reason).to_have_value("no\ny")
    keyboard.press("Escape")
    expect(reason).to_have_count(0)

    keyboard.press("e")
    editor = notebook.card().locator(".cm-content")
    expect(editor).to_be_focused()
    keyboard.press_for_nothing(editor, [*IN_FIELDS, "Enter", "Tab", "Control+d"])
    keyboard.press("Control+a")
    keyboard.page.keyboard.type("kept = 2")
    expect(editor).to_have_text("kept = 2")
    notebook.card().get_by_role("button", name="Reset").click()
    keyboard.press("Escape")
    expect(editor).to_have_count(0)

    keyboard.press("l")
    radio = notebook.card().get_by_role("radio").first
    expect(radio).to_be_focused()
    keyboard.press_for_nothing(radio, KEYS)
    keyboard.press("Escape")
    expect(radio).to_have_count(0)
    assert keyboard.state() == before
    keyboard.wait_for_focus(call=notebook.card().get_attribute("data-tool-call-id"))


def test_after_decisions_the_active_cell_is_that_from_before_and_keys_that_run_cells_run_them(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    done = Gate(say("All done."))
    model.says(call("run_python", code="first = 1"), call("run_python", code="second = 2"), done)
    notebook = open_notebook([*CELLS, "print('went on')"])
    keyboard = Keyboard(notebook)
    notebook.run(0)
    page.locator(".jp-Notebook .jp-Cell").nth(RUN).locator(".jp-InputPrompt").click()
    keyboard.press("Shift+Enter")
    notebook.wait_for_state("awaiting_approval")
    keyboard.wait_for_focus(cell=MINE, mode="command")
    prompt_number = notebook.prompt_number(RUN)

    notebook.card().locator(".ak-head").click()
    keyboard.press("a")
    notebook.wait_for_state("awaiting_approval", card=1)
    keyboard.wait_for_focus(call=notebook.card(1).get_attribute("data-tool-call-id"))
    keyboard.free()
    with keyboard.in_one_breath():
        keyboard.press("a")
        notebook.wait_for_state("success", card=1)
    keyboard.press("Shift+Enter")  # while the model still answers
    wait_until(lambda: notebook.prompt_number(MINE) == prompt_number + 1, "the next cell to have run")
    notebook.card(1).locator(".ak-head").focus()
    before = keyboard.state()
    with keyboard.in_one_breath():
        done.open()
        expect(notebook.record()).to_contain_text("All done.")
        keyboard.wait_for_focus(cell=MINE + 1, mode="command")
        keyboard.press("d", "d", "a", "a", "Shift+A", "e", "l", "l")
        assert keyboard.state()["cells"] == before["cells"]
        keyboard.press("Shift+Enter")
        wait_until(lambda: notebook.text(MINE + 1) == "went on", "the cell after it to have run")
        assert notebook.prompt_number(RUN) == prompt_number

    # Escape gives the focus back to the cell, and keys that run cells run it from within its output.
    count = notebook.prompt_number(RUN)
    model.says(call("run_python", code="again = 1"), say("Once more."))
    notebook.run(RUN)
    notebook.wait_for_state("awaiting_approval")
    notebook.card().focus()
    keyboard.press("Escape")
    keyboard.wait_for_focus(cell=RUN, mode="command", call=None, inRun=False)
    notebook.press("Approve")
    expect(notebook.record()).to_contain_text("Once more.")
    keyboard.wait_for_focus(cell=RUN, mode="command")
    model.says(say("A third time."))
    notebook.record().locator("summary").first.focus()
    keyboard.press("Shift+Enter")
    keyboard.wait_for_focus(cell=MINE, mode="command")
    expect(notebook.record()).to_contain_text("A third time.")
    assert notebook.prompt_number(RUN) > count
    assert keyboard.focus()["cell"] == MINE, "a record takes no focus that its run did not have"
