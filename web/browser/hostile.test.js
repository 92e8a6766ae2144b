// Models, and whoever talks to them, write what they like: the page at / shows it, and does nothing of it.
import assert from "node:assert/strict";
import { launch, test } from "./browser.js";
import { playground } from "./page.js";

const chrome = await launch();

// Each of them would set window.hit, load something, or send the page away.
const attacks = [
  "<script>window.hit = 1</script>",
  "<img src=x onerror='window.hit = 2'>",
  "<svg onload='window.hit = 3'><a href='javascript:window.hit = 4'>here</a></svg>",
  "<iframe src='javascript:parent.hit = 5'></iframe><iframe srcdoc='<script>parent.hit = 6</script>'></iframe>",
  "<a href='javascript:window.hit = 7'>here</a>",
  "[here](javascript:window.hit=8) [here](JaVaScRiPt:window.hit=9) [here](&#106;avascript:window.hit=10) [here](<java\tscript:window.hit=11>)",
  "[here](\u0001javascript:window.hit=12) [here](data:text/html,<script>opener.hit=13</script>) [here](vbscript:x) [here](blob:x) [here](file:///etc/passwd)",
  "![tracked](https://evil.example/x.png) ![tracked](//evil.example/x.png) ![tracked](/v1/models) [![tracked](https://evil.example/y.png)](javascript:window.hit=14)",
  "<style>body { display: none } @import 'https://evil.example/x.css';</style><link rel=stylesheet href='https://evil.example/x.css'>",
  "<base href='https://evil.example/'><meta http-equiv=refresh content='0;url=https://evil.example/'>",
  "<form action='https://evil.example/'><button formaction='javascript:window.hit = 15'>Allow</button></form>",
  "<object data='https://evil.example/x'></object><embed src='https://evil.example/x'><video src='https://evil.example/x' autoplay>",
  "<p onclick='window.hit = 16' style='position:fixed;inset:0;z-index:9999' id='main' class='button primary'>all over the page</p>",
  "[ref][a]\n\n[a]: javascript:window.hit=17 \"title\"",
  "<https://evil.example/\" onmouseover=\"window.hit = 18>",
  "`<script>window.hit = 19</script>`\n\n```html\n<script>window.hit = 20</script>\n```\n\n| a |\n|---|\n| <img src=x onerror='window.hit = 21'> |",
];

// Looks at everything that ever comes into the page, also at what is gone a moment later.
function watch(page) {
  return page.evaluate(() => {
    window.caught = [];
    const safe = new Set(["http:", "https:", "mailto:"]);
    const look = (e) => {
      if (!(e instanceof Element)) return;
      for (const inside of [e, ...e.querySelectorAll("*")]) {
        if (/^(script|img|image|picture|iframe|frame|object|embed|video|audio|source|link|style|base|meta|portal|template)$/i.test(inside.localName)) caught.push(inside.localName);
        for (const { name, value } of inside.attributes) {
          if (/^on|^srcdoc$|^formaction$|^action$/i.test(name)) caught.push(`${inside.localName}[${name}]`);
          if (/^(href|xlink:href|src)$/i.test(name) && !safe.has(new URL(value, location.href).protocol)) caught.push(`${inside.localName}[${name}=${value}]`);
          if (name === "style" && !/^(height|width|transform|--[\w-]+|min-height|left|top):/.test(value)) caught.push(`style=${value}`);
          if (name === "id" && value === "main" && inside.localName !== "main") caught.push("a second #main");
        }
      }
    };
    new MutationObserver((records) => {
      for (const r of records) r.type === "attributes" ? look(r.target) : r.addedNodes.forEach(look);
    }).observe(document.documentElement, { subtree: true, childList: true, attributes: true });
  });
}

async function nothing(page) {
  assert.deepEqual(await page.evaluate(() => [window.hit, window.caught, {}.polluted]), [undefined, [], undefined]);
}

// Every link that somebody could click, and what it is: to a page elsewhere, in a tab of its own that knows nothing of this one.
async function links(page, within) {
  for (const link of await page.locator(within).locator("a[href]").all()) {
    const [href, rel, target] = await link.evaluate((a) => [a.href, a.rel, a.target]);
    if (new URL(href).origin === new URL(page.url()).origin && target === "") continue; // the page's own
    assert.match(href, /^(https?|mailto):/);
    assert.ok(rel.includes("noopener") && rel.includes("noreferrer") && target === "_blank", `${href}: rel=${rel} target=${target}`);
  }
}

test("SE-13: hostile text, in small pieces and as a whole, is text", async (t) => {
  const { page, script, document, run, stands } = await playground(t, chrome, { at: "#workflow=chat" });
  await watch(page);
  await run({ Message: "Why?" });
  const asked = await script.asked();
  const text = attacks.join("\n\n");
  for (let at = 0; at < text.length; at += 11) {
    await asked.say(text.slice(at, at + 11));
    if (at % 110 === 0) await page.evaluate(() => new Promise(requestAnimationFrame)); // so that what is half is shown, too
  }
  await asked.end();
  await stands("Completed");
  await document.getByText("all over the page").first().waitFor();
  await nothing(page);
  await links(page, "#main");
  await page.getByRole("radio", { name: "JSON" }).check({ force: true });
  await document.getByText("all over the page").first().waitFor();
  await page.reload();
  await document.getByText("all over the page").first().waitFor();
  assert.equal(await page.evaluate(() => window.hit), undefined);
});

