/** Code that loads the agent in a Python kernel, and what the kernel says of its environment where it can't. */

/** Where the agent could not be loaded. */
export interface Lacking {
  /** Whether the package is not there; else it fails as it is imported. */
  readonly missing: boolean;
  readonly error: string;
  /** The kernel's Python, and the environment that it belongs to. */
  readonly executable: string;
  readonly prefix: string;
  /** Installs the package in that environment. */
  readonly command: string;
}

const SOURCE = `\
import importlib.util, json, subprocess, sys
try:
    from agent_kernel.notebook import load
    load({})
except Exception as error:
    pip = [sys.executable, "-m", "pip", "install"]
    uv = ["uv", "pip", "install", "--python", sys.executable]
    command = [*(pip if importlib.util.find_spec("pip") else uv), "."]
    print(json.dumps({
        "missing": isinstance(error, ImportError) and error.name == "agent_kernel",
        "error": f"{type(error).__name__}: {error}",
        "executable": sys.executable,
        "prefix": sys.prefix,
        "command": subprocess.list2cmdline(command),
    }))
`;

/** Loads the agent, or says why that can't be. It leaves no name in the user's namespace. */
export const ASK_ENVIRONMENT = `exec(${JSON.stringify(SOURCE)}, {})`;

/** As `%agent config` takes them. */
export type Defaults = Readonly<Record<string, string>>;

/** From the page's settings. */
export function defaultsOf(settings: Readonly<Record<string, unknown>>): Defaults {
  const { model, policy, effort, wait } = settings;
  const known = Object.entries({ model, policy, effort, wait: wait === true ? "true" : "" });
  return Object.fromEntries(
    known.flatMap(([name, value]) =>
      typeof value === "string" && value !== "" && value !== "default" ? [[name, value]] : [],
    ),
  );
}

/** Loads the agent's magics where they are not there, with the page's settings, and says which cell is run next: where
 * the server runs cells, its requests do not. As the kernel knows code of ours. */
export function loadCode(defaults: Defaults, cellId: string, source: string): string {
  const given = [defaults, cellId, source].map((one) => JSON.stringify(one)).join(", ");
  return `__import__("agent_kernel.notebook", fromlist=["load"]).load(${given})`;
}

/** From what `ASK_ENVIRONMENT` has printed; `null` where it is loaded. */
export function readLacking(printed: string): Lacking | null {
  const last = printed.trim().split("\n").at(-1) ?? "";
  return last.startsWith("{") ? (JSON.parse(last) as Lacking) : null;
}

/** What to say of it, before the command. */
export function wordsOf({ missing, error, executable, prefix }: Lacking): string {
  const python = `this kernel’s Python, ${executable}, in the environment ${prefix}`;
  return missing
    ? `There is no agent_kernel for ${python}. Install it there, from a clone:`
    : `agent_kernel could not be loaded by ${python}. It said: ${error}`;
}
