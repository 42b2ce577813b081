/** Gives records, which are plain HTML, what cards have: Copy, Insert below as a cell, all of a run's code at once, the
 * reader's own time, and Try again where the run was lost with its kernel.
 *
 * A record comes from the file. Of it only text is taken, and what is added stands in the page, not in the notebook. */
import { beginConversation, insertCells } from "../../src/ui/events";
import { SHARED } from "../../src/text/words.gen";
import { copyButton } from "../../src/ui/copying";
import { RECORD } from "../../src/ui/notebook";
import { actions, button } from "./elements";

/** The code of a call, as the record marks it. Classes stay in notebooks that are not trusted, attributes do not. */
const CODE = "pre > code.agent-code";
/** Its place in the run, where it did what it should. */
const CELL = /(?:^|\s)agent-cell-(\d{1,6})(?:\s|$)/;
const ADDED = "agent-kernel-actions";
const LOST = SHARED.errors.KERNEL_DIED;

/** Watches over a part of the page. */
export function decorateRecords(root: Element): void {
  const changes = new MutationObserver((records) => {
    for (const { addedNodes } of records) {
      for (const node of addedNodes) if (node instanceof Element) decorateIn(node);
    }
  });
  decorateIn(root);
  changes.observe(root, { childList: true, subtree: true });
}

/** The code of a record's run that did what it should, in the order in which it ran. */
export function codeOf(record: Element): string[] {
  const numbered = [...record.querySelectorAll(CODE)].flatMap((code) => {
    const number = CELL.exec(code.className)?.[1];
    return number === undefined ? [] : [{ number: Number(number), text: textOf(code) }];
  });
  return numbered.sort((one, other) => one.number - other.number).map(({ text }) => text);
}

function decorateIn(added: Element): void {
  const inside = [...added.querySelectorAll(RECORD)];
  for (const record of added.matches(RECORD) ? [added, ...inside] : inside) {
    if (record.closest(".jp-OutputArea-output") !== null && record.querySelector(`.${ADDED}`) === null)
      decorate(record);
  }
}

function decorate(record: Element): void {
  for (const time of record.querySelectorAll("time")) inOwnTime(time);
  for (const code of record.querySelectorAll(CODE)) {
    code.parentElement?.after(
      actions(
        "",
        copyButton(() => textOf(code)),
        button("Insert below as a cell", (at) => insertCells(at, [textOf(code)])),
      ),
    );
  }
  const lost = [...record.querySelectorAll("p")].find(({ textContent }) => textContent?.startsWith(LOST));
  if (lost !== undefined)
    lost.after(
      actions(
        "",
        button("Try again", (at) => beginConversation(at)),
      ),
    );
  const count = codeOf(record).length;
  if (count > 0)
    record.append(
      actions(
        "",
        button("Insert all as cells", (at) => insertCells(at, codeOf(record))),
      ),
    );
}

/** In a notebook that is not trusted the attribute is gone; what it says in UTC is there. */
function inOwnTime(time: HTMLTimeElement): void {
  const said = time.textContent ?? "";
  const moment = new Date(time.dateTime || said);
  if (Number.isNaN(moment.getTime()) || time.title !== "") return;
  time.title = said;
  time.textContent = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" }).format(moment);
}

function textOf(code: Element): string {
  return (code.textContent ?? "").replace(/\n$/, "");
}
