// The fold law, uris and patterns, against what the server's own parser and document do: api/vectors.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Fold, formatURI, parseURI, Pattern } from "@lingserve/client";

const vectors = (name) => JSON.parse(readFileSync(new URL(`../../../api/vectors/${name}.json`, import.meta.url), "utf8"));

// Freezes what was given out: whoever changes it after that throws.
function freeze(value) {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) Object.values(Object.freeze(value)).forEach(freeze);
  return value;
}

for (const name of ["fold", "parse"]) {
  for (const looked of ["at the end", "after each delta"]) {
    test(`${name}.json folds to the same documents, looked at ${looked}`, () => {
      const all = vectors(name);
      assert.ok(all.length > 20);
      for (const v of all) {
        const fold = new Fold();
        const refused = [];
        v.deltas?.forEach(({ uri, delta }, i) => {
          try {
            fold.apply(uri, freeze(delta));
          } catch {
            refused.push(i);
          }
          if (looked !== "at the end") freeze(fold.document), freeze(fold.reserved);
        });
        assert.deepEqual(refused, v.refused ?? [], v.name);
        // As text, too: deepEqual does not see a "__proto__" that became the prototype.
        assert.equal(JSON.stringify(fold.document), JSON.stringify(v.result), v.name);
        assert.deepEqual(fold.document, v.result, v.name);
        assert.deepEqual({ ...fold.reserved }, v.reserved ?? {}, v.name);
      }
      assert.equal({}.polluted, undefined);
      assert.equal(Object.polluted, undefined);
    });
  }
}

test("uris.json: formatting and parsing are inverse, and what is no uri is refused", () => {
  for (const { uri, segments } of vectors("uris")) {
    if (segments) {
      assert.deepEqual(parseURI(uri), segments, uri);
    } else if (uri === "") {
      assert.deepEqual(parseURI(uri), []);
    } else {
      assert.throws(() => parseURI(uri), { message: /^uri / }, uri);
    }
    if (segments && !segments.some((s) => s.startsWith("$"))) assert.equal(formatURI(segments), uri);
  }
  assert.equal(formatURI(["a/b", "", "$x", ".", 0]), "a\\/b/\\e/\\$x/\\./0");
});

test("patterns.json: patterns match what the server's match", () => {
  for (const { pattern, invalid, matches } of vectors("patterns")) {
    if (invalid) {
      assert.throws(() => new Pattern(pattern), pattern);
      continue;
    }
    const p = new Pattern(pattern);
    for (const [uri, want] of Object.entries(matches)) assert.equal(p.matches(uri), want, `${pattern} and ${uri}`);
  }
});
