// The client as a page loads it: dist/client.min.js by itself.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { lingserve } from "../client/test/server.js";
import { file, launch, open, test } from "./browser.js";
import { model } from "./model.js";
import { network } from "./network.js";

const chrome = await launch();
const files = {
  "/client.min.js": readFileSync(file("web/client/dist/client.min.js")),
  "/test": `<!doctype html><meta charset="utf-8"><title>test</title><link rel="icon" href="data:,">
    <script type="module">import * as client from "./client.min.js"; Object.assign(window, client);</script>`,
};

// The workflow chat, which does not go on after a restart.
const fragile = { fragile: readFileSync(file("workflows/chat.yaml"), "utf8").replace(/^name: .*/m, "name: fragile\nresume: false") };

// A page with the client, on a server whose model says what the test wants.
async function client(t, options = {}) {
  const script = await model(t);
  const server = await lingserve(t, { env: { ...script.env, LINGSERVE_GRACE: "1s" }, workflows: fragile });
  const net = await network(t, server.url);
  const page = await open(t, chrome, net.url, { files, ...options });
  await page.goto("/test");
  return { page, server, script, net };
}

// Starts a run of a workflow in the page, as window.r.
function start(page, options = {}, workflow = "chat") {
  return page.evaluate(([options, workflow]) => {
    window.r = run("/v1/runs", { workflow, input: "Why?" }, options);
    r.catch(() => {}); // the run, which is a promise, is not what is waited for
  }, [options, workflow]);
}

const answer = (page, text) => page.until((text) => r.document.answer === text, text);
const ended = (page) => page.evaluate(() => r.then((document) => ({ document }), ({ code, document }) => ({ code, document })));
// Connections that break are said on the console by the browser itself.
const broken = [/Failed to load resource: net::ERR_/];

test("a run in a page: its events, its document, and its end", async (t) => {
  const { page, script } = await client(t);
  await page.evaluate(() => {
    window.r = run("/v1/runs", { workflow: "chat", input: "Why?" });
    r.catch(() => {});
    window.events = [];
    // At once: who comes later is told first what there is already.
    window.iterated = (async () => {
      for await (const e of r) events.push("event" in e ? e.event : "done" in e ? "done" : e.delta);
    })();
  });
  const asked = await script.asked();
  await asked.say("Hel");
  await answer(page, "Hel");
  await asked.say("lo");
  await answer(page, "Hello");
  await asked.end();
  assert.deepEqual(await ended(page), { document: { answer: "Hello" } });
  await page.evaluate(() => iterated);
  assert.deepEqual(await page.evaluate(() => events), ["started", "bot", "Hel", "lo", "done", "usage", "bot", "finished"]);
  assert.deepEqual(await page.evaluate(() => [r.status, r.error]), ["completed", undefined]);
});

test("subscribers and watchers are told once per animation frame, however many deltas come in one", async (t) => {
  const { page, script } = await client(t);
  await start(page);
  await page.evaluate(() => {
    // Frames come when the test wants one, and the timer for pages that have none is off.
    let next;
    window.requestAnimationFrame = (fn) => (next = fn);
    window.cancelAnimationFrame = () => (next = undefined);
    const { setTimeout } = window;
    window.setTimeout = (fn, ms, ...more) => (ms === 250 ? 0 : setTimeout(fn, ms, ...more));
    window.frame = () => next?.(0);
    window.told = [];
    window.watched = 0;
    window.events = 0;
    r.subscribe("answer", (...args) => told.push(args));
    r.watch(() => watched++);
    (async () => {
      for await (const e of r) events++;
    })();
  });
  const asked = await script.asked();
  let text = "";
  for (let frame = 1; frame <= 2; frame++) {
    for (let i = 0; i < 50; i++) {
      await asked.say(`${i} `);
      text += `${i} `;
    }
    await answer(page, text);
    await page.evaluate(() => frame());
    const [told, watched, events] = await page.evaluate(() => [window.told, window.watched, window.events]);
    assert.deepEqual(told.at(-1), [text, "answer", false]);
    assert.deepEqual([told.length, watched], [frame, frame]);
    assert.ok(events > 2 * frame, `${events} events`);
  }
  await asked.end();
  await ended(page);
  assert.deepEqual(await page.evaluate(() => told.slice(2)), [[text, "answer", true]]);
});

