// The parts that talk to the server: a session's tape, and calls that wait for approval.
import assert from "node:assert/strict";
import { lingserve } from "../../../client/test/server.js";
import { test } from "../../../browser/browser.js";
import { axe, stage } from "../parts/stage.js";

const config = `agents:
  assistant: {}
  careful:
    ask_always: ["tape.*"]
    approval_timeout: 60s
  hasty:
    ask_always: ["tape.*"]
    approval_timeout: 1s
`;

const ask = async (server, path, body, method = "POST") => {
  const answer = await fetch(server.url + path, { method, headers: { "Content-Type": "application/json" }, body: body && JSON.stringify(body) });
  return answer.status === 204 ? undefined : answer.json();
};
const say = (server, session, input, more = {}) => ask(server, "/v1/runs", { agent: "assistant", session, input, ...more });
const tape = (page, session, revision = 1) => page.evaluate(([session, revision]) => stage.show("Tape", { session, revision, onOpen: (s) => stage.said.push(["open", s]), onErased: () => stage.said.push("erased") }), [session, revision]);
const missing = [/status of 404/];

async function conversation(t, options) {
  const server = await lingserve(t, { config, pace: 0 });
  await say(server, "s/1", "What does tape info say?");
  const page = await stage(t, server.url, options);
  return { server, page };
}

