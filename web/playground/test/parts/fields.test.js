// Which fields a schema asks for, and what is wrong with a value as far as the page can see.
import assert from "node:assert/strict";
import { test } from "node:test";
import { below, blank, errorsAt, field, misfit, numberOf, resolve, titleOf, withMember, withoutBlankRows } from "../../node_modules/.parts/playground/src/parts/schema/fields.js";

const kindOf = (schema, root = {}) => {
  const f = field(schema, root, true);
  return f.kind + (f.kind === "text" ? (f.long ? " long" : "") + (f.type === "text" ? "" : ` ${f.type}`) : f.kind === "choice" ? ` ${f.options.map((o) => o.label)}` : f.kind === "number" && f.whole ? " whole" : "");
};

for (const [name, schema, want] of [
  ["a long text", { type: "string", maxLength: 2000 }, "text long"],
  ["a text without a bound", { type: "string" }, "text long"],
  ["a short text", { type: "string", maxLength: 200 }, "text"],
  ["a text of a pattern", { type: "string", pattern: "^a" }, "text"],
  ["an address of mail", { type: "string", format: "email" }, "text email"],
  ["an address", { type: "string", format: "uri" }, "text url"],
  ["a date", { type: "string", format: "date" }, "text date"],
  ["a format that is not known", { type: "string", format: "hostname" }, "text"],
  ["a number", { type: "number" }, "number"],
  ["a whole number", { type: "integer" }, "number whole"],
  ["a boolean", { type: "boolean" }, "boolean"],
  ["an enum", { enum: ["a", 1, null] }, "choice a,1,null"],
  ["an enum of texts", { type: "string", enum: ["a", "b"] }, "choice a,b"],
  ["alternatives that are values", { oneOf: [{ const: 1, title: "One" }, { const: 2 }] }, "choice One,2"],
  ["alternatives that are not", { anyOf: [{ type: "string" }, { type: "number" }] }, "json"],
  ["one value", { const: 1 }, "json"],
  ["a text or nothing", { type: ["string", "null"], maxLength: 9 }, "text"],
  ["several types", { type: ["string", "number"] }, "json"],
  ["a list", { type: "array", items: { type: "string" } }, "list"],
  ["a list of anything", { type: "array" }, "json"],
  ["a tuple", { type: "array", prefixItems: [{}] }, "json"],
  ["an object", { type: "object", properties: { a: {} } }, "object"],
  ["an object that does not say so", { properties: { a: {} } }, "object"],
  ["an object without properties", { type: "object" }, "json"],
  ["anything", {}, "json"],
  ["anything, said shortly", true, "json"],
  ["a reference", { $ref: "#/$defs/a" }, "number whole"],
  ["a reference through references", { $ref: "#/$defs/b" }, "number whole"],
  ["a reference to itself", { $ref: "#/$defs/c" }, "json"],
  ["a reference to nothing", { $ref: "#/$defs/zzz" }, "json"],
  ["a reference to elsewhere", { $ref: "https://example.com/schema" }, "json"],
  ["a reference to a name of the prototype", { $ref: "#/constructor" }, "json"],
  ["a reference with escapes", { $ref: "#/$defs/x~1y%20z" }, "boolean"],
  ["parts that hold together", { allOf: [{ type: "string" }, { maxLength: 5 }] }, "text"],
  ["a condition", { type: "object", properties: { a: {} }, if: {} }, "json"],
]) {
  const root = { $defs: { a: { type: "integer" }, b: { $ref: "#/$defs/a" }, c: { $ref: "#/$defs/c" }, "x/y z": { type: "boolean" } } };
  test(`a schema of ${name}`, () => assert.equal(kindOf(schema, root), want));
}

test("objects that are in themselves end in JSON", () => {
  const root = { type: "object", properties: { child: { $ref: "#" } } };
  let f = field(root, root, true);
  let depth = 0;
  for (; f.kind === "object"; depth++) f = field(f.members[0].schema, root, false, depth + 1);
  assert.equal(f.kind, "json");
  assert.ok(depth < 12);
});

test("allOf joins properties and what is required", () => {
  const s = resolve({ allOf: [{ properties: { a: {} }, required: ["a"] }, { properties: { b: {} } }], required: ["b"] }, {});
  assert.deepEqual(Object.keys(s.properties), ["a", "b"]);
  assert.deepEqual(s.required.sort(), ["a", "b"]);
});

test("what a field is about is kept: title, description, default, example, whether it is needed", () => {
  const f = field({ type: "string", title: "T", description: "D", default: "x", examples: ["e"] }, {}, true);
  assert.deepEqual([f.title, f.description, f.fallback, f.example, f.required], ["T", "D", "x", "e", true]);
});

for (const [name, want] of [
  ["question", "Question"],
  ["max_words", "Max words"],
  ["firstName", "First Name"],
  ["a-b", "A b"],
  ["__proto__", "Proto"],
]) {
  test(`the name ${name} reads ${want}`, () => assert.equal(titleOf(field({}, {}, false), name), want));
}

