// What the bots of a workflow are doing, as its events say.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Bots } from "../node_modules/.page/playground/src/bots.js";

// As GET /v1/workflows/encyclopedia has it.
const graph = {
  bots: [
    { name: "outline", root: "article", format: "json" },
    { name: "section", root: "article/sections/{{ event.match.0 }}/body", format: "text", on: { string: "article/sections/*/title" } },
    { name: "quiz", root: "quiz", format: "json", on: { done: "section" } },
  ],
};
const d = (uri, delta) => ({ uri, delta });
const bot = (name, root, state) => ({ event: "bot", data: { bot: name, root, state } });
const starts = (name, root) => bot(name, root, "started");
const ends = (name, root) => bot(name, root, "finished");
const body = (i) => `article/sections/${i}/body`;

test("a bot writes from its start to its end, at its root and below, the deepest root first", () => {
  const bots = new Bots(graph);
  assert.deepEqual(bots.states(), { outline: "waiting", section: "waiting", quiz: "waiting" });
  bots.take(starts("outline", "article"));
  bots.take(d("article/title", "Why"));
  assert.deepEqual(bots.states(), { outline: "writing", section: "waiting", quiz: "waiting" });
  bots.take(starts("section", body(0)));
  bots.take(ends("outline", "article"));
  assert.deepEqual(bots.states(), { outline: "done", section: "writing", quiz: "waiting" });
  assert.equal(bots.nameAt("article/sections/0/title"), "outline");
  assert.equal(bots.nameAt(body(0)), "section");
  assert.equal(bots.nameAt(body(0) + "/$reasoning_context"), "section");
  assert.equal(bots.nameAt("other"), undefined);
});

// DN-03
test("bots that share a root are told apart", () => {
  const bots = new Bots({ bots: ["yes", "no", "excuse"].map((name) => ({ name, root: "reply", format: name === "excuse" ? "html" : "text" })) });
  bots.take(starts("no", "reply"));
  bots.take(d("reply", "No"));
  assert.deepEqual(bots.states(), { yes: "waiting", no: "writing", excuse: "waiting" });
  assert.equal(bots.blockAt("reply").name, "no");
  bots.take({ event: "error", data: { bot: "no", code: "upstream_timeout", failed: true, handled: true } });
  bots.take(bot("no", "reply", "failed"));
  bots.take(starts("excuse", "reply"));
  assert.deepEqual(bots.states(), { yes: "waiting", no: "failed", excuse: "writing" });
  assert.deepEqual([bots.nameAt("reply"), bots.blockAt("reply").name, bots.formatAt("reply")], ["excuse", "excuse", "html"]);
  bots.take(ends("excuse", "reply"));
  assert.deepEqual(bots.states("done"), { yes: "waiting", no: "failed", excuse: "done" });
});

test("a bot with several runs writes until the last of them has ended", () => {
  const bots = new Bots(graph);
  for (const i of [0, 1]) bots.take(starts("section", body(i)));
  bots.take(ends("section", body(0)));
  assert.equal(bots.states().section, "writing");
  bots.take(ends("section", body(1)));
  assert.equal(bots.states().section, "done");
  bots.take(starts("section", body(2)));
  assert.equal(bots.states().section, "writing");
});

test("what is done around a bot that writes is not complete", () => {
  const bots = new Bots(graph);
  bots.take(starts("outline", "article"));
  bots.take(starts("section", body(3)));
  bots.take(ends("outline", "article"));
  assert.equal(bots.states().outline, "done");
  for (const uri of ["", "article", "article/sections", "article/sections/3"]) assert.ok(bots.writesBelow(uri), uri);
  for (const uri of [body(3), "article/sections/1", "quiz", "article/sections/33"]) assert.ok(!bots.writesBelow(uri), uri);
});

test("a bot has failed once its others have ended, and what it only reports is no failure", () => {
  const bots = new Bots(graph);
  bots.take(starts("section", body(0)));
  bots.take(starts("section", body(1)));
  bots.take({ event: "error", data: { bot: "section", code: "output_invalid" } });
  assert.equal(bots.states("done").section, "done");
  bots.take(bot("section", body(1), "failed"));
  assert.equal(bots.states().section, "writing");
  assert.equal(bots.states("done").section, "failed");
  bots.take(ends("section", body(0)));
  assert.equal(bots.states().section, "failed");
});

