// DP-01: apps as Vite makes them, with the client installed from its tarball as docs/frontend.md says; npm gets what they need.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { lingserve } from "../client/test/server.js";
import { file, launch, open, test } from "./browser.js";
import { code } from "./documents.js";
import { model } from "./model.js";

const chrome = await launch();
const { devDependencies: versions } = JSON.parse(readFileSync(file("web/browser/package.json")));
const { version } = JSON.parse(readFileSync(file("web/client/package.json")));
const tarball = `lingserve-client-${version}.tgz`;
const pick = (...names) => Object.fromEntries(names.map((name) => [name, versions[name]]));

const page = (entry) => `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>app</title><link rel="icon" href="data:,"></head>
<body><div id="app"></div><script type="module" src="/src/${entry}"></script></body></html>`;

const apps = {
  React: {
    packages: { dependencies: pick("react", "react-dom"), devDependencies: pick("vite", "@vitejs/plugin-react") },
    files: {
      "vite.config.js": code("docs/frontend.md", "js", "@vitejs/plugin-react"),
      "index.html": page("main.jsx"),
      "src/main.jsx": `import { StrictMode } from "react"; import { createRoot } from "react-dom/client"; import App from "./App.jsx";
        createRoot(document.querySelector("#app")).render(<StrictMode><App /></StrictMode>);`,
      "src/App.jsx": code("docs/frontend.md", "jsx", "export default"),
    },
    ask: async (page) => {
      await page.getByLabel("Question").fill("Why is the sky blue?");
      await page.keyboard.press("Enter");
    },
  },
  Vue: {
    packages: { dependencies: pick("vue"), devDependencies: pick("vite", "@vitejs/plugin-vue") },
    files: {
      "vite.config.js": 'import vue from "@vitejs/plugin-vue"; export default { plugins: [vue()] };',
      "index.html": page("main.js"),
      "src/main.js": 'import { createApp } from "vue"; import Article from "./Article.vue"; createApp(Article, { question: "Why is the sky blue?" }).mount("#app");',
      "src/Article.vue": code("web/client/README.md", "vue", "useRun"),
    },
    ask: async () => {},
  },
};

test("the documents name the tarball by its version", () => {
  for (const path of ["docs/frontend.md", "web/client/README.md"]) {
    assert.deepEqual(new Set(readFileSync(file(path), "utf8").match(/lingserve-client-[^ ]*?\.tgz/g)), new Set([tarball]), path);
  }
});

for (const [name, app] of Object.entries(apps)) {
  test(`a fresh ${name} app with the client's tarball is built, after another npm install, too, and shows a run`, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "lingserve-app-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const npm = (...args) => execFileSync("npm", [...args], { cwd: folder, stdio: ["ignore", "pipe", "pipe"], encoding: "utf8" });
    const install = (...args) => npm("install", "--prefer-offline", "--no-audit", "--no-fund", ...args);
    for (const [path, text] of Object.entries({ ...app.files, "package.json": JSON.stringify({ name: "app", private: true, type: "module", scripts: { build: "vite build --base /app/" }, ...app.packages }) })) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    install();
    npm("pack", file("web/client"));
    install(`./${tarball}`);
    npm("run", "build");
    install(); // a link would have taken the package's place here
    assert.ok(lstatSync(join(folder, "node_modules/@lingserve/client")).isDirectory());
    npm("run", "build");

    const files = { "/app/": readFileSync(join(folder, "dist/index.html")) };
    for (const asset of readdirSync(join(folder, "dist/assets"))) files[`/app/assets/${asset}`] = readFileSync(join(folder, "dist/assets", asset));
    const script = await model(t);
    const server = await lingserve(t, { env: script.env });
    const tab = await open(t, chrome, server.url, { files });
    await tab.goto("/app/");
    await app.ask(tab);
    const asked = await script.asked();
    await asked.say('{"title": "Why the sky ');
    await tab.until(() => document.querySelector("h1")?.textContent === "Why the sky ");
    await asked.say("is blue");
    await tab.until(() => document.querySelector("h1").textContent === "Why the sky is blue");
    assert.equal(tab.starts().length, 1);
  });
}
