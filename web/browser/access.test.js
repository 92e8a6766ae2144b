// The page at / for everybody: by keyboard alone, for screen readers, in both themes, on small windows, without motion.
import assert from "node:assert/strict";
import { audit } from "./audit.js";
import { launch, test } from "./browser.js";
import { playground } from "./page.js";

const chrome = await launch();
const prose = "# Heading\n\nText with **weight**, `code` and [a link](https://example.com/).\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```js\nlet x;\n```\n\n> quoted\n\n- [ ] to do\n";

test("axe finds nothing in a workflow: before, in the middle, after, and where it went wrong", async (t) => {
  const { page, script, run, stands, reads, open } = await playground(t, chrome, { at: "#workflow=encyclopedia", allow: [/status of 400/] });
  await audit(page, "a form");
  await page.getByText("Options", { exact: true }).click();
  await run({ Question: "" });
  await page.until(() => document.querySelector("[aria-invalid=true]"));
  await audit(page, "a form with an error");
  await run({ Question: "Why is the sky blue?" });
  const outline = await script.asked();
  await outline.say('{"title": "Why", "summary": "Light.", "sections": [{"title": "Waves"}, {"title": "A');
  const section = await script.asked();
  await section.think("Let me see.");
  await section.say(prose);
  await reads("quoted");
  await audit(page, "a document that grows");
  await page.getByRole("radio", { name: "JSON" }).check({ force: true });
  await open("Code");
  await audit(page, "JSON and code");
  section.cut();
  await outline.end('ir"}]}');
  (await script.asked()).refuse(500);
  const quiz = await Promise.race([script.asked(), stands("Failed")]);
  await quiz?.end('{"questions": []}');
  await page.getByRole("alert").first().waitFor();
  await audit(page, "a failure");
});

test("axe finds nothing in a conversation: empty, asking, answered, and its tape", async (t) => {
  const { page, script, conversation, say, open } = await playground(t, chrome, { at: "#agent=careful" });
  await audit(page, "nothing said");
  await say("How long is this?");
  const asked = await script.asked();
  await asked.think("Let me look.");
  await asked.call("tape_search", { query: "x" });
  await asked.end();
  await page.getByRole("region", { name: /May .* run/ }).waitFor();
  await audit(page, "a question");
  await page.getByRole("button", { name: "Allow" }).click();
  await (await script.asked()).end(prose);
  await conversation.getByText("quoted").waitFor();
  await audit(page, "an answer");
  await open("Tape");
  await page.getByRole("region", { name: "Tape" }).getByText("session/start").first().waitFor();
  await audit(page, "the tape");
});

// Presses Tab until what has the focus is called so, as somebody does who sees only where the focus is.
async function tabTo(page, name, key = "Tab") {
  const passed = [];
  for (let n = 0; n < 60; n++) {
    await page.keyboard.press(key);
    const [called, seen] = await page.evaluate(() => {
      const e = document.activeElement;
      const label = e.getAttribute("aria-label") || (e.labels?.[0] ?? e).innerText || e.labels?.[0]?.textContent || "";
      const style = getComputedStyle(e);
      // The mark may be on the element, or on a label around it.
      const marked = [e, e.nextElementSibling, e.closest("label"), e.parentElement].some((m) => m && (getComputedStyle(m).outlineStyle !== "none" || getComputedStyle(m).boxShadow !== "none"));
      return [label.trim(), marked || style.outlineStyle !== "none"];
    });
    passed.push(called);
    assert.ok(seen, `the focus on ${JSON.stringify(called)} is not to be seen`);
    if (name.test(called)) return;
  }
  assert.fail(`no way by Tab to ${name}; it went ${passed.join(" > ")}`);
}

