// How Markdown is read: what becomes of texts, whole and while they grow, and what the worst of them cost.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Blocks, cells, limits } from "../../node_modules/.parts/playground/src/parts/markdown/blocks.js";
import { inline } from "../../node_modules/.parts/playground/src/parts/markdown/inline.js";
import { linkOf } from "../../node_modules/.parts/playground/src/parts/markdown/links.js";
import { random } from "./random.js";

const here = "http://127.0.0.1:8080";

// A short form of a tree: p(text), ul(li(…)), and of what is in a line: em(…), a[address](…).
function phrases(text, growing) {
  const one = (p) => {
    if (typeof p === "string") return p;
    if (p.kind === "code") return `code(${p.text})`;
    if (p.kind === "break") return "br()";
    const inner = p.children.map(one).join("");
    if (p.kind === "link") return `${p.image ? "img" : p.link ? "a" : "no"}[${p.link ? p.link.href : p.address}](${inner})`;
    return { emphasis: "em", strong: "strong", deleted: "del" }[p.kind] + `(${inner})`;
  };
  return inline(text, here, growing).map(one).join("");
}

function short(nodes, growing = false) {
  return nodes
    .map((n, i) => {
      const last = growing && i === nodes.length - 1;
      switch (n.kind) {
        case "paragraph":
          return `p(${phrases(n.text, last)})`;
        case "heading":
          return `h${n.level}(${phrases(n.text, last)})`;
        case "rule":
          return "hr()";
        case "code":
          return `pre[${n.info}](${n.lines.join("\n")})`;
        case "quote":
          return `quote(${short(n.children, last)})`;
        case "list":
          return `${n.start === undefined ? "ul" : "ol" + n.start}${n.loose ? "+" : ""}(${short(n.children, last)})`;
        case "item":
          return `${n.task === undefined ? "li" : n.task ? "li[x]" : "li[ ]"}(${short(n.children, last)})`;
        case "table":
          return `table[${n.align}](${[n.head, ...n.rows].map((r) => r.map((c) => phrases(c, false)).join("|")).join(";")})`;
      }
    })
    .join(" ");
}

function read(text) {
  const b = new Blocks();
  b.update(text, false);
  return short(b.root.children);
}

