import assert from "node:assert/strict";
import { test } from "node:test";
import { EventSource } from "eventsource";
import { attach, run, RunError } from "@lingserve/client";
import { delta, done, event, finished, part, problem, scripted, started, stream } from "./server.js";

const request = { workflow: "w", input: "x" };

test("a run is a promise of its document, with the request posted under a key", async (t) => {
  const s = await scripted(t, stream(started + delta(1, "a", "He") + delta(2, "a", "llo") + finished(3)));
  const r = run(s.runs + "?html=1", request, { headers: () => ({ authorization: "Bearer x" }) });
  assert.deepEqual(await r, { a: "Hello" });
  assert.equal(r.id, "r");
  assert.equal(r.status, "completed");
  const [{ method, url, headers, body }] = s.requests;
  assert.deepEqual([method, url, headers.accept, headers.authorization], ["POST", "/v1/runs?html=1", "text/event-stream", "Bearer x"]);
  assert.match(headers["idempotency-key"], /^\d+(-\d+){3}$/);
  assert.deepEqual(JSON.parse(body), { done: true, ...request });
});

test("a broken stream is resumed behind the last event, under the same key", async (t) => {
  const s = await scripted(
    t,
    stream("", "break"),
    stream(started + delta(1, "a", "He") + "id: r:2\ndata: {\"uri\":\"a\",\"del", "break"),
    stream(delta(2, "a", "llo"), "end"),
    stream(delta(2, "a", "llo") + finished(9)),
  );
  assert.deepEqual(await run(s.runs, request), { a: "Hello" });
  assert.deepEqual(s.requests.map((r) => r.headers["last-event-id"]), [undefined, undefined, "r:1", "r:2"]);
  assert.equal(new Set(s.requests.map((r) => r.headers["idempotency-key"])).size, 1);
});

test("a snapshot counts as a whole: what came of one that was cut off is forgotten", async (t) => {
  const s = await scripted(
    t,
    stream(started + delta(1, "$tools/0", "think"), "break"),
    stream(part("", { a: "x" }) + part("$tools/0", "thinking"), "break"),
    stream(part("", { a: "xy" }) + part("$tools/0", null) + delta(7, "$tools/0", "thinking") + finished(8)),
  );
  const r = run(s.runs, request);
  assert.deepEqual(await r, { a: "xy" });
  assert.equal(r.reserved.$tools["0"], "thinking");
});

// RU-06: the numbers of the events go on at the next multiple of 2 ** 32.
for (const transport of ["fetch", "eventsource"]) {
  test(`${transport}: a run that goes on at the next server: what is written again replaces what was taken back`, async (t) => {
    const s = await scripted(
      t,
      stream(started + delta(1, "list", []) + delta(2, "list/0", { title: "One", body: "Old" }) + done(3, "list/0/title") + done(4, "list/0/body") + delta(5, "note", "kept") + done(6, "note"), "break"),
      stream(part("", { list: [{ title: "One", body: "Old" }], note: "kept" }) + done(2 ** 32 - 1, "note")
        + event(2 ** 32, "restarted", { attempt: 2, bots: [{ bot: "item", root: "list/0" }], parts: ["list/0"] }) + delta(2 ** 32 + 1, "list/0", null)
        + delta(2 ** 32 + 2, "list/0/title", "New"), "open"),
    );
    const r = run(s.runs, request, { transport, EventSource });
    const told = [];
    r.subscribe("list/0/*", (value, uri, done) => told.push([uri, value, done]));
    const events = [];
    for await (const e of r) {
      if ("event" in e) events.push(e.event);
      if (e.id === `r:${2 ** 32 + 2}`) break;
    }
    while (told.at(-1)?.[1] !== "New") await new Promise((resolve) => setTimeout(resolve, 1));
    assert.deepEqual(events, ["started", "restarted"]);
    assert.deepEqual(told.at(-1), ["list/0/title", "New", false], "it is not complete any more");
    assert.deepEqual(r.document, { list: [{ title: "New" }], note: "kept" });
    assert.equal(r.status, "running");
    r.close();
    await r.catch(() => {});
  });
}

