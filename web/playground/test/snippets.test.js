// What is copied from the page works where it is pasted: in a shell, with an EventSource, with the client. Each is run as it stands,
// against the real server, and has to get the document that a plain request gets.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { lingserve } from "../../client/test/server.js";
import { Fold } from "../../client/dist/index.js";
import { client, curl, eventSource, shellWord } from "../node_modules/.page/playground/src/snippets.js";

const run = promisify(execFile);
const nasty = "It's \"so\": $(echo no) `no` \\ \\n ${HOME}\n\ttwo lines, ünïcode 🦑, \u2028 and </script>";
const config = "agents:\n  clerk: {}\n";
const workflows = {
  wide: `name: wide
input:
  type: object
  required: [text]
  properties: {text: {type: string}, deep: {type: object}, many: {type: array}, yes: {type: boolean}, no: {type: number}}
bots:
  echo:
    prompt: "Say it. {{ input | json }}"
    message: "{{ input.text }} {{ input | json }}"
    root: said
    format: text
`,
};

const requests = {
  "a text": { workflow: "chat", input: { message: "Hello" } },
  "a text with all that shells and scripts care about": { workflow: "chat", input: { message: nasty } },
  "an input that is a string": { workflow: "chat", input: nasty },
  "a string that looks like JSON": { workflow: "chat", input: "[1, 2]" },
  "a string that looks like a number": { workflow: "chat", input: "7" },
  "an input of many kinds": { workflow: "wide", input: { text: nasty, deep: { a: { "b'c": [null, 1.5] } }, many: ["'", '"'], yes: false, no: -1e3 } },
  "options, a model and a filter": {
    workflow: "encyclopedia", input: { question: "Why is the sky blue?" }, model: "demo:fast",
    options: { temperature: 0.5, max_tokens: 500 }, filter: { exclude: ["article/sections/*/body", "quiz"] },
  },
  "several models": { workflow: "chat", input: { message: "Hello" }, model: ["demo:fast", "demo:demo"] },
  "events for HTML": { workflow: "page", input: { question: "What is rain?" }, model: "demo:fast", html: true },
  "an agent": { agent: "clerk", input: nasty },
};

function script(t, text) {
  const folder = mkdtempSync(join(tmpdir(), "lingserve-snippet-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, "node_modules", "@lingserve"), { recursive: true });
  symlinkSync(fileURLToPath(new URL("../../client", import.meta.url)), join(folder, "node_modules", "@lingserve", "client"));
  // What is said to the console comes as lines of JSON.
  writeFileSync(join(folder, "console.mjs"), "console.log = (...said) => process.stdout.write(JSON.stringify(said) + '\\n');\n");
  writeFileSync(join(folder, "snippet.mjs"), text);
  const imports = ["--import", pathToFileURL(join(folder, "console.mjs")).href];
  return run(process.execPath, [...imports, join(folder, "snippet.mjs")], { cwd: folder, timeout: 600_000, maxBuffer: 64 << 20 })
    .then(({ stdout, stderr }) => ({ stderr, said: stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line)) }));
}

// What stands for itself in an agent's answer: its session is another one each time, and nothing of it is in the text.
test("what is copied gets the document that a plain request gets", { timeout: 600_000 }, async (t) => {
  const server = await lingserve(t, { pace: 0, config, workflows });
  for (const [name, request] of Object.entries(requests)) {
    const answer = await fetch(server.runs, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request) });
    const want = await answer.json();
    assert.equal(want.status, "completed", `${name}: ${JSON.stringify(want)}`);

    await t.test(`${name}, with curl`, async () => {
      const { stdout } = await run("bash", ["-c", curl(server.url, request)], { timeout: 600_000, maxBuffer: 64 << 20 });
      const events = stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line));
      assert.equal(events[0].event, "started");
      assert.deepEqual(events.at(-1).data, { status: "completed" });
      const fold = new Fold();
      for (const e of events) if ("delta" in e) fold.apply(e.uri, e.delta);
      assert.deepEqual(fold.document, want.result);
    });

    await t.test(`${name}, with an EventSource`, async (t) => {
      const polyfill = import.meta.resolve("eventsource");
      const { said, stderr } = await script(t, `import { EventSource } from ${JSON.stringify(polyfill)};\n` + eventSource(server.url, request));
      assert.equal(stderr, "");
      assert.deepEqual(said.at(-1), ["finished", '{"status":"completed"}']);
      const fold = new Fold();
      for (const [uri, delta] of said.slice(0, -1)) fold.apply(uri, delta);
      assert.deepEqual(fold.document, want.result);
    });

    await t.test(`${name}, with the client`, async (t) => {
      const { said, stderr } = await script(t, client(server.url, request));
      assert.equal(stderr, "");
      assert.deepEqual(said.at(-1), [want.result]);
    });
  }
});

test("what is copied works with the key of a server that asks for one, and has no key in it", { timeout: 600_000 }, async (t) => {
  const key = "ann-0123456789-abcdefghij";
  const server = await lingserve(t, { pace: 0, env: { LINGSERVE_API_KEYS: `ann:${key}:user` } });
  process.env.LINGSERVE_KEY = key;
  t.after(() => delete process.env.LINGSERVE_KEY);
  const request = { workflow: "chat", input: "Hello" };
  const inShell = await run("bash", ["-c", curl(server.url, request, true)]);
  assert.match(inShell.stdout, /"completed"/);
  const polyfill = import.meta.resolve("eventsource");
  const source = await script(t, `import { EventSource } from ${JSON.stringify(polyfill)};\n` + eventSource(server.url, request, true));
  assert.deepEqual(source.said.at(-1), ["finished", '{"status":"completed"}']);
  const whole = await script(t, client(server.url, request, true));
  assert.ok(whole.said.at(-1)[0].answer);
  for (const of of [curl, eventSource, client]) assert.doesNotMatch(of(server.url, request, true), /ann-/);
  assert.match((await run("bash", ["-c", curl(server.url, request)])).stdout, /unauthorized/);
});

test("a text is one word of a shell, whatever is in it", async () => {
  for (const text of ["", "'", "''", "a'b", nasty, "-n", "\\"]) {
    const { stdout } = await run("bash", ["-c", `printf %s ${shellWord(text)}`]);
    assert.equal(stdout, text);
  }
});