for (const [name, text, want] of [
  ["a paragraph", "one\ntwo", "p(one\ntwo)"],
  ["two paragraphs", "one\n\ntwo\n", "p(one) p(two)"],
  ["headings of six levels", "# a\n## b\n###### c\n####### d", "h1(a) h2(b) h6(c) p(####### d)"],
  ["a heading needs a space", "#a", "p(#a)"],
  ["a heading's closing marks", "# a ##\n# b#", "h1(a) h1(b#)"],
  ["headings that are underlined", "a\n=\n\nb\n---", "h1(a) h2(b)"],
  ["rules", "---\n\n* * *\n___", "hr() hr() hr()"],
  ["emphasis", "*a* _b_ **c** __d__ ***e***", "p(em(a) em(b) strong(c) strong(d) em(strong(e)))"],
  ["emphasis within words", "a*b*c a_b_c", "p(aem(b)c a_b_c)"],
  ["stars that are none", "2 * 3 * 4", "p(2 * 3 * 4)"],
  ["emphasis that crosses", "*a **b* c**", "p(em(a em(em(b) c)))"],
  ["what is struck out", "~~a~~ ~b~ ~~~c~~~", "p(del(a) ~b~ ~~~c~~~)"],
  ["code in a line", "`a` ``b`c`` ` d ` `e", "p(code(a) code(b`c) code(d) `e)"],
  ["code goes before emphasis", "*a `b* c`", "p(*a code(b* c))"],
  ["escapes", "\\*a\\* \\[b\\] \\q \\\\", "p(*a* [b] \\q \\)"],
  ["entities", "&lt;b&gt; &amp; &#65;&#x42; &nope; &copy", "p(<b> & AB &nope; &copy)"],
  ["an entity of no character", "&#0; &#xD800; &#x110000;", "p(\ufffd \ufffd \ufffd)"],
  ["links", "[a](https://e.com/b 'c') [d](<https://e.com/e f>)", "p(a[https://e.com/b](a) a[https://e.com/e%20f](d))"],
  ["a link with brackets in its address", "[a](https://e.com/b_(c))", "p(a[https://e.com/b_(c)](a))"],
  ["no links in links", "[a [b](https://e.com/) c](https://f.com/)", "p([a a[https://e.com/](b) c](a[https://f.com/](https://f.com/)))"],
  ["an image in a link", "[![a](https://i.com/x.png)](https://e.com/)", "p(a[https://e.com/](Image: a))"],
  ["an image is no image", "![a *b*](https://i.com/x.png)", "p(img[https://i.com/x.png](a em(b)))"],
  ["addresses as they stand", "https://e.com/a_b_c, www.f.com. (http://g.com/h)", "p(a[https://e.com/a_b_c](https://e.com/a_b_c), a[https://www.f.com/](www.f.com). (a[http://g.com/h](http://g.com/h)))"],
  ["addresses in angle brackets", "<https://e.com/a> <me@e.com> <a b>", "p(a[https://e.com/a](https://e.com/a) a[mailto:me@e.com](me@e.com) <a b>)"],
  ["references stay text", "[a][b] [c]\n\n[b]: https://e.com/", "p([a][b] [c]) p([b]: a[https://e.com/](https://e.com/))"],
  ["breaks", "a  \nb\\\nc<br>d\ne", "p(abr()bbr()cbr()d\ne)"],
  ["code with a fence", "```go main.go\na *b*\n\n  c\n```\nd", "pre[go main.go](a *b*\n\n  c) p(d)"],
  ["code whose fence is not closed", "~~~\na\n```", "pre[](a\n```)"],
  ["a longer fence", "````\n```\n````", "pre[](```)"],
  ["code that is indented", "    a\n\n      b\n\nc", "pre[](a\n\n  b) p(c)"],
  ["quotes", "> a\nb\n> > c\n\nd", "quote(p(a\nb) quote(p(c))) p(d)"],
  ["code in a quote ends with it", "> ```\n> a\nb", "quote(pre[](a)) p(b)"],
  ["lists", "- a\n- b\n\n1. c\n2. d\n\n3) e", "ul(li(p(a)) li(p(b))) ol1(li(p(c)) li(p(d))) ol3(li(p(e)))"],
  ["a list in a list", "- a\n  - b\n    - c\n- d", "ul(li(p(a) ul(li(p(b) ul(li(p(c)))))) li(p(d)))"],
  ["a list with space in it", "- a\n\n- b", "ul+(li(p(a)) li(p(b)))"],
  ["two paragraphs in an element", "- a\n\n  b\n- c", "ul+(li(p(a) p(b)) li(p(c)))"],
  ["space within an inner list only", "- a\n  - b\n\n  - c\n- d", "ul(li(p(a) ul+(li(p(b)) li(p(c)))) li(p(d)))"],
  ["another mark is another list", "- a\n* b", "ul(li(p(a))) ul(li(p(b)))"],
  ["a list behind a paragraph", "a:\n- b\n- c", "p(a:) ul(li(p(b)) li(p(c)))"],
  ["a year is no list", "in\n1984. Then", "p(in\n1984. Then)"],
  ["code in a list", "1. a\n   ```\n   b\n   ```\n2. c", "ol1(li(p(a) pre[](b)) li(p(c)))"],
  ["an empty element", "-\n- a", "ul(li() li(p(a)))"],
  ["a list that goes on without marks", "- a\nb", "ul(li(p(a\nb)))"],
  ["tasks", "- [ ] a\n- [x] b\n- [y] c", "ul(li[ ](p(a)) li[x](p(b)) li(p([y] c)))"],
  ["tabs", "-\ta\n\t- b", "ul(li(p(a) ul(li(p(b)))))"],
  ["a table", "|a|b|\n|:-|-:|\n|1|*2*|\n|3|\n\nc", "table[left,right](a|b;1|em(2);3|) p(c)"],
  ["a table without bars at its sides", "a | b\n- | :-:\n1 | 2 | 3", "table[,center](a|b;1|2)"],
  ["a bar that is text", "|a|\n|-|\n|`b\\|c`|", "table[](a;code(b|c))"],
  ["what is no table", "|a|b|\n|-|", "p(|a|b|\n|-|)"],
  ["a table behind text", "text\n|a|\n|-|\n|1|", "p(text) table[](a;1)"],
  ["a table ends where something else begins", "|a|\n|-|\n> b", "table[](a) quote(p(b))"],
  ["HTML is text", "<div onclick=x>\n<b>a</b> <!-- c -->", "p(<div onclick=x>\n<b>a</b> <!-- c -->)"],
  ["line ends of other systems", "a\r\n\r\nb\r\n", "p(a) p(b)"],
  ["characters of two units", "**😀** 😀*a*", "p(strong(😀) 😀em(a))"],
]) {
  test(`Markdown: ${name}`, () => assert.equal(read(text), want));
}

