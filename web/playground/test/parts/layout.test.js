// Where bots are drawn, and how the lines between them run.
import assert from "node:assert/strict";
import { test } from "node:test";
import { clip, lanes, layout, order, sayTrigger, shortTrigger } from "../../node_modules/.parts/playground/src/parts/graph/layout.js";
import { random } from "./random.js";

// Bots by name, with those that start each: "b<a" is b, started by a.
const bots = (...list) =>
  list.map((text) => {
    const [name, after] = text.split("<");
    return { name, root: name, format: "text", ...(after && { on: { string: "x" }, after: after.split(",") }) };
  });

const named = (list, { layers }) => layers.map((l) => l.map((i) => list[i].name).join(" "));

for (const [name, list, want] of [
  ["one bot", ["a"], ["a"]],
  ["a chain", ["a", "b<a", "c<b"], ["a", "b", "c"]],
  ["a fork that comes together", ["a", "b<a", "c<a", "d<b,c"], ["a", "b c", "d"]],
  ["a way that is longer", ["a", "b<a", "c<a,b"], ["a", "b", "c"]],
  ["a circle", ["a", "b<a,c", "c<b"], ["a", "b", "c"]],
  ["one that starts itself", ["a", "b<a,b"], ["a", "b"]],
  ["a circle that nothing begins", ["a<b", "b<a"], ["a", "b"]],
  ["bots that are listed backwards", ["c<b", "b<a", "a"], ["a", "b", "c"]],
  ["two that have nothing to do with each other", ["a", "b", "c<b"], ["a b", "c"]],
  ["lines that would cross", ["a", "b", "x<b", "y<a"], ["a b", "y x"]],
  ["a name that is not there", ["a", "b<a,nobody"], ["a", "b"]],
  ["a name of the prototype", ["constructor", "b<constructor"], ["constructor", "b"]],
  ["none", [], []],
]) {
  test(`layers of ${name}`, () => assert.deepEqual(named(bots(...list), layout(bots(...list))), want));
}

test("any graph: each bot has a place of its own, and what starts something is before it, but for lines that close a circle", () => {
  const r = random(8);
  for (let i = 0; i < 400; i++) {
    const n = 1 + r(40);
    const list = Array.from({ length: n }, (_, b) => ({ name: `b${b}`, on: r(4) ? {} : undefined, after: Array.from({ length: r(4) }, () => `b${r(n)}`) }));
    const laid = layout(list);
    const places = new Set(laid.places.map((p) => `${p.layer}/${p.order}`));
    assert.equal(places.size, n);
    laid.layers.forEach((l, layer) => l.forEach((b, at) => assert.deepEqual(laid.places[b], { layer, order: at })));
    for (const e of laid.edges) if (!e.back) assert.ok(laid.places[e.from].layer < laid.places[e.to].layer);
    const column = order(laid);
    assert.deepEqual([...column].sort((a, b) => a - b), list.map((_, b) => b));
    for (const e of laid.edges) if (!e.back) assert.ok(column.indexOf(e.from) < column.indexOf(e.to));
  }
});

test("a line closes a circle only where there is one", () => {
  const r = random(9);
  for (let i = 0; i < 200; i++) {
    const n = 1 + r(40);
    const list = Array.from({ length: n }, (_, b) => ({ name: `b${b}`, after: b === 0 ? [] : Array.from({ length: r(4) }, () => `b${r(b)}`) }));
    assert.ok(layout(list).edges.every((e) => !e.back));
  }
});

test("in a column, what a bot starts is near it", () => {
  const list = bots("a", "b<a", "c<a", "b1<b", "b2<b", "c1<c");
  assert.deepEqual(order(layout(list)).map((i) => list[i].name), ["a", "b", "b1", "b2", "c", "c1"]);
});

test("lanes: spans that overlap have another one, short ones are nearest, and there are no more than there may be", () => {
  assert.deepEqual(lanes([{ from: 0, to: 9 }, { from: 1, to: 2 }, { from: 2, to: 3 }, { from: 1, to: 5 }], 6), [2, 0, 0, 1]);
  const many = Array.from({ length: 30 }, () => ({ from: 0, to: 1 }));
  assert.equal(Math.max(...lanes(many, 6)), 5);
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

test("a text is cut in its middle, and never within a character", () => {
  assert.equal(clip("article/sections/*/title", 11), "artic…title");
  assert.equal(clip("short", 5), "short");
  assert.equal(clip("😀😀😀😀😀", 3), "😀…😀");
});