test("a bot that could not be started has failed", () => {
  const bots = new Bots(graph);
  bots.take({ event: "error", data: { bot: "quiz", code: "invalid_request", failed: true } });
  assert.equal(bots.states().quiz, "failed");
});

test("a run whose server was lost: bots that begin again have not started, and others stay", () => {
  const bots = new Bots(graph);
  bots.take(starts("outline", "article"), 10);
  bots.take(ends("outline", "article"), 20);
  bots.take(starts("section", body(0)), 30);
  bots.take(starts("section", body(1)), 40);
  bots.take(starts("section", body(2)), 50); // which the server did not store
  bots.take(ends("section", body(0)), 60);
  bots.take(ends("section", body(1)), 70);
  bots.take({ event: "restarted", data: { attempt: 2, bots: [{ bot: "section", root: body(1) }], parts: [body(1)] } });
  assert.deepEqual([...bots.starts("section").keys()], [body(0)]);
  assert.equal(bots.nameAt(body(1)), "outline");
  assert.deepEqual(bots.states(), { outline: "done", section: "done", quiz: "waiting" });
  bots.take(starts("section", body(1)), 1000);
  assert.equal(bots.states().section, "writing");
  assert.deepEqual(bots.starts("section").get(body(1)), { state: "writing", began: 1000 });
});

test("in a run that is over nobody writes, and who never began still waits", () => {
  const bots = new Bots(graph);
  bots.take(starts("outline", "article"));
  for (const left of ["done", "failed", "stopped"]) assert.deepEqual(bots.states(left), { outline: left, section: "waiting", quiz: "waiting" });
});

test("a bot that writes at the root", () => {
  const bots = new Bots({ bots: [{ name: "all", root: "", format: "json" }] });
  bots.take(starts("all", ""));
  assert.equal(bots.nameAt("a/b"), "all");
  bots.take(ends("all", ""));
  assert.deepEqual(bots.states(), { all: "done" });
});

test("names of bots and uris that look like members of objects are names", () => {
  const bots = new Bots({ bots: [{ name: "__proto__", root: "__proto__", format: "json" }, { name: "constructor", root: "constructor", format: "json" }] }, { "__proto__": [1, 2] });
  bots.take(starts("constructor", "constructor"));
  const states = bots.states();
  assert.equal(states.constructor, "writing");
  assert.deepEqual(Object.keys(states).sort(), ["__proto__", "constructor"]);
  assert.equal(Object.getPrototypeOf(states), Object.prototype);
});

// DN-13
test("the times of bots are there after a reload, as far as they were seen before", () => {
  const before = new Bots(graph);
  before.take(starts("outline", "article"), 100);
  before.take(starts("section", body(0)), 200);
  before.take(ends("section", body(0)), 400);
  const after = new Bots(graph, JSON.parse(JSON.stringify(before.times())));
  for (const event of [starts("outline", "article"), starts("section", body(0)), ends("section", body(0)), starts("quiz", "quiz")]) after.take(event);
  after.take(ends("outline", "article"), 900);
  assert.deepEqual([...after.starts("outline").values()], [{ state: "done", began: 100, ended: 900 }]);
  assert.deepEqual([...after.starts("section").values()], [{ state: "done", began: 200, ended: 400 }]);
  assert.deepEqual([...after.starts("quiz").values()], [{ state: "writing", began: undefined }]);
});

test("what an event costs does not grow with the places that were written to", () => {
  const took = (n) => {
    const bots = new Bots(graph);
    bots.take(starts("outline", "article"));
    const began = performance.now();
    for (let i = 0; i < n; i++) bots.take(d(`article/notes/${i}`, "x"));
    assert.equal(bots.states().outline, "writing");
    return performance.now() - began;
  };
  took(5000); // until it is compiled
  const few = took(5000);
  const many = took(100_000);
  assert.ok(many < 20 * few * 5, `20 times as many took ${many / few} times as long`);
});
