/** Copy buttons: on the code of calls and in answers. */

const SAID_MS = 2_000;

/** A button that copies what `text` gives when it is pressed. */
export function copyButton(text: () => string): HTMLButtonElement {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "ak-copy";
  button.setAttribute("aria-label", "Copy");
  button.textContent = "Copy";
  let back: ReturnType<typeof setTimeout> | undefined;
  const say = (copied: boolean): void => {
    button.textContent = copied ? "Copied" : "Not copied";
    clearTimeout(back);
    back = setTimeout(() => (button.textContent = "Copy"), SAID_MS);
  };
  button.addEventListener("click", (event) => {
    event.preventDefault();
    event.stopPropagation();
    void copy(text(), button).then(say);
  });
  return button;
}

/** Code blocks of an answer, each with its button. */
export function addCopyButtons(block: Element): void {
  const blocks = block.matches("pre") ? [block] : [...block.querySelectorAll("pre")];
  for (const pre of blocks) {
    if (!pre.previousElementSibling?.matches(".ak-copy"))
      pre.before(copyButton(() => pre.textContent.replace(/\n$/, "")));
  }
}

async function copy(text: string, near: HTMLElement): Promise<boolean> {
  // Pages that are not from localhost and not over HTTPS have no clipboard of this kind.
  const { clipboard } = navigator as { clipboard?: Clipboard };
  if (clipboard !== undefined) {
    try {
      await clipboard.writeText(text);
      return true;
    } catch {
      // It may be forbidden, as in the frame of another page: the older way may not be.
    }
  }
  return copyBySelection(text, near);
}

function copyBySelection(text: string, near: HTMLElement): boolean {
  const { activeElement } = document;
  const field = document.createElement("textarea");
  field.value = text;
  field.setAttribute("aria-hidden", "true");
  field.className = "ak-sr";
  near.after(field);
  field.focus({ preventScroll: true });
  field.select();
  try {
    return document.execCommand("copy");
  } catch {
    return false;
  } finally {
    field.remove();
    if (activeElement instanceof HTMLElement) activeElement.focus({ preventScroll: true });
  }
}
