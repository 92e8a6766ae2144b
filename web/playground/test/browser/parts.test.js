// The parts of the page that are made of data: forms, the document as a tree and to be read, the bots.
import assert from "node:assert/strict";
import { test } from "../../../browser/browser.js";
import { axe, stage } from "../parts/stage.js";

// What axe-core has to say against what is on the stage, in light and dark.
async function accessible(page) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    if (!(await page.evaluate(() => "axe" in window))) await page.addScriptTag({ path: axe });
    const found = await page.evaluate(() => axe.run("main", { resultTypes: ["violations"] }));
    assert.deepEqual(found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 120)).join(" ")}`), [], colorScheme);
  }
}

const fits = (page) => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
const value = (page) => page.evaluate(() => window.stage.value);

// The form of the shipped workflow, and one with everything.
const question = {
  type: "object",
  required: ["question"],
  additionalProperties: false,
  properties: {
    question: { type: "string", title: "Question", description: "What you want to know.", minLength: 1, maxLength: 2000, examples: ["Why is the sky blue?"] },
    audience: { type: "string", title: "Audience", maxLength: 200, default: "curious readers" },
    level: { type: "string", title: "Level", enum: ["child", "general", "expert"], default: "general" },
  },
};
const everything = {
  type: "object",
  required: ["count", "mode", "author"],
  properties: {
    count: { type: "integer", minimum: 1, maximum: 10 },
    mode: { enum: ["fast", 2, true] },
    sure: { type: "boolean", title: "Sure", description: "Whether it is." },
    tags: { type: "array", title: "Tags", items: { type: "string", maxLength: 20, title: "Tag" }, maxItems: 3 },
    author: { type: "object", title: "Author", required: ["name"], properties: { name: { type: "string", maxLength: 40 }, mail: { type: "string", format: "email" } } },
    either: { oneOf: [{ type: "string" }, { type: "object" }] },
  },
};

test("a form: what is typed is the value, and what is emptied is not there", async (t) => {
  const page = await stage(t);
  await page.show("SchemaForm", { schema: question, value: {}, idPrefix: "f" });
  await page.getByRole("textbox", { name: "Question" }).fill("Why?");
  await page.getByLabel("Audience").fill("x");
  await page.getByLabel("Audience").fill("");
  await page.getByLabel("Level").selectOption("expert");
  assert.deepEqual(await value(page), { question: "Why?", level: "expert" });
  await page.getByLabel("Level").selectOption("general (default)");
  const levels = await page.getByLabel("Level").locator("option").allTextContents();
  assert.equal(levels.filter((text) => text.startsWith("general")).length, 1, levels.join());
  assert.deepEqual(await value(page), { question: "Why?" });
});

test("a form: an example is taken by one click, while the field is empty", async (t) => {
  const page = await stage(t);
  await page.show("SchemaForm", { schema: question, value: {}, idPrefix: "f" });
  await page.getByRole("button", { name: "Use example for Question" }).click();
  assert.deepEqual(await value(page), { question: "Why is the sky blue?" });
  assert.equal(await page.getByRole("button").count(), 0);
});

test("a form: numbers, choices of any type, booleans, lists, objects, JSON", async (t) => {
  const page = await stage(t);
  await page.show("SchemaForm", { schema: everything, value: {}, idPrefix: "f" });
  await page.getByLabel("Count").pressSequentially("1.5e0");
  assert.equal(await page.getByLabel("Count").inputValue(), "1.5e0", "what was typed stays");
  await page.getByLabel("Mode").selectOption("2");
  await page.getByLabel("Sure").check();
  await page.getByRole("button", { name: "Add tag to Tags" }).click();
  await page.keyboard.type("one"); // the new field has the focus
  await page.getByRole("button", { name: "Add tag to Tags" }).click();
  await page.keyboard.type("two");
  await page.getByRole("button", { name: "Remove Tag 1" }).click();
  await page.getByLabel("Name").fill("Ada");
  await page.getByLabel("Either").fill('{"a": [1]}');
  assert.deepEqual(await value(page), { count: 1.5, mode: 2, sure: true, tags: ["two"], author: { name: "Ada" }, either: { a: [1] } });
});

test("a form: a list has no more elements than it may have", async (t) => {
  const page = await stage(t);
  await page.show("SchemaForm", { schema: everything, value: { tags: ["a", "b", "c"] }, idPrefix: "f" });
  assert.equal(await page.getByRole("button", { name: /^Add/ }).count(), 0);
});

test("a form: properties that the schema does not name are kept, and can be changed", async (t) => {
  const page = await stage(t);
  await page.show("SchemaForm", { schema: everything, value: { other: { a: 1 }, count: 1 }, idPrefix: "f" });
  await page.getByLabel("Count").fill("2");
  assert.deepEqual(await value(page), { other: { a: 1 }, count: 2 });
  await page.locator('[id="f:others"]').fill('{"other": 3, ');
  assert.deepEqual(await value(page), { other: { a: 1 }, count: 2 }, "half of JSON changes nothing");
  assert.equal(await page.locator('[id="f:others"]').inputValue(), '{"other": 3, ', "and is kept");
  await page.locator('[id="f:others"]').fill('{"other": 3, "__proto__": 4}');
  assert.equal(await page.evaluate(() => JSON.stringify(stage.value)), '{"count":2,"other":3,"__proto__":4}');
});

test("a form: a value that fits no field is shown as JSON, and is not lost", async (t) => {
  const page = await stage(t);
  await page.show("SchemaForm", { schema: everything, value: { author: "Ada", tags: { a: 1 }, mode: "slow" }, idPrefix: "f" });
  assert.equal(await page.getByLabel("Author").inputValue(), '"Ada"');
  assert.match(await page.getByText("Expected object, this is string.").textContent(), /Expected/);
  assert.equal(await page.getByLabel("Mode").locator("option:checked").textContent(), '"slow" (not one of these)');
  await page.getByLabel("Count").fill("3");
  assert.deepEqual(await value(page), { author: "Ada", tags: { a: 1 }, mode: "slow", count: 3 });
});

test("a form: errors stand at their fields, the first of which gets the focus", async (t) => {
  const page = await stage(t);
  await page.show("SchemaForm", {
    schema: everything, value: { count: 3, tags: ["a", "b"], author: {}, either: { x: 1 } }, idPrefix: "f", at: "/input",
    errors: [
      { pointer: "/input/tags/1", detail: "expected at most 20 characters, got 21" },
      { pointer: "/input/author/name", detail: "this property is required" },
      { pointer: "/input/either/x", detail: "expected a string, got a number" },
      { pointer: "/input/nmae", detail: "unknown property, did you mean \"name\"?" },
      { pointer: "/model", detail: "not of this form" },
      { parameter: "q", detail: "not of this form either" },
    ],
  }); // prettier-ignore
  const said = (name) => page.getByRole("textbox", { name }).evaluate((e) => [e.getAttribute("aria-invalid"), (e.getAttribute("aria-describedby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent).join(" ")]);
  assert.deepEqual(await said("Tag 2"), ["true", "Expected at most 20 characters, got 21."]);
  assert.deepEqual(await said("Tag 1"), [null, ""]);
  assert.deepEqual(await said("Name"), ["true", "This is required."]);
  assert.deepEqual(await said("Either"), ["true", "As JSON. x: expected a string, got a number"]);
  assert.equal(await page.getByRole("alert").textContent(), 'nmae: unknown property, did you mean "name"?');
  assert.ok(!(await page.locator("#stage").textContent()).includes("not of this form"));
  assert.equal(await page.evaluate(() => document.activeElement.id), "f/tags/1");
});

test("a form: what is wrong is said when a field is left, and not before", async (t) => {
  const page = await stage(t);
  await page.show("SchemaForm", { schema: everything, value: {}, idPrefix: "f" });
  await page.getByLabel("Count").fill("99");
  assert.equal(await page.getByText("At most 10.").count(), 0);
  await page.getByLabel("Count").blur();
  assert.equal(await page.getByText("At most 10.").count(), 1);
});

test("a form: names of properties that look like ids of something else", async (t) => {
  const page = await stage(t);
  const properties = Object.fromEntries(["a", "a:error", "a b", "a/b", "a-b", "%2F", "__proto__x", "constructor"].map((name) => [name, { type: "string", maxLength: 9, description: `this is ${name}` }]));
  properties.o = { type: "object", properties };
  await page.show("SchemaForm", { schema: { type: "object", properties }, value: {}, idPrefix: "f", errors: [{ pointer: "/a", detail: "wrong" }, { pointer: "/o/a~1b", detail: "wrong, too" }] });
  const ids = await page.locator("[id]").evaluateAll((all) => all.map((e) => e.id));
  assert.equal(new Set(ids).size, ids.length);
  assert.ok(ids.every((id) => !/\s/.test(id)));
  const invalid = await page.locator("[aria-invalid]").evaluateAll((all) => all.map((e) => e.id));
  assert.deepEqual(invalid, ["f/a", "f/o/a%2Fb"]);
  await page.locator('[id="f/constructor"]').fill("x");
  assert.deepEqual(await value(page), { constructor: "x" });
});

test("a form: nothing serious for axe, and it fits 360 pixels", async (t) => {
  const page = await stage(t, undefined, { viewport: { width: 360, height: 700 }, bypassCSP: true });
  await page.show("SchemaForm", { schema: everything, value: { tags: ["x".repeat(300)], other: 1 }, idPrefix: "f", errors: [{ pointer: "/count", detail: "this property is required" }] });
  assert.ok(await fits(page));
  await accessible(page);
});

// A document whose places are complete, but for those that are named.
const document_ = (page, value, open = [], more = "") =>
  page.evaluate(([value, open, more]) => {
    const set = new Set(open);
    window.renders ??= 0;
    stage.show("DocumentTree", { value, done: (uri) => !set.has(uri), ...(more === "count" && { onText: (text) => (window.renders++, text) }) });
  }, [value, open, more]);

test("the document: names and values, as they are", async (t) => {
  const page = await stage(t);
  await document_(page, { title: "T", n: 1e21, yes: true, no: null, list: ["a", { b: {} }, []], "": "x", "a/b": 1 });
  const text = await page.locator(".tree").innerText();
  for (const part of ["title\nT", "n\n1e+21", "yes\ntrue", "no\nnull", "0\na", "nothing", "empty list", "(no name)\nx", "a/b\n1"]) assert.ok(text.includes(part), `${part} in ${JSON.stringify(text)}`);
});

test("the document: hostile names are names", async (t) => {
  const page = await stage(t);
  await page.evaluate(() => stage.show("DocumentTree", { value: JSON.parse('{"__proto__": {"x": "y"}, "constructor": "c", "<b>": "<img src=x onerror=window.pwned=1>", "toString": 1}'), done: () => true }));
  assert.match(await page.locator(".tree").innerText(), /__proto__\n[^]*x\ny[^]*constructor\nc[^]*<b>\n<img src=x onerror=window.pwned=1>[^]*toString\n1/);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  await document_(page, { "\u202egnp.exe": "x", "\u0000a": "y" });
  assert.match(await page.locator(".tree").innerText(), /\\u202egnp\.exe\nx[^]*\\u0000a\ny/);
});

test("the document: lists have their numbers and dots, in a document and in an answer, at the side where they begin", async (t) => {
  const page = await stage(t);
  const text = "1. one\n2. two\n\n- dot\n\n1. واحد\n2. اثنان\n\n- [ ] task\n";
  const marks = () => page.locator(".md li").evaluateAll((all) => all.map((e) => [getComputedStyle(e).listStyleType, getComputedStyle(e).direction].join(" ")));
  const expected = ["decimal ltr", "decimal ltr", "disc ltr", "decimal rtl", "decimal rtl", "none ltr"];
  await document_(page, { x: text });
  assert.deepEqual(await marks(), expected);
  await page.evaluate((text) => stage.show("Markdown", { text }), text);
  assert.deepEqual(await marks(), expected);
});

test("the document: long texts and those with lines are prose, and the one that is being written has the caret", async (t) => {
  const page = await stage(t);
  await document_(page, { a: "short", b: "**two**\n\nlines", c: "gro" }, ["", "c"]);
  assert.equal(await page.locator(".tree strong").textContent(), "two");
  assert.equal(await page.locator(".tree-caret").count(), 1);
  assert.match(await page.locator("li", { hasText: "gro" }).innerText(), /being written/);
  await document_(page, { a: "short", b: "**two**\n\nlines", c: "grown" });
  assert.equal(await page.locator(".tree-caret").count(), 0);
});

test("the document: the caret stands where the text ends: in a list, a table, a quote, code, a heading", async (t) => {
  const page = await stage(t);
  for (const [text, where] of [["- a\n- b", "P b"], ["|a|b|\n|-|-|\n|c|d", "TD d"], ["|a|b|\n|-|-|\n|c|", "TD c"], ["> a\n> > b", "P b"], ["```\na\nb", "CODE a\nb"], ["a\n\n# b", "H3 b"], ["a\n\nb *c", "P b c"]]) {
    await document_(page, { x: "y\n\n" + text }, ["x"]);
    assert.deepEqual(await page.locator(".md-end").evaluateAll((all) => all.map((e) => `${e.tagName} ${e.textContent}`)), [where]);
  }
  await document_(page, { x: "y\n\n- a" });
  assert.equal(await page.locator(".md-end").count(), 0);
});

