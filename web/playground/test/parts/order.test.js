// The order of bots in their graph, and what starts them in words.
import assert from "node:assert/strict";
import { test } from "node:test";
import { order, sayTrigger, shortTrigger } from "../../node_modules/.parts/playground/src/parts/graph/order.js";
import { random } from "./random.js";

// Bots by name, with those that start each: "b<a" is b, started by a.
const bots = (...list) =>
  list.map((text) => {
    const [name, after] = text.split("<");
    return { name, root: name, format: "text", ...(after && { on: { string: "x" }, after: after.split(",") }) };
  });

for (const [name, list, want] of [
  ["one bot", ["a"], "a"],
  ["a chain", ["a", "b<a", "c<b"], "a b c"],
  ["a fork that comes together", ["a", "b<a", "c<a", "d<b,c"], "a b c d"],
  ["a way that is longer", ["a", "c<a,b", "b<a"], "a b c"],
  ["a circle", ["a", "b<a,c", "c<b"], "a b c"],
  ["one that starts itself", ["a", "b<a,b"], "a b"],
  ["bots that are listed backwards", ["c<b", "b<a", "a"], "a b c"],
  ["two that have nothing to do with each other", ["a", "b", "c<b"], "a b c"],
  ["what a bot starts, which is near it", ["a", "b<a", "c<a", "b1<b", "b2<b", "c1<c"], "a b b1 b2 c c1"],
  ["a name that is not there", ["a", "b<a,nobody"], "a b"],
  ["a name of the prototype", ["constructor", "b<constructor"], "constructor b"],
  ["none", [], ""],
]) {
  test(`the order of ${name}`, () => assert.equal(order(bots(...list)).map((i) => bots(...list)[i].name).join(" "), want));
}

test("any graph: each bot has one place, and without circles it is behind those that start it", () => {
  const r = random(8);
  for (let i = 0; i < 400; i++) {
    const n = 1 + r(40);
    const circles = i % 2 === 0;
    const list = Array.from({ length: n }, (_, b) => ({ name: `b${b}`, on: b > 0 && r(4) ? {} : undefined, after: b === 0 ? [] : Array.from({ length: r(4) }, () => `b${r(circles ? n : b)}`) }));
    const places = order(list);
    assert.deepEqual([...places].sort((a, b) => a - b), list.map((_, b) => b));
    if (circles) continue;
    list.forEach((b, to) => b.after.forEach((name) => assert.ok(places.indexOf(Number(name.slice(1))) < places.indexOf(to))));
  }
});

for (const [on, say, brief] of [
  [undefined, "starts with the run", "at the start"],
  [{ string: "a/*/b" }, "for each text at a/*/b", "on a/*/b"],
  [{ object: "a" }, "for each object at a", "on a"],
  [{ value: "**" }, "for each value at **", "on **"],
  [{ done: "a" }, "when a has ended", "after a"],
  [{ error: "a" }, "when a has failed", "if a fails"],
  // DW-02, DW-03
  [{ done: ["a", "b"] }, "when a and b have ended", "after a and b"],
  [{ completed: "a" }, "when a has ended without a failure", "if a completed"],
  [[{ completed: "a" }, { error: "a" }], "when a has ended without a failure, or when a has failed", "if a completed or if a fails"],
  [{}, "for each value at the root", "on the root"],
]) {
  test(`the trigger ${JSON.stringify(on)} in words`, () => assert.deepEqual([sayTrigger(on), shortTrigger(on)], [say, brief]));
}