test("who comes back to a run waits as long as an overloaded server says, and goes on", async (t) => {
  const s = await scripted(
    t,
    stream(started + delta(1, "a", "He"), "break"),
    problem(503, "overloaded", { "Retry-After": "1" }),
    problem(429, "rate_limited", { "Retry-After": "1" }),
    stream(delta(2, "a", "llo") + finished(3)),
  );
  const pauses = [];
  assert.deepEqual(await run(s.runs, request, { waiting: (ms) => pauses.push(ms) }), { a: "Hello" });
  assert.deepEqual(s.requests.map((r) => r.headers["last-event-id"]), [undefined, "r:1", "r:1", "r:1"]);
  assert.ok(pauses.length === 3 && pauses[1] >= 1000 && pauses[2] >= 1000, String(pauses));
});

test("a proxy's 502 is tried again, a problem document and a 204 are final", async (t) => {
  const proxy = (response) => response.writeHead(502, { "Content-Type": "text/html" }).end("<h1>Bad Gateway</h1>");
  const s = await scripted(t, stream("", "break"), proxy, problem(400, "invalid_request"));
  const pauses = [];
  const error = await run(s.runs, request, { waiting: (ms) => pauses.push(ms) }).catch((e) => e);
  assert.ok(error instanceof RunError);
  assert.equal(pauses.length, 2);
  assert.ok(pauses.every((ms) => ms > 0), "whoever asks is told when it is tried again");
  assert.deepEqual([error.code, error.status, error.message, error.errors[0].pointer], ["invalid_request", 400, "no: invalid_request", "/input"]);
  assert.equal(s.requests.length, 3);

  const overloaded = await scripted(t, problem(503, "overloaded", { "Retry-After": "7" }));
  assert.deepEqual(await run(overloaded.runs, request).catch((e) => [e.code, e.retryAfter, e.retryable]), ["overloaded", 7, true]);

  const gone = await scripted(t, stream(started + delta(1, "a", "x"), "break"), (r) => r.writeHead(204).end());
  const r = run(gone.runs, request);
  assert.deepEqual(await r.catch((e) => [e.code, e.run, e.document]), ["gone", "r", { a: "x" }]);
  assert.equal(r.status, "lost");
  assert.equal(gone.requests.length, 2);
});

test("it gives up after as many tries as it was told", async (t) => {
  const s = await scripted(t, stream("", "break"));
  // DP-04: people read the message.
  assert.deepEqual(await run(s.runs, request, { retries: 3 }).catch((e) => [e.code, e.message]), ["unreachable", "the server cannot be reached"]);
  assert.equal(s.requests.length, 4);
  const begun = await scripted(t, stream(started, "break"));
  assert.equal(await run(begun.runs, request, { retries: 1 }).catch((e) => e.message), "the connection broke; the run may continue");
  const page = await scripted(t, (response) => response.writeHead(200, { "Content-Type": "text/html" }).end("<h1>Hello</h1>"));
  assert.equal(await run(page.runs, request).catch((e) => e.message), "the server's answer is not valid");
});

test("a connection without a sign of life is taken for dead", async (t) => {
  const s = await scripted(t, stream(started, "open"), stream(finished(1)));
  assert.deepEqual(await run(s.runs, request, { idle: 50 }), {});
  assert.equal(s.requests.length, 2);
});

test("DP-04: without an option, silence ends a connection after 2.5 of the server's keepalives", async (t) => {
  const limits = [];
  const { setTimeout } = globalThis;
  t.mock.method(globalThis, "setTimeout", (fn, ms, ...rest) => {
    if (ms >= 20_000) limits.push(ms);
    return setTimeout(fn, ms, ...rest);
  });
  const every = (seconds) => (response) => response.writeHead(200, { "Content-Type": "text/event-stream", ...(seconds && { "X-Keepalive": seconds }) }).end(started + finished(1));
  const s = await scripted(t, every(undefined), every("30"));
  await run(s.runs, request);
  assert.deepEqual([...new Set(limits)], [25_000]); // of a server that does not say
  limits.length = 0;
  await run(s.runs, request);
  assert.equal(limits.at(-1), 75_000);
});