for (const [name, schema, value, want] of [
  ["nothing", { type: "string", minLength: 1 }, undefined, ""],
  ["a text that is too short", { type: "string", minLength: 1 }, "", "Enter some text."],
  ["a text that is too long", { type: "string", maxLength: 2 }, "abc", "At most 2 characters; these are 3."],
  ["characters of two units", { type: "string", maxLength: 2 }, "😀😀", ""],
  ["a number that is none", { type: "number" }, "x", "Enter a number."],
  ["a number that is not whole", { type: "integer" }, 1.5, "Enter a whole number."],
  ["a number that is too small", { type: "number", minimum: 1 }, 0, "At least 1."],
  ["a number at a bound that is open", { type: "number", exclusiveMaximum: 1 }, 1, "Less than 1."],
  ["a list that is too short", { type: "array", items: {}, minItems: 2 }, [1], "Add at least 2."],
  ["what fits", { type: "integer", minimum: 1, maximum: 3 }, 2, ""],
]) {
  test(`what is wrong with ${name}`, () => assert.equal(misfit(field(schema, {}, true), value), want));
}

for (const [typed, want] of [
  ["", undefined], [" 12 ", 12], ["-1.5e3", -1500], [".5", 0.5], ["1.", 1], ["+3", 3], ["1e999", "1e999"], ["0x10", "0x10"], ["1,5", "1,5"], ["Infinity", "Infinity"], ["1 2", "1 2"],
]) {
  test(`the number that was typed as ${JSON.stringify(typed)}`, () => assert.equal(numberOf(typed), want));
}

test("a member is set and taken away, and all others stay where they are", () => {
  const value = { b: 1, unknown: 2, a: 3 };
  assert.deepEqual(Object.keys(withMember(value, "unknown", 9)), ["b", "unknown", "a"]);
  assert.deepEqual(withMember(value, "b", undefined), { unknown: 2, a: 3 });
  assert.deepEqual(value, { b: 1, unknown: 2, a: 3 });
  assert.deepEqual(withMember("text", "a", 1), { a: 1 });
});

test("a property called __proto__ is a property", () => {
  const made = withMember({}, "__proto__", { polluted: true });
  assert.equal(JSON.stringify(made), '{"__proto__":{"polluted":true}}');
  assert.equal(made.polluted, undefined);
});

test("an element of a list begins with what fits its schema", () => {
  const of = (schema) => blank(field(schema, {}, true));
  assert.deepEqual([of({ type: "string" }), of({ type: "object", properties: { a: {} } }), of({ enum: ["x"] }), of({ type: "boolean" }), of({ type: "integer", default: 3 })], ["", {}, "x", false, 3]);
});

test("errors find their place by JSON Pointer", () => {
  assert.equal(below("/input", "a/b~c"), "/input/a~1b~0c");
  const errors = [{ pointer: "/a", detail: "1" }, { pointer: "/a/b", detail: "2" }, { pointer: "/ab", detail: "3" }];
  assert.deepEqual(errorsAt(errors, "/a", false).map((e) => e.detail), ["1"]);
  assert.deepEqual(errorsAt(errors, "/a", true).map((e) => e.detail), ["1", "2"]);
});

// DN-13
const texts = { type: "array", items: { type: "string" } };
const people = { type: "array", items: { type: "object", properties: { name: { type: "string" }, tags: texts, adult: { type: "boolean" } } } };
for (const [name, schema, value, want] of [
  ["texts", texts, ["a", "", " ", "b"], ["a", "b"]],
  ["numbers", { type: "array", items: { type: "integer" } }, [0, null, 2], [0, 2]],
  ["choices", { type: "array", items: { enum: ["", "x", null] } }, ["", "x", null], ["", "x", null]],
  ["booleans", { type: "array", items: { type: "boolean" } }, [false, true], [false, true]],
  ["objects", people, [{}, { name: "", tags: [""] }, { name: "Ada", tags: ["x", ""] }, { adult: false }], [{ name: "Ada", tags: ["x"] }, { adult: false }]],
  ["JSON", { type: "array", items: {} }, [null, {}, { a: "" }, 0], [{}, { a: "" }, 0]],
  ["lists", { type: "array", items: texts }, [[], [""], ["a"]], [["a"]]],
]) {
  const form = { type: "object", required: ["list"], properties: { list: schema, other: { type: "string" } } };
  test(`rows that nobody has filled in are not sent: of ${name}`, () => assert.deepEqual(withoutBlankRows(form, { other: "", list: value }), { other: "", list: want }));
}

test("a list without rows is not sent, unless it is required", () => {
  const form = (required) => ({ type: "object", required, properties: { list: texts } });
  assert.deepEqual(withoutBlankRows(form([]), { list: [""] }), {});
  assert.deepEqual(withoutBlankRows(form([]), { list: [] }), { list: [] });
  assert.deepEqual(withoutBlankRows(form(["list"]), { list: [""] }), { list: [] });
});

test("what has no blank rows is sent as it is", () => {
  const value = { list: ["a"], unknown: [""] };
  assert.equal(withoutBlankRows({ type: "object", properties: { list: texts } }, value), value);
  for (const odd of ["text", null, 7, [""], undefined]) assert.equal(withoutBlankRows({ type: "object", properties: { list: texts } }, odd), odd);
  assert.equal(withoutBlankRows(true, value), value);
});
