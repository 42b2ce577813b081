// Bundles the front end: the widget's module and style sheet, and the JupyterLab extension.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build, transform } from "esbuild";

const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
const common = {
  bundle: true,
  target: ["es2022", "chrome111", "firefox115", "safari16.4"],
  minify: true,
  legalComments: "none",
};

await build({
  ...common,
  entryPoints: [
    { in: at("src/index.ts"), out: "index" },
    { in: at("src/styles.css"), out: "index" },
  ],
  outdir: at("agent_kernel_widgets/static"),
  format: "esm",
  logLevel: "info",
});

// The extension is a folder as JupyterLab's own builder makes it: see `lab/container.ts`.
const NAME = "agent-kernel";
const DESCRIPTION = "The JupyterLab extension of Agent Kernel: what a cell's output cannot do by itself.";
const { version, license } = JSON.parse(readFileSync(at("package.json"), "utf8"));
const container = await build({
  ...common,
  entryPoints: [at("lab/container.ts")],
  format: "iife",
  globalName: "federation",
  write: false,
});
const extension = await build({
  ...common,
  entryPoints: [at("lab/src/index.ts")],
  format: "cjs",
  external: ["@jupyterlab/*", "@lumino/*"],
  loader: { ".css": "text" },
  metafile: true,
  write: false,
});
const { imports } = Object.values(extension.metafile.outputs)[0];
const shared = [...new Set(imports.filter((one) => one.external).map((one) => one.path))];
const { code } = await transform(
  `(() => {
    ${container.outputFiles[0].text}
    (globalThis._JUPYTERLAB ??= {})[${JSON.stringify(NAME)}] = federation.container(${JSON.stringify(shared)}, (require, module) => {
      ${extension.outputFiles[0].text}
    });
  })();`,
  { minify: true },
);
const entry = `static/remoteEntry.${createHash("sha256").update(code).digest("hex").slice(0, 16)}.js`;
const folder = at("lab/labextension");
rmSync(folder, { recursive: true, force: true });
mkdirSync(`${folder}/static`, { recursive: true });
writeFileSync(`${folder}/${entry}`, code);
const json = (name, value) => writeFileSync(`${folder}/${name}`, `${JSON.stringify(value, null, 2)}\n`);
json("package.json", {
  name: NAME,
  version,
  description: DESCRIPTION,
  license,
  jupyterlab: { extension: true, _build: { load: entry, extension: "./extension" } },
});
json("install.json", {
  packageManager: "python",
  packageName: NAME,
  uninstallInstructions: `Use your Python package manager (pip, conda) to uninstall ${NAME}`,
});