test("a page of HTML that a model has written is not a page here", async (t) => {
  const { page, script, document, run, stands, open } = await playground(t, chrome, { at: "#workflow=page", allow: [/frame is sandboxed/] });
  await watch(page);
  await open("Events");
  await page.getByText("Options", { exact: true }).click();
  await page.getByLabel("Send an event for each HTML tag").check();
  await run({ Question: "Why?" });
  const asked = await script.asked();
  const text = `<!DOCTYPE html><html onload="window.hit = 50"><body>${attacks.join("\n")}</body></html>`;
  for (let at = 0; at < text.length; at += 23) await asked.say(text.slice(at, at + 23));
  await asked.end();
  await stands("Completed");
  // How it looks is shown in a frame that runs nothing, loads nothing and reaches nothing of the page.
  const frame = page.locator("iframe[title='Preview of the HTML']");
  assert.equal(await frame.getAttribute("sandbox"), "allow-popups allow-popups-to-escape-sandbox");
  const inside = page.frameLocator("iframe[title='Preview of the HTML']");
  await inside.getByText("all over the page").first().waitFor({ state: "attached" });
  await inside.locator("a").evaluateAll((all) => all.forEach((a) => a.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }))));
  const own = await (await frame.elementHandle()).contentFrame();
  assert.deepEqual(await own.evaluate(() => [window.hit, origin, document.scripts.length]), [undefined, "null", 0]);
  assert.equal(own.url(), "about:srcdoc");
  assert.deepEqual(await page.evaluate(() => [window.hit, window.caught.filter((what) => !/^iframe/.test(what))]), [undefined, []]);
  await page.getByRole("radio", { name: "Source" }).check({ force: true });
  await document.getByText("all over the page").first().waitFor();
  await page.getByRole("region", { name: "Events of the run" }).getByText("html", { exact: true }).first().waitFor();
  assert.deepEqual(await page.evaluate(() => [window.hit, window.caught.filter((what) => !/^iframe/.test(what))]), [undefined, []]);
  await links(page, "#main");
});

test("hostile keys and values, as JSON and as names of members, are text", async (t) => {
  const { page, script, document, run, stands } = await playground(t, chrome, { at: "#workflow=story" });
  await watch(page);
  await run({ About: "<img src=x onerror='window.hit = 30'>" });
  const asked = await script.asked();
  const value = Object.fromEntries(attacks.map((attack, i) => [attack, i % 2 ? attack : { [attack]: [attack, { toString: attack, valueOf: 1, href: "javascript:window.hit=31" }] }]));
  const text = JSON.stringify(value).replace("{", '{"__proto__": {"polluted": true}, "constructor": {"prototype": {"polluted": true}}, "\\u202egnp.exe": "\\u0000\\u200b", ');
  for (let at = 0; at < text.length; at += 97) await asked.say(text.slice(at, at + 97));
  await asked.end();
  await stands("Completed");
  await document.getByText("Polluted").first().waitFor();
  await nothing(page);
  await page.getByRole("radio", { name: "Tree" }).check({ force: true });
  await document.getByText("__proto__").first().waitFor();
  await nothing(page);
  await document.getByRole("button").evaluateAll((all) => all.forEach((b) => b.click())); // what opens, opens
  await page.evaluate(() => new Promise(requestAnimationFrame));
  await nothing(page);
  await links(page, "#main");
});

test("hostile tools, arguments, thoughts and messages of a conversation are text", async (t) => {
  const attack = attacks.join("\n");
  const { page, script, conversation, say, open } = await playground(t, chrome, { at: "#agent=careful" });
  await watch(page);
  await say(attack);
  const asked = await script.asked();
  await asked.think(attack);
  await asked.say(attack);
  await asked.call("tape_search", { query: attack });
  await asked.end();
  const question = page.getByRole("region", { name: /May tape.search run/ });
  await question.getByRole("button", { name: "Deny" }).waitFor();
  await question.getByLabel(/Reason/).fill("<script>window.hit = 40</script>");
  await question.getByRole("button", { name: "Deny" }).click();
  const again = await script.asked();
  await again.call("no_such_<script>window.hit=41</script>", {});
  await again.end();
  await (await script.asked()).end("Enough.");
  await conversation.getByText("Enough.").waitFor();
  for (const folded of await page.locator("summary").all()) if (await folded.isVisible()) await folded.click();
  for (const name of ["Events", "Code", "Tape"]) await open(name);
  await nothing(page);
  await links(page, "#main");
  await page.reload();
  await conversation.getByText("Enough.").waitFor();
  assert.equal(await page.evaluate(() => window.hit), undefined);
});