test("a tape: who said what, calls and results folded, the anchor as a mark", async (t) => {
  const { page } = await conversation(t);
  await tape(page, "s/1");
  await page.locator(".tape-entry").nth(4).waitFor();
  const rows = await page.locator(".tape-entry").evaluateAll((all) => all.map((e) => [e.className.split(" ")[1].slice(5), e.querySelector(".tape-what").textContent]));
  assert.deepEqual(rows.map(([kind]) => kind), ["anchor", "user", "tool_call", "tool_result", "assistant"]);
  assert.equal(rows[0][1], "session/start");
  assert.equal(rows[1][1], "What does tape info say?");
  assert.equal(rows[2][1], "tape_info {}");
  assert.match(rows[3][1], /^tape_info \{"entries":5/);
  assert.match(await page.locator(".tape-counts").textContent(), /^10 entries, 1 anchor$/);
  await page.locator(".tape-tool_result summary").click();
  assert.equal(JSON.parse(await page.locator(".tape-tool_result pre").textContent()).last_anchor, "session/start");
  await page.getByLabel("Show every step").check();
  assert.equal(await page.locator(".tape-entry").count(), 10);
});

test("a tape: what is written later comes behind it, and is not read twice", async (t) => {
  const { page, server } = await conversation(t);
  await tape(page, "s/1");
  await page.locator(".tape-entry").nth(4).waitFor();
  await say(server, "s/1", "And now?");
  const before = page.requests.length;
  await tape(page, "s/1", 2);
  await page.getByText("And now?", { exact: true }).waitFor();
  assert.equal(await page.getByText("What does tape info say?", { exact: true }).count(), 1);
  assert.deepEqual(page.requests.slice(before).map((r) => new URL(r.url()).pathname + new URL(r.url()).search), ["/v1/sessions/s%2F1", "/v1/sessions/s%2F1/tape?after=10&limit=100"]);
});

test("a tape: its end is first, and earlier entries come on demand", async (t) => {
  const server = await lingserve(t, { config, pace: 0 });
  for (let i = 0; i < 60; i++) await ask(server, "/v1/sessions/long/handoff", { name: `mark ${i}` }).then((r) => r.code && say(server, "long", "Hi").then(() => ask(server, "/v1/sessions/long/handoff", { name: `mark ${i}` })));
  for (let i = 60; i < 230; i++) await ask(server, "/v1/sessions/long/handoff", { name: `mark ${i}` });
  const page = await stage(t, server.url);
  await tape(page, "long");
  await page.getByText("mark 229", { exact: true }).waitFor();
  assert.equal(await page.locator(".tape-entry").count(), 100);
  await page.getByRole("button", { name: "Earlier entries" }).click();
  await page.getByText("mark 100", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Earlier entries" }).click();
  await page.getByText("session/start", { exact: true }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Earlier entries" }).count(), 0);
  const ids = await page.locator(".tape-id").allTextContents();
  assert.deepEqual(ids, [...new Set(ids)].sort((a, b) => a - b), "each once, in order");
});

test("a tape: is searched on the server", async (t) => {
  const { page } = await conversation(t);
  await tape(page, "s/1");
  await page.getByLabel("Search the tape").fill("scripted");
  await page.getByText("1 found.").waitFor();
  assert.deepEqual(await page.locator(".tape-entry .tape-who").allTextContents(), ["Assistant"]);
  await page.getByLabel("Search the tape").fill("zzz & q=1");
  await page.getByText("No entry contains “zzz & q=1”.").waitFor();
  await page.getByLabel("Search the tape").fill("");
  await page.locator(".tape-entry").nth(4).waitFor();
});

test("a tape: hand off writes an anchor, and what was before is behind it", async (t) => {
  const { page, server } = await conversation(t);
  await tape(page, "s/1");
  await page.getByRole("button", { name: "Hand off" }).click();
  const dialog = page.getByRole("dialog", { name: "Hand off" });
  await dialog.getByRole("button", { name: "Write the anchor" }).click();
  assert.ok(await dialog.isVisible(), "a name is needed");
  await page.keyboard.type("billing");
  await dialog.getByLabel("Summary").fill("It was **paid**.");
  await dialog.getByRole("button", { name: "Write the anchor" }).click();
  await page.locator(".tape-anchor", { hasText: "billing" }).waitFor();
  assert.equal(await page.getByRole("status").first().textContent(), "The anchor billing was written.");
  await page.locator(".tape-anchor", { hasText: "billing" }).locator("summary").click();
  assert.equal(await page.locator(".tape-anchor strong").textContent(), "paid");
  assert.equal(await page.locator(".tape-past").count(), 5);
  const { entries } = await ask(server, "/v1/sessions/s%2F1/tape?kinds=anchor", undefined, "GET");
  assert.deepEqual(entries.at(-1).payload, { name: "billing", state: { summary: "It was **paid**." } });
});

test("a tape: a fork begins with the entries up to the one that was chosen", async (t) => {
  const { page, server } = await conversation(t, { allow: [/status of 409/] });
  await tape(page, "s/1");
  await page.getByRole("button", { name: "Entry 4: fork the session here" }).click();
  await page.getByLabel("Name of the new session").fill("s/1");
  await page.getByRole("button", { name: "Fork", exact: true }).last().click();
  await page.getByText('There is a session "s/1" already.').waitFor();
  await page.getByLabel("Name of the new session").fill("s/2");
  await page.getByRole("button", { name: "Fork", exact: true }).last().click();
  await page.until(() => stage.said.length > 0);
  assert.deepEqual(await page.evaluate(() => stage.said), [["open", "s/2"]]);
  const { entries } = await ask(server, "/v1/sessions/s%2F2/tape?kinds=message", undefined, "GET");
  assert.deepEqual(entries.map((e) => e.payload.content), ["What does tape info say?"]);
});

test("a tape: erasing asks first, and leaves an empty state", async (t) => {
  const { page, server } = await conversation(t);
  await tape(page, "s/1");
  await page.getByRole("button", { name: "Erase" }).click();
  const dialog = page.getByRole("dialog", { name: "Erase this session?" });
  await page.until(() => document.activeElement.textContent === "Cancel"); // the harmless button has the focus
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Erase" }).click();
  await dialog.getByRole("button", { name: "Erase" }).click();
  await page.getByText("This session has no tape yet").waitFor();
  await page.until(() => stage.said[0] === "erased");
  assert.equal((await ask(server, "/v1/sessions/s%2F1", undefined, "GET")).status, 404);
});

test("a tape: a session that is not there is an empty state, and comes as soon as it is", async (t) => {
  const server = await lingserve(t, { config, pace: 0 });
  const page = await stage(t, server.url, { allow: missing });
  await tape(page, "new");
  await page.getByText("This session has no tape yet").waitFor();
  await say(server, "new", "Hello");
  await tape(page, "new", 2);
  await page.getByText("Hello", { exact: true }).waitFor();
});

test("a tape: another session's entries are not mixed in, however slow an answer is", async (t) => {
  const { page, server } = await conversation(t);
  await say(server, "other", "Something else");
  await page.context().route((at) => at.pathname === "/v1/sessions/s%2F1/tape", async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 500));
    await route.continue().catch(() => {});
  });
  await tape(page, "s/1");
  await page.waitForRequest((r) => r.url().includes("s%2F1/tape"));
  await tape(page, "other");
  await page.getByText("Something else", { exact: true }).waitFor();
  await tape(page, "s/1");
  assert.equal(await page.getByText("Something else", { exact: true }).count(), 0, "what was shown of the other one is gone at once");
  await tape(page, "other", 2);
  await page.getByText("Something else", { exact: true }).waitFor();
  await page.waitForTimeout(700);
  assert.equal(await page.getByText("What does tape info say?").count(), 0);
});