test("in a tab that is hidden, where no frame ever comes, it is told of what comes, and of the end", async (t) => {
  const { page, script } = await client(t);
  await page.evaluate(() => {
    window.requestAnimationFrame = () => 1;
    Object.defineProperty(document, "hidden", { value: true });
    window.told = [];
  });
  await start(page, { smooth: 60_000 }); // nor does text that is held back wait for one
  await page.evaluate(() => r.subscribe("answer", (text, uri, done) => told.push([text, done])));
  const asked = await script.asked();
  await asked.say("Hello");
  await page.until(() => told.length > 0);
  await asked.end(" there");
  assert.deepEqual(await ended(page), { document: { answer: "Hello there" } });
  assert.deepEqual(await page.evaluate(() => told.at(-1)), ["Hello there", true]);
});

test("smooth text grows in more steps than it came in, and is never late at the end", async (t) => {
  const { page, script } = await client(t);
  await start(page, { smooth: true });
  await page.evaluate(() => {
    window.lengths = [];
    r.subscribe("answer", (text) => lengths.push(text.length));
  });
  const asked = await script.asked();
  await asked.say("word ".repeat(200));
  await page.until(() => lengths.length >= 3);
  await asked.end();
  assert.equal((await ended(page)).document.answer.length, 1000);
  const lengths = await page.evaluate(() => window.lengths);
  assert.deepEqual(lengths, lengths.toSorted((a, b) => a - b));
  assert.equal(lengths.at(-1), 1000);
});

test("a connection that has gone silent is taken for dead, and another one goes on", async (t) => {
  const { page, script, net } = await client(t);
  await start(page, { idle: 1000 });
  const asked = await script.asked();
  await asked.say("before, ");
  await answer(page, "before, ");
  net.silence();
  await asked.say("meanwhile, ");
  await answer(page, "before, meanwhile, ");
  await asked.end("after");
  assert.deepEqual(await ended(page), { document: { answer: "before, meanwhile, after" } });
});