test("a run that fails rejects with the reason and what there is; its events end without an error", async (t) => {
  const s = await scripted(t, stream(started + delta(1, "a", "x") + event(2, "error", { code: "upstream_timeout", message: "too slow", retryable: true, fatal: true }) + finished(3, "failed")));
  const r = run(s.runs, request);
  const names = [];
  for await (const e of r) names.push("event" in e ? e.event : e.uri);
  assert.deepEqual(names, ["started", "a", "error", "finished"]);
  const error = await r.catch((e) => e);
  assert.deepEqual([error.code, error.message, error.retryable, error.document, r.status], ["upstream_timeout", "too slow", true, { a: "x" }, "failed"]);
});

test("the reason of a failed run is its first fatal error, or else the last that was not handled (DW-04); that of one that was canceled is no error before", async (t) => {
  const error = (n, code, fatal, handled) => event(n, "error", { code, message: `it is ${code}`, retryable: false, fatal, handled });
  for (const [want, text, said] of [
    ["b", error(1, "a", false) + error(2, "b", false) + finished(4, "failed")],
    ["b", error(1, "a", false) + error(2, "b", false) + error(3, "c", false, true) + finished(4, "failed")],
    ["b", error(1, "a", false) + error(2, "b", true) + error(3, "c", true) + error(4, "d", false) + finished(5, "failed")],
    ["canceled", error(1, "a", false) + event(2, "canceled", { reason: "canceled by request" }), "the run was canceled"],
    ["canceled", event(1, "canceled", { reason: "the run took longer than 1s" }), "the run was canceled: the run took longer than 1s"],
  ]) {
    const s = await scripted(t, stream(started + text));
    const { code, message } = await run(s.runs, request).catch((e) => e);
    assert.deepEqual([code, message], [want, said ?? `it is ${want}`]);
  }
});

test("events that cannot be read end it", async (t) => {
  for (const text of ["id: r:1\ndata: {\n\n", delta(1, "a//b", 1), delta(1, "..", "x")]) {
    const s = await scripted(t, stream(started + text, "open"));
    assert.equal(await run(s.runs, request).catch((e) => e.code), "protocol");
    const ended = await scripted(t, stream(started + text + finished(2), "open"));
    assert.equal(await run(ended.runs, request, { smooth: true }).catch((e) => e.code), "protocol");
  }
  const html = await scripted(t, (r) => r.writeHead(200, { "Content-Type": "text/html" }).end("<h1>"));
  assert.equal(await run(html.runs, request).catch((e) => e.code), "protocol");
});

test("line ends of any kind, byte by byte", async (t) => {
  for (const [name, end] of [["LF", "\n"], ["CR", "\r"], ["CRLF", "\r\n"]]) {
    const text = (":\n" + started + ":hb\n" + delta(1, "é", "日本😀") + "id: r:2\ndata: {\"uri\":\"b\",\ndata: \"delta\":1}\n\n" + finished(3)).replaceAll("\n", end);
    const s = await scripted(t, async (response) => {
      response.writeHead(200, { "Content-Type": "text/event-stream; charset=utf-8" });
      for (const byte of Buffer.from(text)) {
        response.write(Buffer.of(byte));
        if (byte > 127 || byte === 13) await new Promise(setImmediate);
      }
      response.end();
    });
    assert.deepEqual(await run(s.runs, request), { é: "日本😀", b: 1 }, name);
  }
});