test("the document: a text at the place where others are prose is prose from its beginning", async (t) => {
  const page = await stage(t);
  await document_(page, { s: [{ body: "a long text\nof two lines" }] });
  await document_(page, { s: [{ body: "a long text\nof two lines" }, { body: "Th" }] }, ["s/1/body"]);
  assert.equal(await page.locator(".tree-prose").count(), 2);
});

test("the document: only what has changed, or is not complete, renders", async (t) => {
  const page = await stage(t);
  const renders = await page.evaluate(() => {
    let renders = 0;
    const sections = Array.from({ length: 50 }, (_, i) => ({ title: `t${i}`, body: "x".repeat(100), more: { a: "1", b: "2" } }));
    let value = { article: { title: "T", sections } };
    const open = new Set(["", "article", "article/sections", "article/sections/49", "article/sections/49/body"]);
    const show = () => stage.show("DocumentTree", { value, done: (uri) => !open.has(uri), onText: (text) => (renders++, text) });
    show();
    const first = renders;
    renders = 0;
    for (let i = 0; i < 100; i++) {
      // As the client does it: new containers on the way, all others the same.
      const last = value.article.sections.at(-1);
      value = { ...value, article: { ...value.article, sections: [...value.article.sections.slice(0, -1), { ...last, body: last.body + "y" }] } };
      show();
    }
    const growing = renders;
    renders = 0;
    open.clear();
    show();
    return { first, growing, end: renders, carets: document.querySelectorAll(".md-end, .tree-caret").length };
  });
  assert.deepEqual(renders, { first: 50 * 4 + 1, growing: 100, end: 1, carets: 0 });
});

