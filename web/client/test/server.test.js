// Against the real server, with its scripted model: bin/lingserve, or what LINGSERVE names.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { EventSource } from "eventsource";
import { attach, Fold, run } from "@lingserve/client";
import { lingserve } from "./server.js";

const request = { workflow: "encyclopedia", input: { question: "Why is the sky blue?" } };

// What a caller gets who waits for the document.
async function whole(server, r) {
  const answer = await fetch(`${server.runs}/${r.id}?include=reserved`);
  return answer.json();
}

test("the document is the one that a JSON caller gets, and so is the fold of the events", async (t) => {
  const server = await lingserve(t, { pace: 4000 });
  const r = run(server.runs, request);
  const fold = new Fold();
  const titles = new Map();
  r.subscribe("article/sections/*/title", (title, uri, done) => done && titles.set(uri, title));
  let names = [];
  for await (const e of r) {
    if ("delta" in e) fold.apply(e.uri, e.delta);
    if ("event" in e) names.push(e.event);
  }
  const document = await r;
  const { result, reserved } = await whole(server, r);
  assert.deepEqual(document, result);
  assert.deepEqual(fold.document, result);
  assert.deepEqual({ ...fold.reserved }, reserved ?? {});
  // Within one frame, those that only became complete come last.
  assert.deepEqual(Object.fromEntries(titles), Object.fromEntries(result.article.sections.map((s, i) => [`article/sections/${i}/title`, s.title])));
  assert.deepEqual([names[0], names.at(-1)], ["started", "finished"]);

  assert.deepEqual(await attach(server.runs, r.id), result, "and who comes later gets the same");
});

test("EventSource gives the same", async (t) => {
  const server = await lingserve(t, { pace: 4000 });
  const r = run(server.runs, request, { transport: "eventsource", EventSource, events: ["outline-ready"] });
  const names = new Set();
  for await (const e of r) if ("event" in e) names.add(e.event);
  assert.deepEqual(await r, (await whole(server, r)).result);
  assert.ok(names.has("outline-ready") && names.has("usage") && names.has("finished"), [...names].join());
});

test("a proxy that cuts every connection costs nothing", async (t) => {
  const server = await lingserve(t, { pace: 2000 });
  let connections = 0;
  // Each body ends after so many bytes, wherever that is.
  const cut = async (url, init) => {
    const answer = await fetch(url, init);
    const most = 700 * ++connections;
    let sent = 0;
    const body = answer.body.pipeThrough(new TransformStream({
      transform(chunk, out) {
        out.enqueue(chunk.slice(0, most - sent));
        sent += chunk.length;
        if (sent >= most) out.error(new Error("cut"));
      },
    }));
    // The pause that the server asks for is too long for a test.
    const fast = body.pipeThrough(new TextDecoderStream()).pipeThrough(new TransformStream({ transform: (text, out) => out.enqueue(text.replace(/^retry: \d+/, "retry: 1")) }));
    return new Response(fast.pipeThrough(new TextEncoderStream()), { status: answer.status, headers: answer.headers });
  };
  const r = run(server.runs, request, { fetch: cut, retries: 50 });
  assert.deepEqual(await r, (await whole(server, r)).result);
  assert.ok(connections > 5, `${connections} connections`);
});

// The same workflow, which does not go on after a restart.
const fragile = { fragile: readFileSync(new URL("../../../workflows/encyclopedia.yaml", import.meta.url), "utf8").replace(/^name: .*/m, "name: fragile\nresume: false") };

// Runs a workflow at a server that ends in mid-run and is started again.
async function restarted(t, signal, options, workflow = request.workflow) {
  const server = await lingserve(t, { pace: 100, workflows: fragile, env: { LINGSERVE_GRACE: "1s" } });
  const r = run(server.runs, { ...request, workflow }, options);
  const events = [];
  void (async () => {
    for await (const e of r) if ("event" in e) events.push(e);
  })();
  await new Promise((resolve) => r.subscribe("article/sections/1/title", (_, __, done) => done && resolve())); // what came before is in the database
  const { title } = r.document.article;
  await server.end(signal);
  server.env.LINGSERVE_DEMO_PACE = "4000";
  await server.start();
  const error = await r.then(() => undefined, (e) => e);
  return { server, r, error, title, events };
}

