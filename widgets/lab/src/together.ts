/** Cells that are run together, as by Run All, wait for the runs of the prompts among them.
 *
 * The page asks the kernel to wait between two cells, by a request that no cell shows: it is carried out after the
 * prompt's cell and before the next one, and an interrupt ends it as it ends a cell that waits. */
import { type Notebook, NotebookActions } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";
import { asksAgent, waitCode } from "./prompts";

/** Calls `kernelOf` for notebooks whose kernel may have the agent: `null` where it has none. */
export function waitsForPrompts(kernelOf: (notebook: Notebook) => Kernel.IKernelConnection | null): void {
  const asked = new Map<Notebook, string[]>();
  NotebookActions.executionScheduled.connect((_, { notebook, cell }) => {
    // Cells that are run together are scheduled in one turn of the page's event loop.
    if (asked.size === 0) setTimeout(() => asked.clear());
    const before = asked.get(notebook) ?? [];
    asked.set(notebook, before);
    if (before.length > 0) {
      // Not silent: an interrupt ends the cells after it, too.
      const wait = { code: waitCode(before), silent: false, store_history: false, stop_on_error: true };
      void kernelOf(notebook)
        ?.requestExecute(wait)
        .done.catch(() => undefined);
    }
    if (asksAgent(cell.model.sharedModel.getSource())) before.push(cell.model.id);
  });
}