test("the document: of many members, a hundred are shown, and more on demand", async (t) => {
  const page = await stage(t);
  await document_(page, Array.from({ length: 100_000 }, (_, i) => i));
  assert.equal(await page.locator(".tree-member").count(), 100);
  assert.match(await page.locator(".tree-more").innerText(), /100 of 100,000/);
  await page.getByRole("button", { name: "Show more" }).click();
  assert.equal(await page.locator(".tree-member").count(), 200);
});

test("the document: of a thousand thousand values, those of a few levels are open", async (t) => {
  const page = await stage(t);
  const members = await page.evaluate(() => {
    const hundred = (of) => Array.from({ length: 100 }, of);
    stage.show("DocumentTree", { value: hundred(() => hundred(() => hundred(() => 1))), done: () => true });
    return document.querySelectorAll(".tree-member").length;
  });
  assert.ok(members > 100 && members < 20_000, `${members}`);
  const list = { items: Array.from({ length: 60 }, (_, i) => ({ title: `t${i}`, more: { a: 1 } })) };
  await document_(page, list);
  assert.equal(await page.locator(".tree-toggle[aria-expanded=false]").count(), 0, "an ordinary document is open as a whole");
});

test("the document: what is deep is folded, and opens step by step", async (t) => {
  const page = await stage(t, undefined, { viewport: { width: 360, height: 700 } });
  await page.evaluate(() => {
    let value = "the bottom";
    for (let i = 0; i < 1000; i++) value = { a: value };
    stage.show("DocumentTree", { value, done: () => true });
  });
  const before = await page.locator(".tree-member").count();
  assert.ok(before < 20, `${before}`);
  for (let i = 0; i < 30; i++) await page.locator(".tree-toggle[aria-expanded=false]").click();
  assert.equal(await page.locator(".tree-member").count(), before + 30);
  assert.ok(await fits(page));
});

