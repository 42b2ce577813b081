/** Rows and buttons that stand in the page, not in the notebook. */

export function actions(name: string, ...content: (Node | string)[]): HTMLElement {
  const row = document.createElement("div");
  row.className = `agent-kernel-actions ${name}`.trim();
  row.append(...content);
  return row;
}

export function button(words: string, press: (at: HTMLButtonElement) => void): HTMLButtonElement {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = words;
  made.addEventListener("click", () => press(made));
  return made;
}