for (const transport of ["fetch", "eventsource"]) {
  test(`${transport}: a network that is cut and comes back costs nothing`, async (t) => {
    const { page, script, net } = await client(t, { allow: broken });
    await start(page, { transport });
    const asked = await script.asked();
    await asked.say("before, ");
    await answer(page, "before, ");
    await page.context().setOffline(true);
    net.cut();
    await asked.say("meanwhile, ");
    await page.waitForEvent("requestfailed", (r) => r.failure().errorText === "net::ERR_INTERNET_DISCONNECTED"); // a try in vain
    net.up();
    await page.context().setOffline(false);
    await asked.end("after");
    assert.deepEqual(await ended(page), { document: { answer: "before, meanwhile, after" } });
    assert.equal(await page.evaluate(() => r.status), "completed");
  });

  test(`${transport}: a server that is restarted in mid-run and lets it end tells the rest when it is there again`, async (t) => {
    const { page, server, script, net } = await client(t, { allow: broken });
    await start(page, { transport });
    const asked = await script.asked();
    await asked.say("before, ");
    await answer(page, "before, ");
    net.cut(); // else it would all be told before the server ends
    const stopped = server.end("SIGTERM");
    await asked.end("after");
    await stopped;
    net.up();
    await server.start();
    assert.deepEqual(await ended(page), { document: { answer: "before, after" } });
  });

  test(`${transport}: a server that is killed in mid-run and started again: the run goes on, and its text is there once`, async (t) => {
    const { page, server, script } = await client(t, { allow: broken });
    await start(page, { transport });
    await (await script.asked()).say("before, ");
    await answer(page, "before, ");
    await server.written("before, ");
    await server.end("SIGKILL");
    await server.start();
    const again = await script.asked();
    assert.equal(again.question, "Why?");
    await again.say("once ");
    await answer(page, "once ");
    assert.equal(await page.evaluate(() => r.status), "running");
    await again.end("more");
    assert.deepEqual(await ended(page), { document: { answer: "once more" } });
    assert.equal(await page.evaluate(() => r.status), "completed");
  });

  test(`${transport}: a server that is killed in mid-run of a workflow that does not go on says that the run was cut off`, async (t) => {
    const { page, server, script } = await client(t, { allow: broken });
    await start(page, { transport }, "fragile");
    await (await script.asked()).say("before, ");
    await answer(page, "before, ");
    await server.written("before, ");
    await server.end("SIGKILL");
    await server.start();
    assert.deepEqual(await ended(page), { code: "internal", document: { answer: "before, " } });
    assert.equal(await page.evaluate(() => r.status), "interrupted");
  });

  test(`${transport}: leaving the page in mid-run, and attaching after`, async (t) => {
    const { page, script } = await client(t);
    await start(page, { transport });
    const asked = await script.asked();
    await asked.say("before, ");
    await answer(page, "before, ");
    const id = await page.evaluate(() => r.id);
    await page.reload();
    await asked.say("meanwhile, ");
    await page.evaluate(([id, transport]) => void (window.r = attach("/v1/runs", id, { transport })), [id, transport]);
    await answer(page, "before, meanwhile, ");
    await asked.end("after");
    assert.deepEqual(await ended(page), { document: { answer: "before, meanwhile, after" } });
  });

  test(`${transport}: cancel keeps what there is`, async (t) => {
    const { page, script } = await client(t);
    await start(page, { transport });
    const asked = await script.asked();
    await asked.say("so far");
    await answer(page, "so far");
    await page.evaluate(() => r.cancel());
    assert.deepEqual(await ended(page), { code: "canceled", document: { answer: "so far" } });
    await asked.closed;
  });
}

test("a call that asks waits for the page's approval", async (t) => {
  const script = await model(t);
  const server = await lingserve(t, { env: script.env, config: 'agents:\n  careful:\n    ask_always: ["tape.*"]\n' });
  const page = await open(t, chrome, server.url, { files });
  await page.goto("/test");
  await page.evaluate(() => {
    window.r = run("/v1/runs", { agent: "careful", session: "s", input: "How long is this?" });
    window.told = [];
    (async () => {
      for await (const e of r) {
        if (e.event === "approval_required") await r.approve(e.data.id, told.length === 0 ? "deny" : "approve", { reason: "not yet" });
        if (e.event === "approval_resolved") told.push(e.data.decision);
      }
    })();
  });
  for (const decision of ["deny", "approve"]) {
    const asked = await script.asked();
    await asked.call("tape_info");
    await asked.end();
    await page.until((decision) => told.at(-1) === decision, decision);
  }
  await (await script.asked()).end("So long.");
  assert.equal(await page.evaluate(() => r), "So long.");
  assert.deepEqual(await page.evaluate(() => [r.reserved.$tool_results[0], typeof r.reserved.$tool_results[1].entries]), [null, "number"]);
});

test("aborting stops what is asked for, and nothing is left unhandled", async (t) => {
  const { page, script } = await client(t);
  await page.evaluate(() => {
    window.controller = new AbortController();
    window.r = run("/v1/runs", { workflow: "chat", input: "Why?", on_disconnect: "cancel" }, { signal: controller.signal }); // nobody waits for it
  });
  const asked = await script.asked();
  await asked.say("Hello");
  await answer(page, "Hello");
  await page.evaluate(() => controller.abort());
  assert.equal(await page.evaluate(() => r.status), "lost");
  await asked.closed; // the run has ended with its page
});
