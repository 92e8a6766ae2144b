// What docs/frontend.md and the client's README print, built and driven as it stands there.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { lingserve } from "../client/test/server.js";
import { file, launch, open, test } from "./browser.js";
import { site } from "./bundle.js";
import { code } from "./documents.js";
import { model } from "./model.js";

const chrome = await launch();

// A page on a server whose model says what the test wants.
async function start(t, files) {
  const script = await model(t);
  const server = await lingserve(t, { env: script.env });
  return { script, page: await open(t, chrome, server.url, { files }) };
}

// Writes the outline of an encyclopedia's article: its title word by word, each when the one before is shown.
async function outline(script, shown) {
  const asked = await script.asked();
  let title = "";
  await asked.say('{"title": "');
  for (const word of ["Why ", "the sky ", "is blue"]) {
    await asked.say(word);
    await shown((title += word));
  }
  await asked.end('", "summary": "It scatters.", "sections": [{"title": "Light"}, {"title": "Air"}]}');
}

// Writes the sections, too, and the quiz.
async function article(script, shown) {
  await outline(script, shown);
  for (let i = 0; i < 2; i++) {
    const asked = await script.asked();
    await asked.end(`Of ${/The section to write: (\w+)/.exec(asked.question)[1]}.`);
  }
  await (await script.asked()).end('{"questions": []}');
}

const heading = (page) => (text) => page.until((text) => document.querySelector("h1")?.textContent.trim() === text.trim(), text);

// What Vite's template has around App.
const main = (component, props) => `
  import { createElement, StrictMode } from "react";
  import { createRoot } from "react-dom/client";
  import App from "./${component}.jsx";
  createRoot(document.querySelector("#app")).render(createElement(StrictMode, null, createElement(App, ${JSON.stringify(props)})));`;

test("docs/frontend.md: fifteen lines of React are a page that grows", async (t) => {
  const lines = code("docs/frontend.md", "jsx", "export default");
  assert.ok(lines.split("\n").filter((line) => line.trim()).length <= 15, "they are more than fifteen");
  const { script, page } = await start(t, await site(main("App", {}), { modules: { "./App.jsx": lines } }));
  await page.goto("/test");
  assert.equal(page.starts().length, 0);
  await page.getByLabel("Question").fill("Why is the sky blue?");
  await page.keyboard.press("Enter");
  await article(script, heading(page));
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  assert.deepEqual(await page.locator("section").allInnerTexts(), ["Light\n\nOf Light.", "Air\n\nOf Air."]);

  await page.getByLabel("Question").fill("Why do cats purr?");
  await page.keyboard.press("Enter");
  const asked = await script.asked();
  assert.match(asked.question, /cats/);
  await page.getByRole("button", { name: "Stop" }).click();
  assert.equal(await page.getByRole("alert").textContent(), "the run was canceled");
  await asked.closed;
  assert.equal(page.starts().length, 2);
});

test("docs/frontend.md: the lines without a framework show each section's text, and whether it is complete", async (t) => {
  const lines = code("docs/frontend.md", "js", "@lingserve/client");
  const source = `window.shown = {}; const show = (uri, text, done) => (shown[uri] = [text, done]);\n${lines}\nwindow.over = article;`;
  const { script, page } = await start(t, await site(source));
  await page.goto("/test");
  await article(script, () => {});
  const over = await page.until(() => window.over);
  assert.equal(over.title, "Why the sky is blue");
  assert.deepEqual(await page.evaluate(() => shown), { "article/sections/0/body": ["Of Light.", true], "article/sections/1/body": ["Of Air.", true] });
});

test("docs/frontend.md: the lines for a conversation show the answer, and ask before a tool runs", async (t) => {
  const script = await model(t);
  const server = await lingserve(t, { env: script.env, config: 'agents:\n  assistant:\n    ask_always: ["tape.*"]\n' });
  const source = `
    import { run } from "@lingserve/client";
    window.shown = []; window.asked = [];
    const message = "How long is this?", show = (uri, text, done) => shown.push([uri, text, done]), confirm = (text) => asked.push(text) === 2;
    ${code("docs/frontend.md", "js", "approval_required")}
    window.over = await r;`;
  const page = await open(t, chrome, server.url, { files: await site(source) });
  await page.goto("/test");
  for (let i = 0; i < 2; i++) {
    const asked = await script.asked();
    await asked.call("tape_info");
    await asked.end();
  }
  await (await script.asked()).end("Not long.");
  assert.equal(await page.until(() => window.over), "Not long.");
  assert.deepEqual(await page.evaluate(() => [shown.at(-1), asked]), [["", "Not long.", true], ["May tape.info run?", "May tape.info run?"]]);
});

test("docs/tutorial.md: the descriptions of dishes grow while the chef still writes", async (t) => {
  const script = await model(t);
  const server = await lingserve(t, { env: script.env, workflows: { menu: code("docs/tutorial.md", "yaml", "name: menu") } });
  const files = {
    "/index.html": code("docs/tutorial.md", "html", "client.min.js"),
    "/client.min.js": readFileSync(file("web/client/dist/client.min.js")),
  };
  const page = await open(t, chrome, server.url, { files });
  await page.goto("/index.html");
  const shown = (items) => page.until((items) => String(Array.from(document.querySelectorAll("li"), (li) => li.textContent)) === items, String(items));
  await page.getByRole("button", { name: "Write" }).click();
  const chef = await script.asked();
  assert.match(chef.question, /Italian/);
  await chef.say('{"evening": "Roma", "dishes": [{"name": "Ravioli"}, ');
  await (await script.asked()).end("Filled pasta.");
  await shown(["Ravioli: Filled pasta."]);
  await chef.end('{"name": "Rolls"}, {"name": "Ice"}]}');
  for (let i = 0; i < 2; i++) {
    const asked = await script.asked();
    await asked.end(asked.question.includes("Rolls") ? "Of veal." : "Of lemons.");
  }
  await (await script.asked()).end("A red wine.");
  await shown(["Ravioli: Filled pasta.", "Rolls: Of veal.", "Ice: Of lemons."]);
  await page.getByText("A red wine.").waitFor();
  assert.equal(await page.locator("h1").textContent(), "Roma");
});

test("web/client/README.md: the page without a bundler grows", async (t) => {
  const html = code("web/client/README.md", "html", "client.min.js");
  const { script, page } = await start(t, {
    "/page.html": `<!doctype html><meta charset="utf-8"><title>test</title><link rel="icon" href="data:,">${html}`,
    "/client.min.js": readFileSync(file("web/client/dist/client.min.js")),
  });
  await page.goto("/page.html");
  await outline(script, heading(page));
  const items = ["Light", "Air"];
  await page.until((items) => String(Array.from(document.querySelectorAll("li"), (li) => li.textContent)) === items, String(items));
});

const jsx = code("web/client/README.md", "jsx", "useRun").replace("function Article", "export default function Article");
const vue = code("web/client/README.md", "vue", "useRun");
const props = { question: "Why is the sky blue?" };
for (const [name, source, modules] of [
  ["React", main("Article", props), { "./Article.jsx": jsx }],
  ["Vue", `import { createApp } from "vue"; import Article from "./Article.vue"; createApp(Article, ${JSON.stringify(props)}).mount("#app");`, { "./Article.vue": vue }],
]) {
  test(`web/client/README.md: the component of ${name} shows the title as it is written`, async (t) => {
    const { script, page } = await start(t, await site(source, { modules }));
    await page.goto("/test");
    await outline(script, heading(page));
    assert.equal(page.starts().length, 1);
  });
}