test("a tape: a server that cannot be reached is said, and asked again on demand", async (t) => {
  const { page } = await conversation(t, { allow: [/net::ERR/] });
  await page.context().route((at) => at.pathname.startsWith("/v1/"), (route) => route.abort());
  await tape(page, "s/1");
  await page.getByText("The server cannot be reached.").waitFor();
  await page.context().unroute(() => true).catch(() => {});
  await page.context().unrouteAll();
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText("What does tape info say?", { exact: true }).waitFor();
});

test("a tape: what a workflow has answered is a document, and what people did is there among what was said", async (t) => {
  const server = await lingserve(t, { config, pace: 0 });
  await say(server, "w", ",help");
  await ask(server, "/v1/runs", { workflow: "encyclopedia", session: "w", input: "Why is the sky blue?" });
  await say(server, "w", "What does tape info say?", { agent: "careful" }); // this conversation has no approver
  const page = await stage(t, server.url);
  await tape(page, "w");
  await page.getByText("Why the Sky Is Blue", { exact: true }).waitFor();
  assert.ok((await page.locator(".tape-assistant .tree-title").count()) > 3);
  await page.getByText("tape.info was denied: this conversation has no approver").waitFor();
  await page.locator("summary", { hasText: ",help" }).click();
  await page.locator(".tape-event code", { hasText: ",tape.info" }).first().waitFor();
  assert.equal(await page.getByText("turn.start").count(), 0);
});

test("a tape: what models and users wrote stays text", async (t) => {
  const server = await lingserve(t, { config, pace: 0 });
  const bad = "<img src=x onerror=window.pwned=1> [x](javascript:window.pwned=1) <script>window.pwned=1</script>";
  await say(server, "bad", bad);
  await ask(server, "/v1/sessions/bad/handoff", { name: "<b>x</b>\u202e", state: { "<i>": bad, summary: bad } });
  const page = await stage(t, server.url);
  await tape(page, "bad");
  await page.locator(".tape-anchor-name", { hasText: "<b>x</b>\\u202e" }).waitFor();
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.equal(await page.locator(".tape img, .tape script, .tape b, .tape i").count(), 0);
});