test("the document: a text of a megabyte, and one that grows to it", async (t) => {
  const page = await stage(t, undefined, { viewport: { width: 360, height: 700 } });
  await document_(page, { text: "word ".repeat(200_000), key: "x".repeat(1 << 20) });
  assert.ok(await fits(page));
  assert.equal(await page.getByText("This text is very long").count(), 2);
  const chunks = await page.evaluate(() => {
    stage.clear();
    const changed = [];
    for (let n = 300_000; n <= 1_000_000; n += 20_000) {
      stage.show("DocumentTree", { value: { text: "x".repeat(n) }, done: () => false });
      if (n === 600_000) new MutationObserver((r) => changed.push(...r)).observe(document.querySelector("#stage"), { childList: true, characterData: true, subtree: true });
    }
    return new Promise((resolve) => setTimeout(() => resolve(changed.length)));
  });
  // 400 000 characters in chunks of 8 192 are 49 new ones; a chunk that is full is never touched again.
  assert.ok(chunks < 4 * 49 + 40, `${chunks} changes`);
});

test("the document: folds by keyboard, and copies a value and its uri", async (t) => {
  const page = await stage(t, "http://127.0.0.1:9", { permissions: ["clipboard-read", "clipboard-write"] });
  await document_(page, { "a/b": [{ $c: { d: 1 } }] });
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-expanded")), "true");
  await page.keyboard.press("Enter");
  assert.equal(await page.locator(".tree-member").count(), 1);
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "$c", exact: true }).click();
  await page.getByRole("button", { name: "Copy uri" }).click();
  await page.getByText("Copied").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "a\\/b/0/\\$c");
  await page.getByRole("button", { name: "Copy value" }).click();
  await page.until(async () => (await navigator.clipboard.readText()) === '{\n  "d": 1\n}');
});

