/** What JupyterLab loads: a module-federation container, which takes the packages it shares from the page.
 *
 * JupyterLab's own builder makes the same with webpack and more than four hundred packages. Ours shares nothing with
 * others and takes every package from the page, so this is all of it. */

interface Shared {
  readonly get: () => Promise<() => unknown> | (() => unknown);
  readonly loaded?: unknown;
}

/** By name and version, as webpack keeps them. */
type Scope = Readonly<Record<string, Readonly<Record<string, Shared>>>>;
type Define = (require: (name: string) => unknown, module: { exports: unknown }) => void;

export interface Container {
  init(scope: Scope): void;
  get(): Promise<() => unknown>;
}

/** `names` are the packages that `define`, a CommonJS module, requires from the page. An application that does not share the
 * package `notebooks`, such as Voila, has none of those, and gets no plugin. */
export function container(names: readonly string[], notebooks: string, define: Define): Container {
  let scope: Scope = {};
  return {
    init: (given) => {
      scope = given;
    },
    get: async () => {
      if (scope[notebooks] === undefined) return () => [];
      const load = async (name: string): Promise<[string, unknown]> => [name, (await pick(name, scope[name]).get())()];
      const packages = new Map(await Promise.all(names.map(load)));
      const module = { exports: {} as unknown };
      define((name) => packages.get(name), module);
      return () => module.exports;
    },
  };
}

/** The version that is in use, else the newest: these packages are one for the page. */
function pick(name: string, versions: Readonly<Record<string, Shared>> = {}): Shared {
  const [first] = Object.entries(versions).sort(([a, one], [b, other]) => loaded(other) - loaded(one) || compare(b, a));
  if (first === undefined) throw new Error(`The application does not share ${name}.`);
  return first[1];
}

function loaded(one: Shared): number {
  return one.loaded ? 1 : 0;
}

/** By numbers; a release comes after its own candidates. */
function compare(a: string, b: string): number {
  const [[one = "", early], [other = "", candidate]] = [a.split("-"), b.split("-")];
  return (
    one.localeCompare(other, "en", { numeric: true }) || Number(early === undefined) - Number(candidate === undefined)
  );
}