test("a tape: nothing serious for axe, dialogs too, and it fits 360 pixels", async (t) => {
  const { page, server } = await conversation(t, { viewport: { width: 360, height: 700 }, bypassCSP: true, reducedMotion: "reduce" });
  await ask(server, "/v1/sessions/s%2F1/handoff", { name: "x".repeat(128), state: { summary: "y".repeat(500) } });
  await tape(page, "s/1");
  await page.getByLabel("Show every step").check();
  await page.addScriptTag({ path: axe });
  for (const name of [undefined, "Hand off", "Fork", "Erase"]) {
    if (name) await page.getByRole("button", { name, exact: true }).click();
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      const { violations } = await page.evaluate(() => axe.run("main", { resultTypes: ["violations"] }));
      assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 120)).join(" ")}`), [], `${name} ${colorScheme}`);
    }
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), name);
    if (name) await page.getByRole("button", { name: "Cancel" }).click();
  }
});

// A run that waits for approval, and its question on the stage.
async function question(t, agent = "careful", options = {}) {
  const server = await lingserve(t, { config, pace: 0 });
  const answer = await fetch(server.runs + "?format=jsonl", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ agent, session: "s", input: "What does tape info say?" }) });
  const events = [];
  const reading = (async () => {
    let rest = "";
    for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + part).split("\n");
      rest = lines.pop();
      events.push(...lines.filter(Boolean).map((line) => JSON.parse(line)));
    }
  })();
  reading.catch(() => {}); // the server may be gone before the run has ended
  const until = async (name) => {
    for (;;) {
      const e = events.find((e) => e.event === name);
      if (e) return e;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  const { data } = await until("approval_required");
  const page = await stage(t, server.url, options);
  const run = answer.headers.get("X-Run-Id");
  await page.evaluate(([run, question]) => stage.show("Approval", { run, question, onDone: (d) => stage.said.push(d ?? "over") }), [run, data]);
  return { server, page, run, data, events, until, ended: reading };
}

test("approval: allowing lets the call run", async (t) => {
  const { page, ended, events, until } = await question(t);
  assert.match(await page.locator(".approval h2").textContent(), /^May tape.info run\?$/);
  assert.match(await page.locator(".approval-time").textContent(), /left/);
  await page.getByRole("button", { name: "Allow" }).click();
  await until("approval_resolved");
  await ended;
  await page.until(() => stage.said[0] === "approve");
  assert.equal(events.at(-1).data.status, "completed");
  assert.equal(events.find((e) => e.event === "approval_resolved").data.decision, "approve");
});

test("approval: allowing for the session asks no more", async (t) => {
  const { page, ended, server } = await question(t);
  await page.getByLabel(/do not ask again/).check();
  await page.getByRole("button", { name: "Allow" }).click();
  await ended;
  const again = await say(server, "s", "What does tape info say?", { agent: "careful" });
  assert.deepEqual(again.errors, []);
});

test("approval: denying tells the model why", async (t) => {
  const { page, ended, events, server } = await question(t);
  await page.getByLabel(/Reason/).fill("not today");
  await page.getByRole("button", { name: "Deny" }).click();
  await ended;
  await page.until(() => stage.said[0] === "deny");
  assert.equal(events.find((e) => e.event === "approval_resolved").data.decision, "deny");
  const { entries } = await ask(server, "/v1/sessions/s/tape?q=not+today", undefined, "GET");
  assert.ok(entries.length > 0);
});

test("approval: an answer that comes too late is a sentence", async (t) => {
  const { page, ended, server, run, data } = await question(t, "careful", { allow: [/status of 409/] });
  await ask(server, `/v1/runs/${run}/approvals/${data.id}`, { decision: "deny" });
  await ended;
  await page.getByRole("button", { name: "Allow" }).click();
  await page.getByText("This call was answered before or has expired. The first answer counts.").waitFor();
  await page.getByRole("button", { name: "Close" }).click();
  await page.until(() => stage.said[0] === "over");
});

test("approval: a call that is not known is a sentence", async (t) => {
  const { page, run, data } = await question(t, "careful", { allow: missing });
  await page.evaluate(([run, question]) => stage.show("Approval", { run, question: { ...question, id: "a".repeat(26) }, onDone() {} }), [run, data]);
  await page.getByRole("button", { name: "Allow" }).click();
  await page.getByText("This call no longer waits").waitFor();
});

test("approval: time that is over is said, and a server that is away can be asked again", async (t) => {
  const { page, ended } = await question(t, "hasty", { allow: [/net::ERR/] });
  await page.getByText("Time is over").waitFor();
  await page.context().route((at) => at.pathname.startsWith("/v1/"), (route) => route.abort());
  await page.getByRole("button", { name: "Deny" }).click();
  await page.getByText("The server cannot be reached.").waitFor();
  assert.ok(await page.getByRole("button", { name: "Deny" }).isEnabled());
  await ended;
});

test("approval: nothing hides in the arguments", async (t) => {
  const page = await stage(t);
  const args = { path: "/srv/\u202etxt.exe", text: "a\u200bb\u0007<script>window.pwned=1</script>", "\u2066key": "\u{e0041}" };
  await page.evaluate((args) => stage.show("Approval", { run: "r", question: { id: "q", call: "c\u202e", subagent: "s\u200b", tool: "fs\u202e.write", arguments: args }, onDone() {} }), args);
  const text = await page.locator(".approval").textContent();
  for (const shown of ["\\u202etxt.exe", "a\\u200bb\\u0007<script>", "\\u2066key", "\\udb40\\udc41", "fs\\u202e.write", "c\\u202e", "s\\u200b"]) assert.ok(text.includes(shown), shown);
  assert.deepEqual(JSON.parse(await page.locator(".approval pre").textContent()), args);
  assert.equal(await page.locator(".approval-time").count(), 0);
});

test("approval: long arguments are shown in part at first, and nothing serious for axe at 360 pixels", async (t) => {
  const page = await stage(t, undefined, { viewport: { width: 360, height: 700 }, bypassCSP: true });
  await page.evaluate(() => stage.show("Approval", { run: "r", question: { id: "q", call: "c", tool: "t".repeat(200), arguments: { text: "x".repeat(100_000) }, expires: new Date(Date.now() + 7.2e6).toISOString() }, onDone() {} }));
  await page.getByRole("button", { name: /^Show all 100,0\d\d characters$/ }).click();
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await page.addScriptTag({ path: axe });
  const { violations } = await page.evaluate(() => axe.run("main", { resultTypes: ["violations"] }));
  assert.deepEqual(violations.map((v) => v.id), []);
});