test("the document: an agent's answer is one text", async (t) => {
  const page = await stage(t);
  await document_(page, "Hi **there**", [""]);
  assert.equal(await page.locator(".tree strong").textContent(), "there");
  assert.equal(await page.locator(".tree-key").count(), 0);
});

test("the document: nothing serious for axe", async (t) => {
  const page = await stage(t, undefined, { bypassCSP: true });
  await document_(page, { a: "b", list: [{ c: "# d\n\ne [f](https://g.example/)\n\n|h|\n|-|\n|i|\n\n```\nj\n```\n- [x] k" }, "growing"], none: {} }, ["list", "list/1"]);
  await page.getByRole("button", { name: "a", exact: true }).click();
  await accessible(page);
});

const graph = {
  bots: [
    { name: "outline", root: "article", format: "json" },
    { name: "section", root: "article/sections/{{ event.match.0 }}/body", format: "text", on: { string: "article/sections/*/title" }, after: ["outline"] },
    { name: "quiz", root: "quiz", format: "json", on: { done: "section" }, after: ["section", "quiz"] },
  ],
  events: [{ name: "outline-ready", on: { done: "outline" } }],
};

test("the bots: each with what starts it and what it does, also in words, and what it was started for", async (t) => {
  const page = await stage(t);
  await page.evaluate((graph) => stage.show("Stops", {
    graph, states: { outline: "done", section: "writing" },
    startsOf: (bot) => (bot === "section" ? [{ root: "a/0", label: "Waves", state: "done", time: "2.0 s" }, { root: "a/1", label: "Air", state: "writing", time: "1.0 s" }] : []),
    timeOf: (bot) => (bot === "outline" ? "3.5 s" : ""),
    onSelect: (bot) => stage.said.push(bot),
  }), graph);
  assert.deepEqual(await page.getByRole("button").evaluateAll((all) => all.map((e) => e.querySelector(".sr").textContent)), [
    "outline, done: starts with the run. Writes json at article.",
    "section, writing: for each text at article/sections/*/title. Writes text at article/sections/{{ event.match.0 }}/body.",
    "quiz, waiting: when section has ended. Writes json at quiz.",
  ]);
  assert.deepEqual(await page.locator(".stop-row > .stop-note").allTextContents(), ["3.5 s", "1 writing", "after section"]);
  assert.deepEqual(await page.locator(".stop-start").allInnerTexts().then((all) => all.map((text) => text.replace(/\s+/g, " "))), ["Waves 2.0 s done", "Air 1.0 s writing"]);
  assert.match(await page.locator(".stop-events").innerText(), /outline-ready is sent when outline has ended/);
  await page.getByRole("button", { name: /^section/ }).focus();
  await page.keyboard.press("Enter");
  assert.deepEqual(await page.evaluate(() => stage.said), ["section"]);
});