test("a text that grows ends as the whole text, however it is cut", () => {
  const bits = ["a", "b c", "*", "**", "`", "[", "](https://e.com)", "\n", "\n\n", "> ", "- ", "1. ", "# ", "```\n", "    ", "|", "\n|-|-|\n", "---", "===", "~~", "\\", "!", "  ", "é😀", "- [x] ", "\n  "];
  const r = random(20);
  for (let i = 0; i < 1500; i++) {
    const text = Array.from({ length: 1 + r(25) }, () => bits[r(bits.length)]).join("");
    const b = new Blocks();
    for (let at = 0; at < text.length; at += 1 + r(7)) b.update(text.slice(0, at), true);
    b.update(text, true);
    b.update(text, false);
    assert.equal(short(b.root.children), read(text), JSON.stringify(text));
    assert.equal(b.end, text.length);
  }
});

test("a node has another rev whenever what it shows is another, and so has the last of its siblings", () => {
  const r = random(4);
  const text = Array.from({ length: 400 }, () => ["- a\n", "> b\n", "c", "\n", "|d|e|\n", "|-|-|\n", "```\n", "=\n", "  - f\n", "\n\n"][r(10)]).join("");
  const b = new Blocks();
  const seen = new Map(); // what nodes have shown, by rev
  const groups = new Map(); // what siblings have shown together, by their list, where they begin and end, and the last one's rev
  const look = (nodes) => {
    for (const n of nodes) {
      const { rev, children, ...own } = n;
      const shows = JSON.stringify(own) + (children?.map((c) => c.rev).join() ?? "");
      if (seen.has(rev)) assert.equal(seen.get(rev), shows);
      seen.set(rev, shows);
      if (children) look(children);
    }
    for (let from = 0; from < nodes.length; from += 3) {
      const to = Math.min(nodes.length, from + 3);
      const revs = nodes.slice(from, to).map((n) => n.rev);
      if (!groups.has(nodes)) groups.set(nodes, new Map());
      const known = groups.get(nodes);
      const key = `${from} ${to} ${revs.at(-1)}`;
      if (known.has(key)) assert.equal(known.get(key), revs.join());
      known.set(key, revs.join());
    }
  };
  for (let at = 0; at <= text.length; at++) {
    b.update(text.slice(0, at), true);
    look([b.root]);
  }
});

test("another text begins anew", () => {
  const b = new Blocks();
  b.update("- a\n- b\n", true);
  b.update("# c", false);
  assert.equal(short(b.root.children), "h1(c)");
  b.update("", false);
  assert.equal(short(b.root.children), "");
});