test("a hostile address is a place that is not there", async (t) => {
  const { page } = await playground(t, chrome, { at: "#workflow=<img src=x onerror='window.hit=1'>&run=../../v1/models&run=%00&session=x", allow: [/status of 404/] });
  await page.getByText(/has no workflow/).waitFor();
  await page.evaluate(() => (location.hash = "#agent=javascript:window.hit=2&session=../..&run=__proto__"));
  await page.getByText(/has no workflow or agent javascript/).waitFor();
  assert.equal(await page.evaluate(() => window.hit), undefined);
});

test("the page's own policy stops what would come through nevertheless", async (t) => {
  const { page } = await playground(t, chrome, { allow: [/Content Security Policy|TrustedHTML|Trusted Types|trusted/i] });
  const refused = await page.evaluate(async () => {
    const tried = {};
    const script = document.createElement("script");
    try {
      script.textContent = "window.hit = 1";
    } catch {}
    document.body.append(script);
    const attempt = (name, fn) => {
      try {
        fn();
        tried[name] = "went through";
      } catch (e) {
        tried[name] = e.constructor.name;
      }
    };
    attempt("innerHTML", () => (document.createElement("p").innerHTML = "<img src=x onerror='window.hit = 2'>"));
    // What a debugger evaluates may; what the page does by itself may not.
    await new Promise((done) => setTimeout(() => (attempt("eval", () => eval("window.hit = 3")), done())));
    attempt("timer", () => setTimeout("window.hit = 4"));
    tried.fetch = await fetch("https://evil.example/").then(() => "went through", (e) => e.constructor.name);
    return tried;
  });
  assert.deepEqual(refused, { innerHTML: "TypeError", eval: "EvalError", timer: "TypeError", fetch: "TypeError" });
  assert.equal(await page.evaluate(() => window.hit), undefined);
});

// What a page of any size may cost: elements, and tasks in which it did not answer.
async function cost(page) {
  await page.evaluate(() => {
    window.long = [];
    new PerformanceObserver((list) => long.push(...list.getEntries().map((e) => e.duration))).observe({ type: "longtask" });
  });
  return async (most) => {
    const [nodes, tasks, wide] = await page.evaluate(() => [document.querySelectorAll("*").length, long.filter((ms) => ms > 300), document.documentElement.scrollWidth > innerWidth]);
    assert.ok(nodes < most, `${nodes} elements`);
    assert.ok(tasks.length <= 3, `tasks of ${tasks.map(Math.round)} ms`);
    assert.equal(wide, false, "the page is wider than its window");
  };
}

test("a megabyte of one word neither breaks the page nor holds it up", async (t) => {
  const { page, script, document, run, stands } = await playground(t, chrome, { at: "#workflow=chat" });
  const within = await cost(page);
  await run({ Message: "Why?" });
  const asked = await script.asked();
  const piece = "a".repeat(1 << 14);
  for (let n = 0; n < 64; n++) await asked.say(piece);
  await page.until(() => document.querySelector("#main").textContent.length > 1_000_000);
  await page.getByRole("radio", { name: "Dark" }).check({ force: true }); // it answers
  await asked.end();
  await stands("Completed");
  assert.ok((await document.textContent()).length > 1_000_000);
  await within(3000);
  await page.getByRole("radio", { name: "JSON" }).check({ force: true });
  await within(3000);
});

test("20 000 elements neither break the page nor hold it up, and can be reached", async (t) => {
  const { page, script, document, run, stands } = await playground(t, chrome, { at: "#workflow=story" });
  const within = await cost(page);
  await run({ About: "numbers" });
  const asked = await script.asked();
  await asked.say('{"items": [');
  for (let n = 0; n < 20_000; n += 250) await asked.say(Array.from({ length: 250 }, (_, i) => `{"n": ${n + i}}`).join() + (n + 250 < 20_000 ? "," : ""));
  await asked.end("]}");
  await stands("Completed");
  await document.getByText("of 20,000").waitFor();
  await within(6000);
  await document.getByRole("button", { name: "Show more" }).last().click();
  await document.getByText("of 20,000").waitFor();
});

test("what nests deeper than anybody would look is folded, and opens", async (t) => {
  const { page, script, document, run, stands } = await playground(t, chrome, { at: "#workflow=story" });
  const within = await cost(page);
  await run({ About: "depths" });
  await (await script.asked()).end('{"a":'.repeat(120) + '"bottom"' + "}".repeat(120));
  await stands("Completed");
  await within(3000);
  await document.getByRole("button", { expanded: false }).last().click();
  await page.getByRole("radio", { name: "Tree" }).check({ force: true });
  for (let i = 0; i < 20; i++) await document.getByRole("button", { expanded: false, name: /, / }).last().click();
  await page.getByRole("radio", { name: "JSON" }).check({ force: true });
  await document.getByText("bottom").waitFor();
});