test("with the keyboard alone: a workflow is chosen, asked and read, and its run canceled", async (t) => {
  const { page, script, run, stands, reads } = await playground(t, chrome);
  await tabTo(page, /^Skip to/);
  await tabTo(page, /^chat$/);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "chat" }).waitFor();
  await tabTo(page, /^Message/);
  await page.keyboard.press("Control+A");
  await page.keyboard.type("Why?");
  await tabTo(page, /^Run\b/, "Shift+Tab");
  await page.keyboard.press("Enter");
  const first = await script.asked();
  assert.equal(first.question, "Why?");
  await first.end("Because.");
  await stands("Completed");
  await reads("Because.");
  await tabTo(page, /^Run\b/, "Shift+Tab").catch(() => tabTo(page, /^Run\b/));
  await page.keyboard.press("Enter");
  const second = await script.asked();
  await second.say("Bec");
  await reads("Bec");
  await tabTo(page, /^Cancel$/);
  await page.keyboard.press("Enter");
  await stands("Canceled");
  await second.closed;
});

test("with the keyboard alone: the shortcut runs, panels open, and views and themes are chosen by arrows", async (t) => {
  const { page, script, stands } = await playground(t, chrome, { at: "#workflow=chat" });
  await tabTo(page, /^Message/);
  await page.keyboard.press("Control+Enter");
  await (await script.asked()).end("Because.");
  await stands("Completed");
  await tabTo(page, /^Code$/);
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: "Code", exact: true }).waitFor();
  await tabTo(page, /^Reading$/, "Shift+Tab");
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.getByRole("radio", { name: "Tree" }).isChecked(), true);
  await tabTo(page, /^Auto$/, "Shift+Tab");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.getByRole("radio", { name: "Dark" }).isChecked(), true);
  const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.reload();
  await page.getByRole("navigation").waitFor();
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), dark, "it is remembered");
});

test("with the keyboard alone: a call that asks is denied", async (t) => {
  const { page, script, conversation } = await playground(t, chrome, { at: "#agent=careful" });
  await tabTo(page, /^Message/);
  await page.keyboard.type("How long is this?");
  await page.keyboard.press("Enter");
  const asked = await script.asked();
  await asked.call("tape_info");
  await asked.end();
  await page.getByRole("region", { name: /May .* run/ }).waitFor();
  // DP-05: the keyboard is at the decision already, but a key that was meant for something else decides nothing.
  await page.until(() => document.activeElement?.textContent === "Deny");
  const came = await page.evaluate(() => performance.now());
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: /May .* run/ }).waitFor();
  await page.until((came) => performance.now() - came > 600, came);
  await page.keyboard.press("Enter");
  await (await script.asked()).end("Then not.");
  await conversation.getByText("Then not.").waitFor();
});

test("screen readers are told when a run begins, asks and ends", async (t) => {
  const { page, script, say } = await playground(t, chrome, { at: "#agent=careful" });
  const status = page.locator("[role=status]").last();
  const told = (pattern) => status.filter({ hasText: pattern }).waitFor({ state: "attached" });
  await say("How long is this?");
  const asked = await script.asked();
  await asked.say("Let me see.");
  await told(/Writing/);
  await asked.call("tape_info");
  await asked.end();
  await told(/tape\.info waits for your approval/);
  await page.getByRole("button", { name: "Allow" }).click();
  await (await script.asked()).end("Short.");
  await told(/Completed/);
});

test("who wants no motion gets none, while everything is being written", async (t) => {
  for (const reducedMotion of ["no-preference", "reduce"]) {
    const { page, script, run, reads } = await playground(t, chrome, { at: "#workflow=chat", reducedMotion });
    await run({ Message: "Why?" });
    const asked = await script.asked();
    await asked.say("Bec");
    await reads("Bec");
    const moving = () => page.evaluate(() => document.getAnimations().filter((a) => a.playState === "running" && a.effect.getComputedTiming().duration > 1).map((a) => `${a.animationName ?? a.transitionProperty} of ${a.effect.target.className}`));
    if (reducedMotion === "reduce") assert.deepEqual(await moving(), []);
    else assert.notDeepEqual(await moving(), [], "else this test says nothing");
  }
});

test("the browser's own ways to see more are heeded: large text, and colours that are forced", async (t) => {
  const { page, script, run, stands } = await playground(t, chrome, { at: "#workflow=chat", forcedColors: "active", viewport: { width: 640, height: 360 } }); // as 1280 at 200 %
  await run({ Message: "Why?" });
  await (await script.asked()).end("Because.");
  await stands("Completed");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await page.getByRole("button", { name: /^Run\b/ }).click();
  await (await script.asked()).end("Because.");
  await stands("Completed");
});
