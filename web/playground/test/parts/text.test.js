// Foreign text where it must not pass for anything else.
import assert from "node:assert/strict";
import { test } from "node:test";
import { json, short, visible } from "../../node_modules/.parts/playground/src/parts/text.js";

for (const [name, text, want] of [
  ["ordinary text", "Añ 漢字 😀 عربى\n\ttab", "Añ 漢字 😀 عربى\n\ttab"],
  ["what turns the direction", "a\u202eb\u2066c\u2069", "a\\u202eb\\u2066c\\u2069"],
  ["what has no width", "pay\u200bpal\u200d\ufeff\u00ad", "pay\\u200bpal\\u200d\\ufeff\\u00ad"],
  ["controls", "\u0000\u0007\u001b[31m\u007f\u009b\r", "\\u0000\\u0007\\u001b[31m\\u007f\\u009b\\u000d"],
  ["tags, which are beyond the first plane", "a\u{e0041}\u{e007f}", "a\\udb40\\udc41\\udb40\\udc7f"],
  ["separators of lines that are none", "a\u2028b\u2029", "a\\u2028b\\u2029"],
  ["fillers", "\u3164\u115f\uffa0", "\\u3164\\u115f\\uffa0"],
]) {
  test(`all of a text can be seen: ${name}`, () => assert.equal(visible(text), want));
}

test("a text that is too long ends with a mark", () => {
  assert.equal(short("abc", 3), "abc");
  assert.equal(short("ab cd", 3), "ab…");
});

test("JSON of what has none is empty", () => {
  assert.equal(json(undefined), "");
  assert.equal(json({ a: [1] }), '{\n  "a": [\n    1\n  ]\n}');
});
