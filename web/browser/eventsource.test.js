// The browser's own EventSource, with the lines that the README and the protocol print.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Fold } from "../client/dist/index.js";
import { lingserve } from "../client/test/server.js";
import { file, launch, open, test } from "./browser.js";
import { code } from "./documents.js";
import { model } from "./model.js";
import { network } from "./network.js";

const chrome = await launch();
const page = (script, body = "") => ({ "/test": `<!doctype html><meta charset="utf-8"><title>test</title><link rel="icon" href="data:,">${body}<script>${script}</script>` });
const whole = async (server, id) => (await fetch(`${server.runs}/${id}`)).json();

test("README: the lines for EventSource log the run as it grows, and stop at its end", async (t) => {
  const server = await lingserve(t, { pace: 4000 });
  const lines = code("README.md", "js", "new EventSource(");
  const p = await open(t, chrome, server.url, { files: page(lines) });
  const logged = [];
  p.on("console", (m) => logged.push(m.args()[0].jsonValue()));
  await p.goto("/test");
  await p.until(() => run.readyState === EventSource.CLOSED);
  assert.equal(p.starts().length, 1, "it has not come back after its end");
  const response = await p.starts()[0].response();
  const { status, result } = await whole(server, response.headers()["x-run-id"]);
  assert.equal(status, "completed");
  const fold = new Fold();
  for (const { uri, delta } of await Promise.all(logged)) fold.apply(uri, delta);
  assert.deepEqual(fold.document, result);
});

test("docs/protocol.md: the lines of the first run apply every delta", async (t) => {
  const server = await lingserve(t, { pace: 4000 });
  const lines = code("docs/protocol.md", "js", "new EventSource(");
  const p = await open(t, chrome, server.url, {
    files: page(`const question = "Why is the sky blue? & more"; const deltas = []; const apply = (uri, delta) => deltas.push([uri, delta]); ${lines}`),
  });
  await p.goto("/test");
  await p.until(() => source.readyState === EventSource.CLOSED);
  const fold = new Fold();
  for (const [uri, delta] of await p.evaluate(() => deltas)) fold.apply(uri, delta);
  const response = await p.starts()[0].response();
  const { result } = await whole(server, response.headers()["x-run-id"]);
  assert.deepEqual(fold.document, result);
  assert.match(result.article.summary, /Why is the sky blue\? & more/);
});

const hostile = `<h1>Title</h1><script>window.hit = 1</script><img src="https://example.com/x.png" onerror="window.hit = 2">
<p onclick="window.hit = 3">One <a href="#two">two</a> <a href="javascript:window.hit=4">three</a><iframe src="https://example.com/"></iframe><p id="two">Four`;

test("docs/protocol.md: the lines for HTML build the page, and nothing that a model has put into it runs", async (t) => {
  const script = await model(t);
  const server = await lingserve(t, { env: script.env });
  const lines = code("docs/protocol.md", "js", 'addEventListener("html"');
  const open_ = `const source = new EventSource("/v1/runs?workflow=page&input=Why&html=1"); source.addEventListener("finished", () => source.close());`;
  const p = await open(t, chrome, server.url, { files: page(open_ + lines, '<div id="page"></div>') });
  await p.goto("/test");
  const asked = await script.asked();
  for (let at = 0; at < hostile.length; at += 7) await asked.say(hostile.slice(at, at + 7));
  await asked.end();
  await p.until(() => source.readyState === EventSource.CLOSED);
  assert.equal(await p.evaluate(() => document.querySelector("#page h1").textContent), "Title");
  assert.deepEqual(await p.evaluate(() => Array.from(document.querySelectorAll("#page a"), (a) => a.getAttribute("href"))), ["#two", null]);
  assert.equal(await p.evaluate(() => document.querySelectorAll("#page :is(script, img, iframe, [onclick], [onerror])").length), 0);
  assert.equal(await p.evaluate(() => window.hit), undefined);
});

// An EventSource that its page does not close.
const left = `const told = []; const source = new EventSource("/v1/runs?workflow=chat&input=Why&key=one");
  const deltas = [];
  source.onmessage = (e) => {
    const { uri, delta } = JSON.parse(e.data);
    deltas.push([uri, delta]);
    told.push(delta);
  };
  for (const name of ["started", "error", "restarted", "finished"]) source.addEventListener(name, (e) => e.data && told.push(name));`;
const broken = [/Failed to load resource: net::ERR_/];

test("an EventSource that is left open gets a 204 after the end, which stops it", async (t) => {
  const script = await model(t);
  const server = await lingserve(t, { env: script.env });
  const p = await open(t, chrome, (await network(t, server.url)).url, { files: page(left) });
  await p.goto("/test");
  const asked = await script.asked();
  await asked.end("Hello");
  await p.until(() => source.readyState === EventSource.CLOSED);
  assert.deepEqual(await p.evaluate(() => told), ["started", "Hello", "finished"]);
  const answers = await Promise.all(p.starts().map(async (r) => (await r.response()).status()));
  assert.deepEqual(answers, [200, 204]);
});

test("an EventSource goes on by itself at a server that was restarted, and is not told anything twice", async (t) => {
  const script = await model(t);
  const server = await lingserve(t, { env: script.env });
  const net = await network(t, server.url);
  const p = await open(t, chrome, net.url, { files: page(left), allow: broken });
  await p.goto("/test");
  const asked = await script.asked();
  await asked.say("Hel");
  await p.until(() => told.includes("Hel"));
  net.cut(); // else it would all be told before the server ends
  const stopped = server.end("SIGTERM");
  await asked.end("lo");
  await stopped;
  net.up();
  await server.start();
  await p.until(() => source.readyState === EventSource.CLOSED);
  assert.deepEqual(await p.evaluate(() => told), ["started", "Hel", "lo", "finished"]);
});

test("an EventSource at a server that was killed is told what is written again, and stops at the end", async (t) => {
  const script = await model(t);
  const server = await lingserve(t, { env: script.env });
  const p = await open(t, chrome, (await network(t, server.url)).url, { files: page(left), allow: broken });
  await p.goto("/test");
  await (await script.asked()).say("Hel");
  await p.until(() => told.includes("Hel"));
  await server.written("Hel");
  await server.end("SIGKILL");
  await server.start();
  await (await script.asked()).end("Hello");
  await p.until(() => source.readyState === EventSource.CLOSED);
  const names = await p.evaluate(() => told);
  assert.deepEqual(names.filter((name) => ["started", "error", "restarted", "finished"].includes(name)), ["started", "restarted", "finished"]);
  const fold = new Fold();
  for (const [uri, delta] of await p.evaluate(() => deltas)) fold.apply(uri, delta);
  assert.deepEqual(fold.document, { answer: "Hello" });
});

test("an EventSource at a server that was killed is told that a run is over that does not go on, and stops", async (t) => {
  const script = await model(t);
  const server = await lingserve(t, { env: script.env, workflows: { fragile: readFileSync(file("workflows/chat.yaml"), "utf8").replace(/^name: .*/m, "name: fragile\nresume: false") } });
  const p = await open(t, chrome, (await network(t, server.url)).url, { files: page(left.replace("workflow=chat", "workflow=fragile")), allow: broken });
  await p.goto("/test");
  await (await script.asked()).say("Hel");
  await p.until(() => told.includes("Hel"));
  await server.written("Hel");
  await server.end("SIGKILL");
  await server.start();
  await p.until(() => source.readyState === EventSource.CLOSED);
  // A snapshot has the errors first.
  assert.deepEqual(await p.evaluate(() => told), ["started", "Hel", "error", { answer: "Hel" }, "finished"]);
});