test("subscribers are told what has changed, once a frame, and what is complete", async (t) => {
  let more;
  const s = await scripted(t, (response) => {
    stream(started + delta(1, "s", []) + delta(2, "s/0/t", "He") + delta(3, "s/0/t", "llo"), "open")(response);
    more = (text) => response.write(text);
  });
  const r = run(s.runs, request);
  const told = [];
  const off = r.subscribe("s/*/t", (...args) => told.push(args));
  const roots = [];
  r.subscribe("", (v, uri, over) => roots.push([v, over]));
  await until(() => told.length > 0);
  assert.deepEqual(told.splice(0), [["Hello", "s/0/t", false]]);
  more(done(4, "s/0/t"));
  await until(() => told.length > 0);
  assert.deepEqual(told.splice(0), [["Hello", "s/0/t", true]], "complete without a change");
  more(delta(5, "s/1/t", "x") + done(6, "s/1/t") + delta(7, "s/2/t", "y") + delta(8, "$reasoning_context", "hm"));
  await until(() => told.length > 1);
  assert.deepEqual(told.splice(0), [["x", "s/1/t", true], ["y", "s/2/t", false]]);
  const late = [];
  r.subscribe("**", (v, uri, over) => late.push([uri, over]));
  await until(() => late.length > 0);
  assert.deepEqual(late.splice(0), [["", false], ["s", false], ["s/0", false], ["s/0/t", true], ["s/1", false], ["s/1/t", true], ["s/2", false], ["s/2/t", false], ["$reasoning_context", false]]);
  more(finished(9));
  await r;
  assert.deepEqual(told, [["y", "s/2/t", true]], "the end completes what is left");
  assert.deepEqual(late.map(([uri]) => uri), ["", "s", "s/0", "s/1", "s/2", "s/2/t", "$reasoning_context"]);
  const [last, over] = roots.at(-1);
  assert.deepEqual([last, over], [{ s: [{ t: "Hello" }, { t: "x" }, { t: "y" }] }, true]);
  assert.equal(roots.at(-2)[0].s[0], last.s[0], "what has not changed is the same");
  off();
});

test("who iterates late begins with a snapshot", async (t) => {
  const s = await scripted(t, stream(started + delta(1, "a", "x") + delta(2, "$r", "y") + finished(3)));
  const r = run(s.runs, request);
  await r;
  const events = [];
  for await (const { id, ...e } of r) events.push(e);
  assert.deepEqual(events, [
    { event: "started", data: { run: "r", workflow: "w" } },
    { uri: "", delta: { a: "x" } },
    { uri: "$r", delta: null },
    { uri: "$r", delta: "y" },
    { event: "finished", data: { status: "completed" } },
  ]);
});

test("who iterates too slowly gets a snapshot, and nothing grows without end", async (t) => {
  const n = 25_000;
  const s = await scripted(t, stream(started + Array.from({ length: n }, (_, i) => delta(i + 1, "a", "x")).join("") + finished(n + 1)));
  const r = run(s.runs, request);
  const events = r[Symbol.asyncIterator]();
  assert.equal((await events.next()).value.event, "started");
  await r;
  let text = "";
  let count = 0;
  for await (const e of events) {
    count++;
    if (e.uri === "") text = e.delta?.a ?? text;
    else if (e.uri === "a") text += e.delta;
  }
  assert.equal(text, "x".repeat(n));
  assert.ok(count < 11_000, `${count} events waited`);
});

test("smoothed text comes in pieces, whole characters each, and all of it at the end", async (t) => {
  const text = "😀".repeat(300);
  let end;
  const s = await scripted(t, (response) => {
    stream(started + delta(1, "a", text), "open")(response);
    end = () => response.write(finished(2));
  });
  const r = run(s.runs, request, { smooth: 200 });
  const lengths = [];
  r.subscribe("a", (v) => {
    assert.ok(text.startsWith(v) && v.length % 2 === 0, "half a character");
    lengths.push(v.length);
  });
  await until(() => lengths.length > 3);
  assert.ok(lengths[0] < text.length && lengths.every((n, i) => i === 0 || n >= lengths[i - 1]));
  end();
  assert.deepEqual(await r, { a: text });
  assert.equal(r.document.a, text);
});