test("the bots: forty of them in a narrow column, none beyond it, and axe finds nothing", async (t) => {
  const page = await stage(t, undefined, { viewport: { width: 360, height: 700 }, reducedMotion: "reduce", bypassCSP: true });
  const bots = Array.from({ length: 40 }, (_, i) => ({ name: `a-bot-of-a-rather-long-name-for-any-column-${i}`, root: `r${i}`, format: "text", ...(i > 0 && { on: { string: `r${i >> 1}/**` }, after: [`a-bot-of-a-rather-long-name-for-any-column-${i >> 1}`] }) }));
  await page.evaluate((bots) => stage.show("Stops", { graph: { bots }, states: { [bots[3].name]: "failed", [bots[4].name]: "writing", [bots[5].name]: "stopped" }, onSelect() {}, selected: bots[1].name }), bots);
  assert.ok(await fits(page));
  assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  await accessible(page);
});

// An article as the shipped workflow makes it.
const article = {
  article: { title: "Why the Sky Is Blue", summary: "Light.", sections: [{ title: "Waves", body: "Of **waves**.\n\n- one\n- two" }, { title: "Air", body: "Of air." }] },
  quiz: { questions: [{ question: "What?", choices: ["This", "That"], answer: "That", explanation: "So it is." }, { question: "Why?", choices: ["a", "b"], answer: "a" }] },
};

test("DP-13: to be read, a document has titles, a lead, sections and questions, and no keys or indices", async (t) => {
  const page = await stage(t);
  await page.evaluate((value) => stage.show("Reading", { value, done: () => true }), article);
  const heads = await page.getByRole("heading").evaluateAll((all) => all.filter((e) => e.closest(".read")).map((e) => `${e.localName} ${e.textContent}`));
  assert.deepEqual(heads, ["h2 Why the Sky Is Blue", "h3 Waves", "h3 Air", "h3 Quiz", "h4 What?", "h4 Why?"]);
  assert.equal(await page.locator(".read-lead").innerText(), "Light.");
  assert.deepEqual(await page.locator(".read li").allInnerTexts().then((all) => all.slice(0, 2)), ["one", "two"]);
  assert.doesNotMatch(await page.locator(".read").innerText(), /sections|body|questions|summary|choices|So it is/);
});

test("DP-13: what fits nothing is names and values; lists are lists, and texts that a bot writes have no name", async (t) => {
  const page = await stage(t);
  await page.evaluate(() => stage.show("Reading", { value: { city_name: "Paris", temp: 21.5, sunny: true, tags: ["a", "b"], places: [{ height: 3 }, { height: 4 }], own: "Of a bot." }, done: () => true, prose: (uri) => uri === "own" }));
  assert.deepEqual(await page.locator(".read-named").allInnerTexts().then((all) => all.map((text) => text.replace(/\s+/g, " "))), ["City name: Paris", "Temp: 21.5", "Sunny: yes", "Height: 3", "Height: 4"]);
  assert.deepEqual(await page.locator(".read-list > li").allInnerTexts(), ["a", "b"]);
  assert.deepEqual(await page.locator(".read-heading").allInnerTexts(), ["Tags", "Places"]);
  assert.equal(await page.getByText("Of a bot.").evaluate((e) => e.closest(".read-named")), null);
});

