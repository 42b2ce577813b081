// Bundles the face into agent_kernel_widgets/static: one module and one style sheet.
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
const outdir = at("agent_kernel_widgets/static");

await build({
  entryPoints: [
    { in: at("src/index.ts"), out: "index" },
    { in: at("src/styles.css"), out: "index" },
  ],
  outdir,
  bundle: true,
  format: "esm",
  target: ["es2022", "chrome111", "firefox115", "safari16.4"],
  minify: true,
  legalComments: "none",
  logLevel: "info",
});