test("cancel asks the server, and the run ends with what it has", async (t) => {
  let open;
  const s = await scripted(
    t,
    (response) => stream(started + delta(1, "a", "x"), "open")((open = response)),
    (response) => {
      response.writeHead(202).end();
      open.end(event(2, "canceled", { reason: "asked" }));
    },
  );
  const r = run(s.runs, request);
  await r.cancel(); // before its id is known
  assert.deepEqual(await r.catch((e) => [e.code, e.document]), ["canceled", { a: "x" }]);
  assert.equal(r.status, "canceled");
  assert.deepEqual([s.requests[1].method, s.requests[1].url], ["POST", "/v1/runs/r/cancel"]);
});

test("a cancel that did not come through can be tried again", async (t) => {
  let open;
  const s = await scripted(
    t,
    (response) => stream(started, "open")((open = response)),
    problem(503, "overloaded"),
    (response) => {
      response.writeHead(202).end();
      open.end(event(2, "canceled", { reason: "asked" }));
    },
  );
  const r = run(s.runs, request);
  await assert.rejects(r.cancel(), { code: "overloaded" });
  assert.equal(r.status, "running");
  await r.cancel();
  await assert.rejects(r, { code: "canceled" });
});

test("an approval is posted to the run, and a refused one says why", async (t) => {
  const asked = event(1, "approval_required", { id: "a/1", call: "call_1", tool: "tape.info", arguments: {}, expires: "2030-01-01T00:00:00Z" });
  const s = await scripted(t, stream(started + asked, "open"), (r) => r.writeHead(204).end(), (r) => r.writeHead(204).end(), problem(409, "conflict"));
  const r = run(s.runs + "?html=1", request, { headers: { authorization: "Bearer x" } });
  t.after(() => r.close());
  await r.approve("a/1"); // before its id is known
  await r.approve("a/1", "deny", { reason: "not today" });
  await assert.rejects(r.approve("a/1", "approve", { remember: "session" }), { code: "conflict", status: 409 });
  assert.deepEqual(
    s.requests.slice(1).map(({ method, url, headers, body }) => [method, url, headers["content-type"], headers.authorization, JSON.parse(body)]),
    [{ decision: "approve" }, { decision: "deny", reason: "not today" }, { decision: "approve", remember: "session" }].map((body) => ["POST", "/v1/runs/r/approvals/a%2F1", "application/json", "Bearer x", body]),
  );
});

test("nobody can approve what never began", async (t) => {
  const s = await scripted(t, problem(400, "invalid_request"));
  const r = run(s.runs, request);
  await assert.rejects(r.approve("x"), { code: "invalid_request" });
  assert.equal(s.requests.length, 1);
});

test("an EventSource that gives up is opened anew behind the last event; one that was refused is not", async (t) => {
  const proxy = (response) => response.writeHead(502, { "Content-Type": "text/html" }).end("<h1>Bad Gateway</h1>");
  const s = await scripted(t, stream(started + delta(1, "a", "He"), "break"), proxy, proxy, stream(delta(2, "a", "llo") + finished(3)));
  const r = run(s.runs, request, { transport: "eventsource", EventSource });
  assert.deepEqual(await r, { a: "Hello" });
  const asked = s.requests.map(({ url, headers }) => [new URL(url, s.runs).searchParams.get("last_event_id"), headers["last-event-id"]]);
  assert.deepEqual(asked, [[null, undefined], [null, "r:1"], ["r:1", undefined], ["r:1", undefined]]);
  assert.equal(new Set(s.requests.map(({ url }) => new URL(url, s.runs).searchParams.get("key"))).size, 1);

  const refused = await scripted(t, problem(400, "invalid_request"));
  await assert.rejects(run(refused.runs, request, { transport: "eventsource", EventSource }), { code: "unreachable" });
  assert.equal(refused.requests.length, 1);
  await assert.rejects(run(refused.runs, request, { transport: "eventsource", EventSource: undefined }), { code: "protocol" });
});