for (const [transport, options] of Object.entries({ fetch: {}, EventSource: { transport: "eventsource", EventSource } })) {
  for (const signal of ["SIGTERM", "SIGKILL"]) {
    test(`${transport}: a server that gets a ${signal} in mid-run and is started again: the run goes on, and nothing is missing or there twice`, async (t) => {
      const { server, r, error, events } = await restarted(t, signal, options);
      assert.equal(error, undefined);
      const { status, result } = await whole(server, r);
      assert.deepEqual([r.status, status], ["completed", "completed"]);
      assert.deepEqual(r.document, result);
      const [{ data }, ...more] = events.filter((e) => e.event === "restarted");
      assert.deepEqual([data.attempt, more], [2, []]);
      assert.ok(data.bots.length > 0 && data.parts.length > 0, JSON.stringify(data));
      assert.equal(events.filter((e) => e.event === "started").length, 1);
      const titles = result.article.sections.map((s) => s.title);
      assert.equal(new Set(titles).size, titles.length);
    });
  }

  test(`${transport}: a run that does not go on is told that it was cut off`, async (t) => {
    const { server, r, error, title } = await restarted(t, "SIGKILL", options, "fragile");
    assert.equal(r.status, "interrupted");
    assert.equal(error.code, "internal");
    assert.ok(error.retryable);
    assert.match(error.message, /the server stopped during this run/);
    // What was on its way to the disk is lost, for everybody.
    const { status, result } = await whole(server, r);
    assert.equal(status, "interrupted");
    assert.deepEqual(r.document, result);
    assert.ok(title.startsWith(result.article?.title ?? ""), `${title}: ${JSON.stringify(result)}`);
  });
}

test("a start that meets no server waits for one, and the key makes it one run", async (t) => {
  const server = await lingserve(t, { pace: 4000 });
  await server.end();
  const r = run(server.runs, request, { key: "one" });
  await server.start();
  const document = await r;
  const again = run(server.runs, request, { key: "one" });
  assert.deepEqual(await again, document);
  assert.equal(again.id, r.id);
});

test("cancel ends the run on the server, and what it made is kept", async (t) => {
  const server = await lingserve(t, { pace: 50 });
  const r = run(server.runs, request);
  await new Promise((resolve) => r.subscribe("article/title", resolve));
  await r.cancel();
  const error = await r.catch((e) => e);
  assert.deepEqual([error.code, r.status], ["canceled", "canceled"]);
  const { status, result } = await whole(server, r);
  assert.equal(status, "canceled");
  assert.deepEqual(r.document, result);
});

test("a call that asks is approved, another one denied, and the model goes on", async (t) => {
  const server = await lingserve(t, { pace: 4000, config: "agents:\n  careful:\n    ask_always: [\"tape.*\"]\n" });
  const ask = async (answer) => {
    const r = run(server.runs, { agent: "careful", session: "s", input: "What does tape info say?" });
    const events = [];
    for await (const e of r) {
      if (e.event === "approval_required") await answer(r, e.data.id);
      if ("event" in e) events.push(e);
    }
    return { r, said: events.filter((e) => e.event === "approval_resolved").map((e) => e.data.decision) };
  };
  const denied = await ask((r, id) => r.approve(id, "deny", { reason: "not today" }));
  assert.deepEqual([denied.said, denied.r.reserved.$tool_results["0"]], [["deny"], null]);
  const approved = await ask(async (r, id) => {
    await r.approve(id, "approve", { remember: "session" });
    await assert.rejects(r.approve(id), { code: "conflict" });
    await assert.rejects(r.approve("a".repeat(26)), { code: "not_found" });
    await assert.rejects(r.approve("call_1"), { code: "gone", status: 410 }); // the model's id of the call
  });
  assert.deepEqual(approved.said, ["approve"]);
  assert.equal(typeof approved.r.reserved.$tool_results["0"].entries, "number");
  assert.deepEqual((await ask(() => assert.fail("it was to be remembered"))).said, []);
  assert.match(await approved.r, /tape_info says/);
});

test("what is wrong with a request is said", async (t) => {
  const server = await lingserve(t);
  const error = await run(server.runs, { workflow: "encyclopedia", input: { question: 7 } }).catch((e) => e);
  assert.deepEqual([error.code, error.status, error.errors], ["invalid_request", 400, [{ pointer: "/input/question", detail: "expected a string, got a number" }]]);
  assert.equal((await run(server.runs, { workflow: "none" }).catch((e) => e)).code, "not_found");
});
