// HTML of models, made ready for a frame without scripts.
import assert from "node:assert/strict";
import { test } from "node:test";
import { previewOf } from "../node_modules/.page/playground/src/preview.js";

// The document behind what every preview begins with, style sheets written as <css TEXT>.
const read = (html) => {
  const all = previewOf(html);
  assert.match(all, /^<!DOCTYPE html><meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src data:">/);
  return all.slice(all.indexOf(">", 20) + 1).replace(/<link rel="stylesheet" href="data:text\/css;charset=utf-8,([^"]*)">/g, (_, css) => `<css ${decodeURIComponent(css)}>`);
};

// DN-13
const cases = {
  "text": ["<h1>Why</h1><p>Light &amp; air</p>", "<h1>Why</h1><p>Light &amp; air</p>"],
  "a style element": ["<STYLE media=x>h1 { color: red } </style><h1>Why</h1>", "<css h1 { color: red } ><h1>Why</h1>"],
  "a style element without an end": ["<p>a</p><style>p { color: red }", "<p>a</p><css p { color: red }>"],
  "a style attribute": [`<p class=a style="color: red">a</p><i style='font: "x"'>b</i>`, `<p class=a data-styled="0">a</p><i data-styled="1">b</i><css [data-styled="0"]:not(#\\_){color: red}[data-styled="1"]:not(#\\_){font: "x"}>`],
  "a script": ["a<script>if (1 < 2) alert(1)</script>b<script src=x></script>c<script>d", "abc"],
  "a handler": [`<p onclick="a()" id=x ONload=b()>a</p>`, "<p id=x>a</p>"],
  "images": [`<img src="/a.png" alt=a srcset="b.png 2x"><img src="data:image/png;base64,AA==" alt=b>`, `<img alt=a><img src="data:image/png;base64,AA==" alt=b>`],
  "what loads from elsewhere": [`<link rel=stylesheet href=https://x.example/a.css><base href=https://x.example/><meta http-equiv=refresh content=0><meta charset=utf-8>a`, "<meta charset=utf-8>a"],
  "links": [`<a class="b" href="https://x.example/">a</a><a HREF='#b'>b</a><a href=/x class=c>c</a><a href="javascript:x()">d</a>`, `<a class="b" target="_blank" rel="noopener noreferrer nofollow ugc" href="https://x.example/">a</a><a href="about:srcdoc#b">b</a><a class=c>c</a><a>d</a>`],
  "half a tag": ["<p>a</p><p style=", "<p>a</p><p style="],
  "half a character": ["<style>a\ud800</style>", "<css a\ufffd>"],
};
for (const [name, [html, want]] of Object.entries(cases)) {
  test(`a preview of ${name}`, () => assert.equal(read(html), want));
}

test("the worst HTML takes no minutes", { timeout: 60_000 }, () => {
  for (const part of ['<a "', "<style>", "<a b='", '<p style="', "<", "<script><!--", "</style"]) previewOf(part.repeat(100_000 / part.length));
});