test("an EventSource gets a ticket for each connection, for none is good twice", async (t) => {
  const s = await scripted(t, stream(started + delta(1, "a", "He"), "break"), stream(delta(2, "a", "llo") + finished(3)));
  let given = 0;
  const ticket = async () => {
    if (given++ === 0) throw new Error("the one who gives tickets is not there yet");
    return "lst_" + given;
  };
  assert.deepEqual(await run(s.runs, request, { transport: "eventsource", EventSource, ticket }), { a: "Hello" });
  const asked = s.requests.map(({ url }) => ["ticket", "last_event_id"].map((name) => new URL(url, s.runs).searchParams.get(name)));
  assert.deepEqual(asked, [["lst_2", null], ["lst_3", "r:1"]]);

  const never = await scripted(t);
  const controller = new AbortController();
  const late = run(never.runs, request, { transport: "eventsource", EventSource, signal: controller.signal, ticket: async () => (controller.abort(), "lst_1") });
  await assert.rejects(late, { name: "AbortError" });
  await new Promise(setImmediate);
  assert.equal(never.requests.length, 0, "who has left asks for nothing");
});

test("an event of an EventSource that cannot be read ends it, and closes the connection", async (t) => {
  let closed;
  const s = await scripted(t, (response) => {
    closed = new Promise((resolve) => response.on("close", resolve));
    stream(started + delta(1, "a//b", 1), "open")(response);
  });
  await assert.rejects(run(s.runs, request, { transport: "eventsource", EventSource }), { code: "protocol" });
  await closed;
  assert.equal(s.requests.length, 1);
});

test("an iterator that nobody asks keeps nothing, and one that is asked late begins with a snapshot", async (t) => {
  let more;
  const s = await scripted(t, (response) => {
    stream(started + delta(1, "a", "x"), "open")(response);
    more = (text) => response.write(text);
  });
  const r = run(s.runs, request);
  const events = r[Symbol.asyncIterator]();
  await until(() => r.document.a);
  more(delta(2, "a", "y"));
  await until(() => r.document.a === "xy");
  const { value } = await events.next();
  assert.equal(value.event, "started");
  assert.deepEqual((await events.next()).value, { uri: "", delta: { a: "xy" } });
  for await (const e of r) break; // ends neither the run nor the other reader
  more(finished(3));
  assert.equal((await events.next()).value.event, "finished");
  assert.deepEqual(await events.next(), { value: undefined, done: true });
  assert.deepEqual(await r, { a: "xy" });
});

test("a reader that has fallen behind by named events costs no look through all of them for each", async (t) => {
  const n = 60_000;
  const s = await scripted(t, stream(started + Array.from({ length: n }, (_, i) => event(i + 1, "html", i)).join("") + finished(n + 1)));
  const r = run(s.runs, request);
  const events = r[Symbol.asyncIterator]();
  await events.next();
  let looks = 0;
  const { filter } = Array.prototype;
  Array.prototype.filter = function (...args) {
    if (this.length > 5000) looks++;
    return filter.apply(this, args);
  };
  try {
    await r;
  } finally {
    Array.prototype.filter = filter;
  }
  assert.ok(looks < 10, `${looks} looks through all that waits`);
  let last = -1;
  for await (const e of events) if (e.event === "html") assert.equal(e.data, ++last);
  assert.equal(last, n - 1);
});

test("nobody has to wait for a run that fails", async (t) => {
  const s = await scripted(t, problem(400, "invalid_request"));
  const r = run(s.runs, request, { signal: new AbortController().signal });
  await until(() => r.status === "lost"); // an unhandled rejection would fail this test
  await new Promise(setImmediate);
});

