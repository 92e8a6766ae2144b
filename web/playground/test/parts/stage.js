// Parts of the page by themselves in Chromium, under the page's own rules of what it may load and run.
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { launch, open } from "../../../browser/browser.js";

const require = createRequire(new URL("../../../browser/package.json", import.meta.url));
const { build } = require("esbuild");
const root = fileURLToPath(new URL("../..", import.meta.url));

async function bundled(options) {
  const made = await build({
    absWorkingDir: root,
    bundle: true,
    write: false,
    format: "esm",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    logLevel: "silent",
    ...options,
  });
  return made.outputFiles[0].text;
}

const script = await bundled({ entryPoints: ["test/parts/stage.tsx"] });
const style = await bundled({
  stdin: {
    contents: `@import "./src/style/tokens.css"; @import "./src/style/base.css"; @import "./src/parts/index.css";
      *, ::before, ::after { box-sizing: border-box; }
      body { margin: 0; background: var(--paper); } #stage { padding: 16px; background: var(--surface); }`,
    loader: "css",
    resolveDir: root,
  },
});

const files = {
  "/stage": [
    "text/html",
    `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>A part</title>
     <link rel="icon" href="data:,"><link rel="stylesheet" href="/stage.css"><main><h1 class="sr">A part</h1><h2 class="sr">of it</h2><div id="stage"></div></main><script type="module" src="/stage.js"></script>`,
  ],
  "/stage.css": ["text/css", style],
  "/stage.js": ["text/javascript", script],
};

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

export const chrome = await launch();
export const axe = require.resolve("axe-core/axe.min.js");

/** Opens a page with an empty stage, on a server's origin or one that is not there. */
export async function stage(t, url = "http://127.0.0.1:9", options = {}) {
  const page = await open(t, chrome, url, options);
  await page.context().route(
    (at) => at.origin === url && at.pathname in files,
    (route) => {
      const [contentType, body] = files[new URL(route.request().url()).pathname];
      return route.fulfill({ contentType: contentType + "; charset=utf-8", headers: { "Content-Security-Policy": policy }, body });
    },
  );
  await page.goto("/stage");
  await page.until(() => "stage" in window);
  return Object.assign(page, {
    show: (part, props) => page.evaluate(([part, props]) => window.stage.show(part, props), [part, props]),
  });
}
