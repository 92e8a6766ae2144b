import assert from "node:assert/strict";
import { test } from "node:test";
import { Fold, Pattern } from "@lingserve/client";

test("parts that did not change keep their identity, and those given out never change", () => {
  const fold = new Fold();
  fold.apply("a", { b: { c: 1 }, d: [{ e: 1 }, { f: 2 }] });
  fold.apply("g", "text");
  const before = fold.document;
  const copy = structuredClone(before);
  fold.apply("a/d/1/f", 3);
  fold.apply("g", " more");
  const after = fold.document;
  assert.deepEqual(before, copy);
  assert.deepEqual(after, { a: { b: { c: 1 }, d: [{ e: 1 }, { f: 3 }] }, g: "text more" });
  assert.notEqual(after.a, before.a);
  assert.notEqual(after.a.d, before.a.d);
  assert.equal(after.a.b, before.a.b);
  assert.equal(after.a.d[0], before.a.d[0]);
  assert.equal(fold.document, after, "looking twice gives the same");
});

test("an event's own value is not changed by later deltas", () => {
  const fold = new Fold();
  const delta = { b: [] };
  fold.apply("a", delta);
  fold.apply("a/b/0", "x");
  assert.deepEqual(delta, { b: [] });
});

test("what nests too deep is refused, whether in uris or in values", () => {
  const fold = new Fold();
  const deep = (n) => JSON.parse("[".repeat(n) + "]".repeat(n));
  fold.apply(Array(1024).fill("a").join("/"), 1);
  assert.throws(() => fold.apply(Array(1025).fill("a").join("/"), 1));
  fold.apply("b", deep(1024));
  assert.throws(() => fold.apply("b", deep(1025)));
  assert.throws(() => fold.apply("b", deep(1025)), "and again, at the same place");
  assert.throws(() => fold.apply("c", deep(100_000)));
  assert.equal(JSON.stringify(fold.document.b), "[".repeat(1024) + "]".repeat(1024));
});

test("deltas to a wide array between two looks copy it once", () => {
  const fold = new Fold();
  fold.apply("a", Array(50_000).fill(0));
  fold.document;
  let copies = 0;
  const slice = Array.prototype.slice;
  Array.prototype.slice = function (...args) {
    if (this.length >= 50_000) copies++;
    return slice.apply(this, args);
  };
  try {
    for (let i = 0; i < 1000; i++) fold.apply(`a/${i}`, "x"), fold.apply("b", "y");
  } finally {
    Array.prototype.slice = slice;
  }
  assert.equal(copies, 1);
});

test("a text of a million deltas takes no more memory than about its length", { skip: !globalThis.gc && "run with --expose-gc" }, () => {
  const fold = new Fold();
  gc();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < 1_000_000; i++) fold.apply(i % 2 ? "a/text" : "b/text", `w${i % 10} `);
  gc();
  const grown = process.memoryUsage().heapUsed - before;
  const text = fold.document.a.text.length * 2;
  assert.equal(text, 3_000_000);
  assert.ok(grown < 3 * text, `${grown} bytes for a text of ${text}`);
});

test("matching takes time that is no more than pattern times uri", () => {
  const p = new Pattern(Array(200).fill("**/a").join("/") + "/b");
  const began = performance.now();
  assert.equal(p.matches(Array(1000).fill("a").join("/")), false);
  assert.ok(performance.now() - began < 5000);
});
