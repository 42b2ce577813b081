// Bundles the front end: the widget's module and style sheet, and the JupyterLab extension.
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { build, transform } from "esbuild";

const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
const common = {
  bundle: true,
  target: ["es2022", "chrome111", "firefox115", "safari16.4"],
  minify: true,
  legalComments: "none",
};

// The style sheet is part of the module, so that a page asks for one file.
const styles = {
  name: "styles",
  setup: (building) =>
    building.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { target, minify } = common;
      const { code } = await transform(readFileSync(path, "utf8"), { loader: "css", target, minify });
      return { contents: code.trim(), loader: "text" };
    }),
};
const widget = { ...common, entryPoints: [at("src/index.ts")], format: "esm", plugins: [styles], logLevel: "info" };
const made = at("agent_kernel_widgets/static");
rmSync(made, { recursive: true, force: true });
// For pages of a server that has the extension: in parts, named by what is in them, and cached for good.
const { metafile: parts } = await build({
  ...widget,
  outdir: `${made}/parts`,
  entryNames: "cards-[hash]",
  chunkNames: "part-[hash]",
  splitting: true,
  metafile: true,
});
const [first] = Object.entries(parts.outputs).find(([, part]) => part.entryPoint?.endsWith("src/index.ts"));
const define = { FIRST_PART: JSON.stringify(basename(first)) };
// What the widget itself sends to such a page.
await build({
  ...common,
  entryPoints: [at("src/loader.ts")],
  outfile: `${made}/loader.js`,
  format: "esm",
  define,
  logLevel: "info",
});
// For all others, in one.
await build({ ...widget, outfile: `${made}/index.js` });

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
  define,
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
    (globalThis._JUPYTERLAB ??= {})[${JSON.stringify(NAME)}] = federation.container(${JSON.stringify(shared)}, "@jupyterlab/cells", (require, module) => {
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
// Where JupyterLab looks for the schema of the plugin that the file is named after.
cpSync(at("lab/schema"), `${folder}/schemas/${NAME}`, { recursive: true });
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