test("a run's memory does not grow with its deltas, smoothed or not, listened to or not", { skip: !globalThis.gc && "run with --expose-gc" }, async () => {
  for (const smooth of [false, true]) {
    const total = 600_000;
    const heaps = [];
    let n = 0;
    const bytes = new TextEncoder();
    const fetch = async () =>
      new Response(
        new ReadableStream({
          async pull(out) {
            let text = "";
            for (let i = 0; i < 1000; i++, n++) text += delta(n, `a/${n % 4}/b`, n);
            out.enqueue(bytes.encode(text));
            if (n % 100_000 === 0) {
              await new Promise(setImmediate); // who reads reads
              gc();
              heaps.push(process.memoryUsage().heapUsed);
            }
            if (n < total) return;
            out.enqueue(bytes.encode(finished(n)));
            out.close();
          },
        }),
        { headers: { "Content-Type": "text/event-stream" } },
      );
    const r = run("http://localhost/v1/runs", {}, { fetch, smooth });
    r.subscribe("a/*/b", () => {});
    const read = (async () => {
      for await (const e of r) void e;
    })();
    await r;
    await read;
    // What is kept for deltas grows with every 100 000 of them; what the engine compiles, caches and has not swept yet comes and goes.
    const grown = heaps.slice(1).map((heap, i) => heap - heaps[i]);
    assert.equal(grown.length, 5);
    assert.ok(Math.min(...grown) < 400_000, `every 100000 deltas the heap grew: by ${grown} bytes`);
  }
});

test("what a subscriber throws is its own, and the run goes on", async (t) => {
  const s = await scripted(t, stream(started + delta(1, "a", "x") + finished(2)));
  const r = run(s.runs, request);
  const thrown = new Promise((resolve) => process.setUncaughtExceptionCaptureCallback(resolve));
  t.after(() => process.setUncaughtExceptionCaptureCallback(null));
  r.subscribe("a", () => {
    throw new Error("mine");
  });
  assert.deepEqual(await r, { a: "x" });
  assert.equal((await thrown).message, "mine");

  const broken = await scripted(t, stream("", "break"), stream(started + finished(1)));
  process.setUncaughtExceptionCaptureCallback(null);
  const again = new Promise((resolve) => process.setUncaughtExceptionCaptureCallback(resolve));
  const waiting = () => {
    throw new Error("mine, too");
  };
  assert.deepEqual(await run(broken.runs, request, { waiting }), {});
  assert.equal((await again).message, "mine, too");
});

test("a signal stops following; nothing is asked for after that", async (t) => {
  const s = await scripted(t, stream(started, "open"));
  const controller = new AbortController();
  const r = run(s.runs, request, { signal: controller.signal });
  const events = r[Symbol.asyncIterator]();
  await events.next();
  controller.abort(new Error("enough"));
  await assert.rejects(r, { message: "enough" });
  await assert.rejects(events.next(), { code: "closed" });
  assert.equal(s.requests.length, 1);
  await assert.rejects(run(s.runs, request, { signal: AbortSignal.abort(new Error("never")) }), { message: "never" });
  assert.equal(s.requests.length, 1);
});

test("attach asks for a snapshot, and then for what comes behind it", async (t) => {
  const s = await scripted(t, stream(delta(5, "", { a: "x" }), "break"), stream(delta(6, "a", "y") + finished(7)));
  assert.deepEqual(await attach(s.runs, "r"), { a: "xy" });
  assert.deepEqual(s.requests.map((r) => [r.method, r.url, r.headers["last-event-id"]]), [
    ["GET", "/v1/runs/r/events?snapshot=1", undefined],
    ["GET", "/v1/runs/r/events", "r:5"],
  ]);
});

test("hostile events change no prototype", async (t) => {
  const s = await scripted(t, stream(started + delta(1, "__proto__/polluted", "x") + delta(2, "constructor/prototype/polluted", "x") + 'id: r:3\ndata: {"uri":"b","delta":1,"__proto__":{"polluted":1}}\n\n' + finished(4)));
  const r = run(s.runs, request);
  r.subscribe("__proto__/*", () => {});
  await r;
  assert.equal({}.polluted, undefined);
  assert.equal(JSON.stringify(await r), '{"__proto__":{"polluted":"x"},"constructor":{"prototype":{"polluted":"x"}},"b":1}');
});

async function until(done) {
  for (let i = 0; !done(); i++) {
    if (i > 1000) throw new Error("it did not happen");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
