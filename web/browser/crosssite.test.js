// DA-03: pages of other sites try to start runs and to give commands, with all that Chromium lets a page send.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { lingserve } from "../client/test/server.js";
import { launch, open, test } from "./browser.js";
import { gets, hostile, leaving, posts, speculating, windows } from "./crosssite.js";
import { model } from "./model.js";

// Without the browser's own check of requests to this machine, which not every browser has.
const chrome = await launch({ names: ["ling.test", "evil.test", "app.test"], args: ["--disable-features=LocalNetworkAccessChecks"] });

const listen = (t, handler) =>
  new Promise((resolve) => {
    const server = createServer(handler);
    t.after(() => {
      server.closeAllConnections();
      server.close();
    });
    server.listen(0, "127.0.0.1", () => resolve(server));
  });

/** Stands in front of the server and notes what comes and how it is answered. `pages` are pages of the server's own origin. */
async function recorder(t, pages = {}) {
  const seen = [];
  const changed = [];
  let to;
  const note = (entry) => {
    seen.push(entry);
    for (const look of changed) look();
  };
  const relay = (incoming, answer) => {
    const { method, url, headers } = incoming;
    let body = "";
    const far = request(new URL(url, to), { method, headers }, (response) => {
      note({ method, url: new URL(url, to), headers, body, status: response.statusCode, answer: response.headers });
      answer(response);
    });
    far.on("error", () => incoming.destroy());
    incoming.on("data", (d) => (body += d));
    incoming.pipe(far);
    return far;
  };
  const server = await listen(t, (incoming, outgoing) => {
    const page = pages[incoming.url.replace(/\?.*/, "")];
    if (page) return outgoing.writeHead(200, { "Content-Type": "text/html; charset=utf-8" }).end(page);
    const far = relay(incoming, (response) => {
      outgoing.writeHead(response.statusCode, response.headers);
      response.pipe(outgoing);
    });
    outgoing.on("close", () => far.destroy());
  });
  server.on("upgrade", (incoming, socket) => relay(incoming, () => socket.destroy()));
  return {
    port: server.address().port,
    seen,
    leadTo: (url) => (to = url),
    /** Waits until what was seen is enough. */
    until: (enough, late) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(late())), 40_000);
        const look = () => enough() && (clearTimeout(timer), resolve());
        changed.push(look);
        t.after(() => clearTimeout(timer));
        look();
      }),
  };
}

/** A site of somebody else: its page, a script of a service worker, and redirects. */
async function site(t) {
  let page = "";
  const server = await listen(t, (incoming, outgoing) => {
    const [path, to] = incoming.url.split("?");
    if (path === "/to") return outgoing.writeHead(307, { Location: decodeURIComponent(to) }).end();
    if (path === "/worker.js") return outgoing.writeHead(200, { "Content-Type": "text/javascript" }).end(`fetch(${JSON.stringify(decodeURIComponent(to))}, { mode: "no-cors", headers: { Accept: "text/event-stream" } })`);
    outgoing.writeHead(path === "/" ? 200 : 404, { "Content-Type": "text/html; charset=utf-8" }).end(page);
  });
  return { port: server.address().port, serve: (text) => (page = text) };
}

/** A server that listens without keys, known as ling.test, with a model that says what the test wants; and a site of somebody else. */
async function world(t, { pages, origins = [] } = {}) {
  const script = await model(t);
  const way = await recorder(t, pages);
  const evil = await site(t);
  const server = await lingserve(t, {
    env: script.env,
    config: `http: {hosts: [ling.test], origins: [${origins.map((port) => `"http://app.test:${port}", "http://127.0.0.1:${port}"`).join(", ")}]}\nagents:\n  assistant: {ask_always: ["tape.*"]}\n`,
  });
  way.leadTo(server.url);
  return { script, server, way, evil };
}

const anything = { allow: [/./] };
const places = [(port) => `http://127.0.0.1:${port}`, (port) => `http://ling.test:${port}`];
const sources = {
  "a page of another port": (port) => `http://127.0.0.1:${port}`,
  "a page of another name": (port) => `http://evil.test:${port}`,
  "a data: page": () => undefined,
  "a file": () => undefined,
};

// Opens a hostile page as one of the sources has it.
async function show(t, page, source, evil, text) {
  const origin = sources[source](evil.port);
  if (origin) {
    evil.serve(text);
    return page.goto(origin + "/");
  }
  if (source === "a data: page") return page.goto("data:text/html," + encodeURIComponent(text));
  const folder = mkdtempSync(join(tmpdir(), "lingserve-hostile-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, "page.html"), text);
  return page.goto(pathToFileURL(join(folder, "page.html")).href);
}

// What Chromium does not send from such a page, so that nothing is to arrive.
function sends(name, source) {
  const http = source.startsWith("a page");
  switch (name) {
    case "link icon": // not in a browser without windows
    case "fetch same-origin":
    case "fetch navigate":
    case "worker":
      return false;
    case "img behind a redirect":
    case "form POST behind a redirect":
      return http;
    case "ping":
      return source !== "a data: page";
    case "service worker": // 127.0.0.1 counts as secure
      return source === "a page of another port";
    default:
      return true;
  }
}

// Which of the attempts a request is.
function attempt({ method, url, headers, body }) {
  if (method === "GET") return url.searchParams.get("input");
  if (method === "OPTIONS") return "fetch POST of JSON"; // what a browser asks before it sends that
  if (headers["content-type"] === "text/ping") return "ping";
  const plain = headers["content-type"]?.includes("form") ? decodeURIComponent(body.replaceAll("+", " ")) : body;
  return /"input":"([^"]+)"/.exec(plain)?.[1];
}

