// What the bots of a workflow are doing, as far as its events tell.
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
const done = (uri) => ({ uri, done: true });

test("a bot is known by where it writes, the deepest root first", () => {
  const bots = new Bots(graph);
  assert.deepEqual(bots.states(), { outline: "waiting", section: "waiting", quiz: "waiting" });
  bots.take(d("article", {}));
  bots.take(d("article/title", "Why"));
  assert.deepEqual(bots.states(), { outline: "writing", section: "waiting", quiz: "waiting" });
  bots.take(d("article/sections/0/body", "S"));
  assert.deepEqual(bots.states(), { outline: "writing", section: "writing", quiz: "waiting" });
  assert.equal(bots.nameAt("article/sections/0/title"), "outline");
  assert.equal(bots.nameAt("article/sections/0/body"), "section");
  assert.equal(bots.nameAt("other"), undefined);
});

test("a bot with several runs writes until the last of them has ended", () => {
  const bots = new Bots(graph);
  for (const i of [0, 1]) bots.take(d(`article/sections/${i}/body`, "x"));
  bots.take(done("article/sections/0/body"));
  assert.equal(bots.states().section, "writing");
  bots.take(done("article/sections/1/body"));
  assert.equal(bots.states().section, "done");
  bots.take(d("article/sections/2/body", "x"));
  assert.equal(bots.states().section, "writing");
});

test("what is done around a bot that writes is not complete", () => {
  const bots = new Bots(graph);
  bots.take(d("article", {}));
  bots.take(d("article/sections/3/body", "x"));
  bots.take(done("article"));
  assert.equal(bots.states().outline, "done");
  for (const uri of ["", "article", "article/sections", "article/sections/3"]) assert.ok(bots.writesBelow(uri), uri);
  for (const uri of ["article/sections/3/body", "article/sections/1", "quiz", "article/sections/33"]) assert.ok(!bots.writesBelow(uri), uri);
});

test("thinking is work, too, and is that of the bot beside whose text it stands", () => {
  const bots = new Bots(graph);
  bots.take(d("quiz/$reasoning_context", "Hm."));
  assert.equal(bots.states().quiz, "writing");
});

test("a snapshot says who has written, and what it says to be done is", () => {
  const bots = new Bots(graph);
  bots.take({ event: "usage", data: { bot: "outline" } });
  bots.take(d("", { article: { title: "x", sections: [{ title: "a", body: "b" }, { title: "c" }] } }));
  bots.take(done("article"));
  assert.deepEqual(bots.states(), { outline: "done", section: "writing", quiz: "waiting" });
  bots.take(done("article/sections/0/body"));
  assert.equal(bots.states().section, "done");
});

test("an error fails the bot that it names, once its others have ended", () => {
  const bots = new Bots(graph);
  bots.take(d("article/sections/0/body", "x"));
  bots.take({ event: "error", data: { bot: "section", code: "upstream_timeout", fatal: false } });
  assert.equal(bots.states().section, "writing");
  assert.equal(bots.states("done").section, "failed");
  bots.take(done("article/sections/0/body"));
  assert.equal(bots.states().section, "failed");
});

test("in a run that is over nobody writes, and who never began still waits", () => {
  const bots = new Bots(graph);
  bots.take(d("article", {}));
  for (const left of ["done", "failed", "stopped"]) assert.deepEqual(bots.states(left), { outline: left, section: "waiting", quiz: "waiting" });
});

test("a bot that writes at the root, and one that is quiet", () => {
  const bots = new Bots({ bots: [{ name: "all", root: "", format: "json" }, { name: "quiet", root: "hidden", format: "json" }] });
  bots.take(d("a/b", 1));
  assert.deepEqual(bots.states(), { all: "writing", quiet: "waiting" });
  bots.take({ event: "usage", data: { bot: "quiet" } });
  bots.take(done(""));
  assert.deepEqual(bots.states(), { all: "done", quiet: "done" });
});

test("names of bots and uris that look like members of objects are names", () => {
  const bots = new Bots({ bots: [{ name: "__proto__", root: "__proto__", format: "json" }, { name: "constructor", root: "constructor", format: "json" }] });
  bots.take(d("constructor", "x"));
  const states = bots.states();
  assert.equal(states.constructor, "writing");
  assert.deepEqual(Object.keys(states).sort(), ["__proto__", "constructor"]);
  assert.equal(Object.getPrototypeOf(states), Object.prototype);
});

// DN-13
test("the times of bots are there after a reload, as far as they were seen before", () => {
  const graph = { bots: [{ name: "outline", root: "article", format: "json" }, { name: "section", root: "article/sections/{{ n }}/text", format: "text" }] };
  const before = new Bots(graph);
  before.take({ uri: "article/title", delta: "Why" }, 100);
  before.take({ uri: "article/sections/0/text", delta: "Of" }, 200);
  before.take({ uri: "article/sections/0/text", done: true }, 400);
  const after = new Bots(graph, JSON.parse(JSON.stringify(before.times())));
  after.take({ uri: "", delta: { article: { title: "Why", sections: [{ text: "Of" }] } } });
  after.take({ uri: "article/sections/0/text", done: true });
  after.take({ uri: "article", done: true }, 900);
  assert.deepEqual([...after.starts("outline").values()], [{ state: "done", began: 100, ended: 900 }]);
  assert.deepEqual([...after.starts("section").values()], [{ state: "done", began: 200, ended: 400 }]);
  const unknown = new Bots(graph, { "__proto__": [1, 2] });
  unknown.take({ uri: "", delta: { article: {} } });
  assert.deepEqual([...unknown.starts("outline").values()], [{ state: "writing", began: undefined }]);
});

test("what an event costs does not grow with the places that were written to", () => {
  const took = (n) => {
    const bots = new Bots(graph);
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
