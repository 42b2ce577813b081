/** Reads the server's list of runs. */
import { URLExt } from "@jupyterlab/coreutils";
import { ServerConnection } from "@jupyterlab/services";
import type { ListedRun } from "./listedRuns";

/** As the server filters and limits them, the oldest first. None where it can't say. */
export async function listRuns(
  settings: ServerConnection.ISettings,
  query: Readonly<Record<string, string>>,
): Promise<readonly ListedRun[]> {
  const address = URLExt.join(settings.baseUrl, "agent-kernel/api/runs") + URLExt.objectToQueryString(query);
  const response = await ServerConnection.makeRequest(address, {}, settings);
  // Without the server extension, or its log, there is nothing to show.
  const runs: unknown = response.ok ? await response.json() : [];
  return Array.isArray(runs) ? (runs as ListedRun[]) : [];
}