for (const place of places) {
  for (const source of Object.keys(sources)) {
    const loopback = place === places[0];
    test(`${source} starts no run at ${loopback ? "this machine" : "a name over plain http"}`, async (t) => {
      const { script, way, evil } = await world(t);
      const to = place(way.port);
      const page = await open(t, chrome, to, anything);
      for (const tries of [{ ...gets, ...posts }, windows, leaving]) {
        const text = hostile(tries, (name) => ({
          url: `${to}/v1/runs${name in posts || name.startsWith("form POST") ? "" : `?workflow=chat&input=${encodeURIComponent(name)}`}`,
          body: name === "form" ? undefined : JSON.stringify({ workflow: "chat", input: name }),
        }), sources[source](evil.port));
        await show(t, page, source, evil, text);
        const expected = Object.keys(tries).filter((name) => sends(name, source));
        const missing = () => expected.filter((name) => !way.seen.some((r) => attempt(r) === name));
        await way.until(() => missing().length === 0, () => `these did not arrive: ${missing().join(", ")}; the model was asked ${script.questions.join(", ")}`);
      }
      for (const r of way.seen.filter((r) => r.url.pathname === "/v1/runs")) {
        assert.ok(r.method === "OPTIONS" || r.status === 403, `${attempt(r)}: ${r.status}`);
        assert.equal(r.answer["access-control-allow-origin"], undefined);
      }
      assert.deepEqual(script.questions, []);
    });
  }
}

// What was asked for to start a run, or to give a command.
const starts = (way) => way.seen.filter((r) => r.url.pathname === "/v1/runs");

test("a prefetch and a prerender by another page start no run and approve no call", async (t) => {
  const { script, server, way, evil } = await world(t);
  const to = places[0](way.port);
  const id = (await (await fetch(server.runs, { method: "POST", headers: { "Content-Type": "application/json", Prefer: "respond-async" }, body: JSON.stringify({ agent: "assistant", session: "victim", input: "How long is this?" }) })).json()).run;
  const asked = await script.asked();
  await asked.call("tape_info");
  await asked.end();
  const waits = await (await fetch(`${server.runs}/${id}/events?format=jsonl`)).body.getReader();
  let text = "";
  let question;
  while (!(question = /"approval_required","data":(\{.*\})\}\n/.exec(text))) text += new TextDecoder().decode((await waits.read()).value);
  const approve = ",approve " + JSON.parse(question[1]).id;
  await waits.cancel();
  const page = await open(t, chrome, to, anything);
  for (const source of ["a page of another port", "a page of another name"]) {
    for (const kind of ["prefetch", "prerender"]) {
      for (const query of [{ workflow: "chat", input: "run" }, { agent: "assistant", session: "victim", input: approve }]) {
        const before = starts(way).length;
        await show(t, page, source, evil, speculating(kind, `${to}/v1/runs?${new URLSearchParams({ ...query, key: `${kind} ${source}`.replaceAll(" ", "-") })}`));
        await way.until(() => starts(way).length > before, () => `no answer to a ${kind} by ${source}; the model was asked ${script.questions.join(", ")}`);
        const { status, headers } = starts(way).at(-1);
        assert.equal(status, 403);
        assert.match(headers["sec-purpose"], /^prefetch/); // else this test says nothing
        assert.equal(headers["sec-fetch-site"], "none");
      }
    }
  }
  assert.equal(script.questions.length, 1);
  assert.equal((await (await fetch(`${server.runs}/${id}`)).json()).status, "running", "the call still waits");
});

const listens = (url) => `<!doctype html><meta charset="utf-8"><title>test</title><link rel="icon" href="data:,"><script>
  const told = []; const source = new EventSource(${JSON.stringify(url)});
  source.onmessage = (e) => told.push(JSON.parse(e.data).delta);
  source.addEventListener("finished", () => (source.close(), told.push("finished")));</script>`;

for (const place of places) {
  const name = place === places[0] ? "this machine" : "a name over plain http";
  test(`an EventSource of the server's own page, and one of a site that is allowed, start runs at ${name}`, async (t) => {
    const app = await site(t);
    const { script, way } = await world(t, { pages: { "/own": listens("/v1/runs?workflow=chat&input=Why") }, origins: [app.port] });
    const to = place(way.port);
    const page = await open(t, chrome, to, anything);
    for (const at of [to + "/own", `http://app.test:${app.port}/`, `http://127.0.0.1:${app.port}/`]) {
      app.serve(listens(to + "/v1/runs?workflow=chat&input=Why"));
      await page.goto(at);
      await (await script.asked()).end("Hello");
      await page.until(() => told.includes("finished"));
      assert.deepEqual(await page.evaluate(() => told), ["Hello", "finished"], `${at} at ${to}`);
    }
  });
}