for (const [name, text, want] of [
  ["a fence", "a\n```js\nb", "p(a) pre[js](b)"],
  ["the beginning of a fence", "a\n``", "p(a)"],
  ["the end of a fence", "```\na\n``", "pre[](a)"],
  ["a line of code", "```\na\n b", "pre[](a\n b)"],
  ["a mark that could underline", "a\n-", "p(a)"],
  ["a mark of a list", "a\n\n- ", "p(a)"],
  ["a number that could begin a list", "a\n\n12", "p(a)"],
  ["strong text", "a **b c", "p(a strong(b c))"],
  ["emphasis in strong text", "**a *b", "p(strong(a em(b)))"],
  ["a star that is none", "2 * 3", "p(2 * 3)"],
  ["code", "a `b c", "p(a code(b c))"],
  ["an address", "see [a](https://e.co", "p(see a)"],
  ["a title", 'see [a](https://e.co "b', "p(see a)"],
  ["a label", "see [a", "p(see [a)"],
  ["an image", "![a](https://i.com/", "p(a)"],
  ["a row of a table", "|a|b|\n|-|-|\n|1", "table[,](a|b;1|)"],
  ["the head of a table", "|a|*b", "table[,](a|*b)"],
  ["the line below a table's head", "|a|b|\n|-", "table[,](a|b)"],
  ["what is no table", "|a|b|\nc", "p(|a|b|\nc)"],
  ["an escape", "a \\", "p(a \\)"],
  ["an entity", "a &am", "p(a &am)"],
  ["a task", "a\n- [", "p(a)"],
]) {
  test(`half-written while a text grows: ${name}`, () => {
    const b = new Blocks();
    b.update(text, true);
    assert.equal(short(b.root.children, true), want);
  });
}

test("the work for a text is linear in it, however it grows", () => {
  const lines = Array.from({ length: 2000 }, (_, i) => (i % 10 ? `- element ${i} with *some* text` : `\n## ${i}\n`)).join("\n");
  const b = new Blocks();
  for (let at = 0; at < lines.length; at += 10) b.update(lines.slice(0, at), true);
  // Each line was read for good once, and while it was unfinished at most once for every ten characters of it.
  assert.ok(b.work < 4 * lines.length, `${b.work} for ${lines.length}`);
});

test("the work for one endless line is bounded for each update", () => {
  const b = new Blocks();
  let before = 0;
  for (let n = 1000; n < 200_000; n += 1000) {
    b.update("x".repeat(n), true);
    assert.ok(b.work - before <= 2 * limits.line, `${b.work - before} at ${n}`);
    before = b.work;
  }
});

const hundredThousand = 100_000;
for (const [name, text] of Object.entries({
  quotes: ">".repeat(hundredThousand),
  "quotes with spaces": "> ".repeat(hundredThousand),
  brackets: "[".repeat(hundredThousand),
  "brackets that close": "[".repeat(hundredThousand) + "]".repeat(hundredThousand),
  stars: "*".repeat(hundredThousand),
  "stars that open": "*a ".repeat(hundredThousand),
  "stars that open and close": "*a ".repeat(2500) + "a* ".repeat(2500),
  underscores: "_a".repeat(hundredThousand),
  backticks: Array.from({ length: 400 }, (_, i) => "`".repeat(i + 1)).join(" "),
  "addresses that do not end": "[a](b".repeat(hundredThousand),
  "titles that do not end": '[a](b "'.repeat(hundredThousand),
  "links of no address": "[a](b)".repeat(hundredThousand),
  "angle brackets": "<a:".repeat(hundredThousand),
  "parentheses behind an address": "http://a" + ")".repeat(hundredThousand),
  "lists in a line": "- ".repeat(hundredThousand),
  "lists in lists": Array.from({ length: 1000 }, (_, i) => " ".repeat(2 * i) + "- a").join("\n"),
  "empty elements": "-\n".repeat(hundredThousand),
  "cells of a table": "|a".repeat(hundredThousand) + "\n" + "|-".repeat(hundredThousand) + "\n" + "|x".repeat(hundredThousand),
  "rows of a table": "|a|b|\n|-|-|\n" + "x\n".repeat(hundredThousand),
  "a wide table of short rows": "|a".repeat(64) + "\n" + "|-".repeat(64) + "\n" + "x\n".repeat(hundredThousand),
  "what is nearly a delimiter": "a|b\n" + "|- ".repeat(hundredThousand) + "x",
  "what is nearly a rule": "* ".repeat(hundredThousand) + "a",
  "closing marks of a heading": "# a" + " #".repeat(hundredThousand) + "x",
  "lines of code": "```\n" + "x\n".repeat(hundredThousand),
  "one word of a megabyte": "x".repeat(1 << 20),
  "blank lines": "\n".repeat(hundredThousand),
  tabs: "\t".repeat(hundredThousand),
  spaces: "a" + " ".repeat(hundredThousand) + "b",
})) {
  test(`the worst is bounded: ${name}`, () => {
    const b = new Blocks();
    b.update(text, true);
    let nodes = 0;
    let deepest = 0;
    const pieces = (list, depth) => {
      for (const p of list) {
        nodes++;
        deepest = Math.max(deepest, depth);
        if (typeof p !== "string" && p.children) pieces(p.children, depth + 1);
      }
    };
    const walk = (list, depth) => {
      for (const n of list) {
        nodes++;
        deepest = Math.max(deepest, depth);
        if (n.text !== undefined) {
          assert.ok(n.text.length <= limits.leaf + limits.line);
          pieces(inline(n.text, here, true), depth + 1);
        }
        if (n.rows) for (const row of [n.head, ...n.rows]) for (const cell of row) pieces(inline(cell, here, true), depth + 1), nodes++;
        if (n.children) walk(n.children, depth + 1);
      }
    };
    walk(b.root.children, 1);
    assert.ok(b.end > 0 && b.end <= limits.text, `read up to ${b.end}`);
    assert.ok(nodes < 100_000, `${nodes} nodes`);
    assert.ok(deepest < 80, `${deepest} levels`);
    assert.ok(b.work <= text.length + limits.line);
  });
}

