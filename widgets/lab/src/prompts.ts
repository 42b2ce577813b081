/** The sources of cells that ask the agent. `@cell:ID` names a cell with its outputs; the agent reads it as it is then. */

export function fixPrompt(cellId: string): string {
  return `%%agent\nFix the error of ${mention(cellId)}`;
}

/** More can be asked below. */
export function explainPrompt(cellId: string): string {
  return `%%agent\nExplain the error of ${mention(cellId)}\nChange nothing.\n`;
}

/** The question comes below. */
export function cellsPrompt(cellIds: readonly string[]): string {
  const all = cellIds.map(mention);
  const last = all.pop() ?? "";
  return `%%agent\nAbout ${all.length > 0 ? `${all.join(", ")} and ${last}` : last}\n`;
}

/** The question comes below. */
export function outputPrompt(cellId: string): string {
  return `%%agent\nAbout the output of ${mention(cellId)}\n`;
}

/** Whether a cell asks an agent, be it in one of its lines. */
export function asksAgent(source: string): boolean {
  return /^[ \t]*%%?agent\b/m.test(source);
}

/** Whether all of a cell is a prompt. */
export function isPrompt(source: string): boolean {
  return /^\s*%%agent(?!\S)/.test(source);
}

function mention(cellId: string): string {
  return `@cell:${cellId}`;
}