test("DP-13: the style of a text is decided at its first character, and nothing above the writing moves while it grows", async (t) => {
  const page = await stage(t, undefined, { reducedMotion: "reduce" });
  const text = JSON.stringify(article);
  const states = await page.evaluate((whole) => {
    const seen = new Map(); // style by text's place
    const wrong = [];
    // Every prefix of the document, closed as the client has it: what is there so far.
    const grow = (value, uri, emit) => {
      if (typeof value === "string") {
        for (let n = 1; n <= value.length; n++) emit(uri, value.slice(0, n), n === value.length);
      } else if (Array.isArray(value) || (typeof value === "object" && value !== null)) {
        emit(uri, Array.isArray(value) ? [] : {}, false);
        for (const key of Object.keys(value)) grow(value[key], uri === "" ? key : uri + "/" + key, emit);
      } else emit(uri, value, true);
    };
    let document_ = {};
    const done = new Set();
    const put = (uri, value) => {
      const set = (at, keys) => {
        if (keys.length === 0) return value;
        const copy = Array.isArray(at) ? [...at] : { ...at };
        copy[keys[0]] = set(at?.[keys[0]], keys.slice(1));
        return copy;
      };
      document_ = uri === "" ? value : set(document_, uri.split("/"));
    };
    const places = () => [...document.querySelectorAll(".read h2, .read h3, .read h4, .read p, .read li")].map((e) => [e, Math.round(e.getBoundingClientRect().top)]);
    let before = [];
    grow(JSON.parse(whole), "", (uri, value, over) => {
      if (/answer|explanation/.test(uri)) return;
      put(uri, value);
      if (over) done.add(uri);
      stage.show("Reading", { value: document_, done: (at) => done.has(at) });
      for (const [e, top] of before) if (e.isConnected && Math.round(e.getBoundingClientRect().top) !== top) wrong.push(`${uri}: ${e.localName} ${e.textContent.slice(0, 20)} moved from ${top} to ${Math.round(e.getBoundingClientRect().top)}`);
      before = places();
      const caret = document.querySelector(".read .md-end, .read .tree-caret");
      if (typeof value === "string" && caret && !over) {
        const block = caret.closest("h2, h3, h4, button, .read-block, li");
        const style = block.className + block.localName + getComputedStyle(block).fontSize + getComputedStyle(caret.closest("p, li, h2, h3, h4, button") ?? caret).fontFamily;
        const known = seen.get(uri) ?? style;
        seen.set(uri, known);
        if (known !== style && !uri.endsWith("body")) wrong.push(`${uri}: ${known} became ${style}`);
      }
    });
    return { wrong, places: seen.size };
  }, text);
  assert.deepEqual(states.wrong, []);
  assert.ok(states.places >= 10, `${states.places} places`);
});

test("DP-13: lines to be read have 60 to 75 characters where there is room, and fit where there is none", async (t) => {
  const page = await stage(t);
  const words = "Sunlight looks white, or a little yellow, but it is a mixture of all the colors of the rainbow, and a glass prism shows this in any room. ".repeat(12);
  for (const [width, least, most] of [[1920, 60, 75], [1440, 60, 75], [1024, 60, 75], [390, 35, 60]]) {
    await page.setViewportSize({ width, height: 800 });
    await page.evaluate((words) => stage.show("Reading", { value: { title: "T", body: words }, done: () => true }), words);
    const perLine = await page.evaluate(() => {
      const p = document.querySelector(".read p");
      return p.textContent.length / (p.getBoundingClientRect().height / parseFloat(getComputedStyle(p).lineHeight));
    });
    assert.ok(perLine >= least - 2 && perLine <= most, `${perLine} characters a line at ${width}`);
    assert.ok(await fits(page));
  }
});