test("what is beyond the limits is left as it is", () => {
  const b = new Blocks();
  const text = "a\n\n".repeat(limits.blocks + 5);
  b.update(text, false);
  assert.equal(b.root.children.length, limits.blocks);
  assert.equal(text.slice(b.end).trim(), "a\n\n".repeat(5).trim());
});

test("a text is never cut within a character", () => {
  const b = new Blocks();
  b.update("x" + "😀".repeat(limits.text), false);
  const whole = b.root.children.map((p) => p.text);
  assert.ok(whole.every((t) => t.isWellFormed?.() ?? !/[\ud800-\udbff]$/.test(t)));
});

for (const [name, row, want] of [
  ["bars at both sides", "|a|b|", ["a", "b"]],
  ["no bars at the sides", "a|b", ["a", "b"]],
  ["an empty cell", "|a||b|", ["a", "", "b"]],
  ["an escaped bar", "|a\\|b|", ["a|b"]],
  ["one bar", "|", []],
]) {
  test(`cells of a row: ${name}`, () => assert.deepEqual(cells(row), want));
}

for (const [address, want] of [
  ["https://example.com/a", { href: "https://example.com/a", where: "example.com" }],
  ["HTTP://EXAMPLE.com", { href: "http://example.com/", where: "example.com" }],
  ["https://bücher.example/", { href: "https://xn--bcher-kva.example/", where: "xn--bcher-kva.example" }],
  ["https://аpple.com/", { href: "https://xn--pple-43d.com/", where: "xn--pple-43d.com" }],
  ["https://example.com:8443/", { href: "https://example.com:8443/", where: "example.com:8443" }],
  ["mailto:me@example.com?subject=x&bcc=y@z.com", { href: "mailto:me@example.com", where: "me@example.com" }],
  ["mailto:a@b.c,d@e.f", undefined],
  ["javascript:alert(1)", undefined],
  ["JaVaScRiPt:alert(1)", undefined],
  ["java\nscript:alert(1)", undefined],
  ["\u0001javascript:alert(1)", undefined],
  ["data:text/html,<script>alert(1)</script>", undefined],
  ["vbscript:x", undefined],
  ["blob:https://example.com/x", undefined],
  ["file:///etc/passwd", undefined],
  ["view-source:https://example.com", undefined],
  ["https://example.com@evil.example/", undefined],
  ["https://user:secret@example.com/", undefined],
  ["//evil.example", undefined],
  ["/v1/runs?workflow=chat", undefined],
  ["#top", undefined],
  ["", undefined],
  [here + "/v1/runs?workflow=chat&input=x", undefined],
  ["http:/v1/runs", { href: "http://v1/runs", where: "v1" }],
  ["https://" + "a".repeat(3000), undefined],
  ["https://", undefined],
]) {
  test(`a link to ${JSON.stringify(address.slice(0, 50))}`, () => assert.deepEqual(linkOf(address, here), want));
}
