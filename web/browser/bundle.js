// Pages made as front-end developers make them: with a bundler, of the package as it is published.
import { readFileSync } from "node:fs";
import { build } from "esbuild";
import { compileScript, parse } from "vue/compiler-sfc";
import { file } from "./browser.js";

const here = file("web/browser");

/**
 * Bundles a module for the browser. `modules` are more of them, by the path that they are imported as; those that end in .vue
 * are components. `react` is the version of React.
 */
export async function bundle(source, { modules = {}, react = 19 } = {}) {
  const old = react === 19 ? "" : `-${react}`;
  const result = await build({
    stdin: { contents: source, resolveDir: here, loader: "jsx" },
    absWorkingDir: here,
    bundle: true,
    write: false,
    format: "esm",
    jsx: "automatic",
    logLevel: "silent",
    // Strict mode does what it does in development only.
    define: { "process.env.NODE_ENV": '"development"', __VUE_OPTIONS_API__: "true", __VUE_PROD_DEVTOOLS__: "false", __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: "false" },
    alias: { react: `react${old}`, "react-dom": `react-dom${old}`, vue: "vue" },
    plugins: [{ name: "modules", setup: (b) => setup(b, modules) }],
  });
  return result.outputFiles[0].text;
}

function setup(b, modules) {
  // What the package exports, by its own package.json.
  const { exports } = JSON.parse(readFileSync(file("web/client/package.json")));
  b.onResolve({ filter: /^@lingserve\/client/ }, ({ path }) => ({ path: file(`web/client/${exports[path.replace("@lingserve/client", ".")].import.default}`) }));
  b.onResolve({ filter: /^\.\// }, ({ path }) => (path in modules ? { path, namespace: "modules" } : undefined));
  b.onLoad({ filter: /./, namespace: "modules" }, ({ path }) => {
    if (!path.endsWith(".vue")) return { contents: modules[path], loader: "jsx", resolveDir: here };
    const { descriptor, errors } = parse(modules[path]);
    if (errors.length > 0) throw errors[0];
    return { contents: compileScript(descriptor, { id: path, inlineTemplate: true }).content, loader: "js", resolveDir: here };
  });
}

/** The files of a page that loads a bundle, with an element #app. */
export async function site(source, options) {
  const script = await bundle(source, options);
  return {
    "/test": '<!doctype html><meta charset="utf-8"><title>test</title><link rel="icon" href="data:,"><div id="app"></div><script type="module" src="/bundle.js"></script>',
    "/bundle.js": script,
  };
}