test("DP-13: a question is answered with the keyboard, and words say whether that was right", async (t) => {
  const page = await stage(t);
  await page.evaluate((value) => stage.show("Reading", { value: value.quiz, done: () => true }), article);
  await page.getByRole("button", { name: "That" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("status").filter({ hasText: "Right. So it is." }).waitFor();
  assert.equal(await page.locator(".read-tally").innerText(), "1 of 1 right, 1 to go");
  await page.getByRole("button", { name: "b", exact: true }).click();
  await page.getByRole("status").filter({ hasText: "No, it is A." }).waitFor();
  await page.getByRole("button", { name: /^a ?, right/ }).waitFor();
  await page.getByRole("button", { name: /^b ?, wrong/ }).waitFor();
  assert.equal(await page.locator(".read-tally").innerText(), "1 of 2 right");
});

test("DP-13: of many members a hundred are shown to be read, and what is deep opens step by step", async (t) => {
  const page = await stage(t);
  await page.evaluate(() => stage.show("Reading", { value: { list: Array.from({ length: 250 }, (_, i) => ({ n: i })) }, done: () => true }));
  assert.equal(await page.locator(".read-section").count(), 100);
  await page.getByRole("button", { name: "Show more" }).click();
  assert.equal(await page.locator(".read-section").count(), 200);
  await page.evaluate(() => {
    let value = "bottom";
    for (let i = 0; i < 12; i++) value = { a: value };
    stage.clear();
    stage.show("Reading", { value, done: () => true });
  });
  assert.equal(await page.getByText("bottom").count(), 0);
  for (let i = 0; i < 4 && (await page.getByText("bottom").count()) === 0; i++) await page.getByRole("button", { name: /^Show A/ }).click();
  await page.getByText("bottom").waitFor();
});

test("DP-07, DP-13: axe finds nothing in a document to be read, whatever is in it", async (t) => {
  const page = await stage(t, undefined, { reducedMotion: "reduce", bypassCSP: true });
  const writing = new Set(["", "article", "article/sections", "article/sections/1", "article/sections/1/body"]);
  await page.evaluate(([value, writing]) => stage.show("Reading", { value: { ...value, more: { a: 1, b: "two", list: ["x"] } }, done: (uri) => !writing.includes(uri), writer: (uri) => (uri === "article/sections/1" ? { name: "section 2", writing: true, title: "x", sticky: true } : undefined) }), [article, [...writing]]);
  await page.getByRole("button", { name: "This" }).click();
  for (const width of [390, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    await accessible(page);
    assert.ok(await fits(page));
  }
});

test("DP-07: what folds and opens the tree is large enough to be hit", async (t) => {
  const page = await stage(t);
  await page.evaluate((value) => stage.show("DocumentTree", { value, done: () => true }), article);
  const small = await page.getByRole("button").evaluateAll((all) => all.map((e) => e.getBoundingClientRect()).filter((r) => r.width < 24 || r.height < 24).length);
  assert.equal(small, 0);
});

test("DP-08: what would turn the text around is marked, in every view", async (t) => {
  const page = await stage(t);
  const evil = "safe \u202egnp.exe\u202c and \u2066more\u2069, but \u05e9\u05dc\u05d5\u05dd stays";
  for (const [part, value] of [["Reading", { title: evil, body: evil, name: evil, list: [evil], q: [{ question: evil, choices: [evil] }] }], ["DocumentTree", { title: evil, body: evil, name: evil, list: [evil, evil.repeat(9)] }], ["Markdown", undefined]]) {
    await page.evaluate(([part, value, evil]) => (stage.clear(), stage.show(part, part === "Markdown" ? { text: `# ${evil}\n\n${evil}\n\n\`${evil}\`\n\n[${evil}](https://x.example)\n\n~~~\n${evil}\n~~~` } : { value, done: () => true })), [part, value, evil]);
    const text = await page.locator("#stage").evaluate((e) => e.textContent);
    assert.doesNotMatch(text, /[\u202a-\u202e\u2066-\u2069]/, part);
    assert.match(text, /\\u202egnp\.exe\\u202c/, part);
    assert.match(text, /\u05e9\u05dc\u05d5\u05dd stays/, part);
  }
});
