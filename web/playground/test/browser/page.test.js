// What of the page is told by no part of it alone: addresses, sessions, focus, the list of events.
import assert from "node:assert/strict";
import { launch, open, test } from "../../../browser/browser.js";
import { playground } from "../../../browser/page.js";

const chrome = await launch();
const chat = { at: "#workflow=chat" };
const hash = (page) => new URLSearchParams(new URL(page.url()).hash.slice(1));

test("an address that has no more than a run leads to what it is of", async (t) => {
  const { page, net, script, run, reads } = await playground(t, chrome, chat);
  await run({ Message: "Why?" });
  const asked = await script.asked();
  await asked.say("Because.");
  await reads("Because.");
  const id = hash(page).get("run");
  const other = await open(t, chrome, net.url);
  await other.goto("/#run=" + id);
  await other.getByRole("heading", { level: 1, name: "chat" }).waitFor();
  await other.getByRole("region", { name: "Document" }).getByText("Because.").waitFor();
  await other.getByRole("button", { name: /, writing/ }).waitFor();
  assert.deepEqual([hash(other).get("workflow"), hash(other).get("run")], ["chat", id]);
  await asked.end();
});

test("an answer that is there at once leaves its session in the address, and the next one is of the same", async (t) => {
  const { page, conversation, say } = await playground(t, chrome, { at: "#agent=assistant" });
  await say(",tape.info");
  await page.until(() => location.hash.includes("session="));
  const session = hash(page).get("session");
  await conversation.getByText(/^Completed/).waitFor();
  await say(",tape.info");
  await conversation.getByText(/^Completed/).nth(1).waitFor();
  assert.equal(hash(page).get("session"), session);
  assert.equal(hash(page).getAll("run").length, 2);
});

test("a click that follows another at once is not a second run", async (t) => {
  const { page, script, stands } = await playground(t, chrome, chat);
  await page.getByRole("button", { name: /^Run\b/ }).dblclick();
  await (await script.asked()).end("Once.");
  await stands("Completed");
  assert.equal(page.starts().length, 1);
});

test("who has typed and run goes on at the document, and what was typed is there after a reload", async (t) => {
  const { page, script, stands } = await playground(t, chrome, chat);
  const field = page.getByLabel("Message").first();
  await field.fill("Something else");
  await page.reload();
  assert.equal(await field.inputValue(), "Something else");
  await field.press("Control+Enter");
  await script.asked().then((asked) => asked.end("Yes."));
  await stands("Completed");
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("aria-label")), "Document");
  await page.getByRole("button", { name: /Change input/ }).click();
  await page.until(() => document.activeElement?.tagName === "TEXTAREA");
});

test("events are gone through with the arrows, and found by their uri", async (t) => {
  const { page, script, run, stands } = await playground(t, chrome, chat);
  await run({ Message: "Why?" });
  await (await script.asked()).end("Because.");
  await stands("Completed");
  await page.getByRole("button", { name: /^Events/ }).click();
  const events = page.getByRole("region", { name: "Events of the run" });
  await events.focus();
  await page.keyboard.press("Home");
  await page.getByLabel("Event 0", { exact: true }).getByText('"event": "started"').waitFor();
  await page.keyboard.press("ArrowDown");
  await page.getByLabel("Event 1", { exact: true }).getByText('"uri": "answer"').waitFor();
  await page.keyboard.press("End");
  await page.getByText('"status": "completed"').waitFor();
  await page.getByRole("searchbox", { name: "Find in events" }).fill("answer");
  assert.deepEqual((await events.getByRole("button").allInnerTexts()).map((text) => text.split("\n").filter(Boolean)[2]), ["answer", "answer"]);
});

test("DP-02: the list of events is followed up to its end, until the reader scrolls, and again from its end on", async (t) => {
  const { page, script, run, stands } = await playground(t, chrome, chat);
  await page.getByRole("button", { name: /^Events/ }).click();
  await run({ Message: "Why?" });
  const asked = await script.asked();
  const events = page.getByRole("region", { name: "Events of the run" });
  const more = async (n) => {
    for (let i = 0; i < n; i++) await asked.say(`word${i} `);
  };
  const atEnd = () => events.evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight < 2);
  await more(150);
  await page.until(() => document.querySelector(".events-all").offsetHeight > 22 * 140);
  await page.until(() => document.querySelector(".events-rows").scrollTop > 0);
  assert.ok(await atEnd());
  await events.hover();
  await page.mouse.wheel(0, -300);
  await page.until(() => document.querySelector(".events-rows").scrollHeight - document.querySelector(".events-rows").scrollTop - document.querySelector(".events-rows").clientHeight > 100);
  const top = await events.evaluate((e) => e.scrollTop);
  await more(20);
  await page.until(() => document.querySelector(".events-all").offsetHeight > 22 * 165);
  assert.equal(await events.evaluate((e) => e.scrollTop), top);
  await page.mouse.wheel(0, 100_000);
  await page.until(() => document.querySelector(".events-rows").scrollHeight - document.querySelector(".events-rows").scrollTop - document.querySelector(".events-rows").clientHeight < 2);
  await more(40);
  await asked.end();
  await stands("Completed");
  await events.getByText("finished", { exact: true }).waitFor();
  await page.until(() => document.querySelector(".events-rows").scrollHeight - document.querySelector(".events-rows").scrollTop - document.querySelector(".events-rows").clientHeight < 2);
  const seen = await events.getByText("finished", { exact: true }).evaluate((e) => e.getBoundingClientRect().bottom <= document.querySelector(".events-rows").getBoundingClientRect().bottom + 1);
  assert.ok(seen, "the end is in sight");
});

test("DP-03: sessions stand under their agents and dates, and open with the agent that answered in them", async (t) => {
  const { page, script, conversation, say } = await playground(t, chrome, { at: "#agent=assistant" });
  await say("To the assistant.");
  await (await script.asked()).end("Yes.");
  await conversation.getByText("Yes.").waitFor();
  await page.getByRole("link", { name: "careful", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "careful" }).waitFor();
  await say("To the careful one.");
  await (await script.asked()).end("Indeed.");
  await conversation.getByText("Indeed.").waitFor();
  const nav = page.getByRole("navigation");
  await nav.getByRole("heading", { name: "Today" }).waitFor();
  await nav.getByRole("heading", { name: "With assistant" }).waitFor();
  await nav.getByRole("link", { name: /^To the assistant/ }).click();
  await page.getByRole("heading", { level: 1, name: "assistant" }).waitFor();
  assert.equal(hash(page).get("agent"), "assistant");
  await conversation.getByText("Yes.").waitFor();
  await conversation.locator(".turn-who").getByText("assistant").waitFor();
});

test("DP-05: however long its arguments are, a call that asks can be allowed or denied without scrolling", async (t) => {
  for (const viewport of [{ width: 1280, height: 700 }, { width: 390, height: 700 }]) {
    const { page, script, say } = await playground(t, chrome, { at: "#agent=careful", viewport });
    await say("Look.");
    const asked = await script.asked();
    await asked.call("tape_search", { query: "word ".repeat(3000) });
    await asked.end();
    const question = page.getByRole("region", { name: /May .* run/ });
    await question.waitFor();
    await page.until(() => document.activeElement?.textContent === "Deny");
    const hidden = await page.evaluate(() => ["Allow", "Deny"].filter((name) => {
      const button = [...document.querySelectorAll(".approval button")].find((b) => b.textContent === name);
      const { x, y, width, height } = button.getBoundingClientRect();
      return !button.contains(document.elementFromPoint(x + width / 2, y + height / 2));
    }));
    assert.deepEqual(hidden, [], `${viewport.width} wide`);
  }
});

test("DP-05: a question does not take the keyboard from somebody who types", async (t) => {
  const { page, script, say } = await playground(t, chrome, { at: "#agent=careful" });
  await say("Look.");
  const asked = await script.asked();
  await page.getByLabel("Message", { exact: true }).fill("half a sen");
  await asked.call("tape_info");
  await asked.end();
  await page.getByRole("region", { name: /May .* run/ }).waitFor();
  await page.keyboard.type("tence");
  assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), "half a sentence");
});

test("DP-06: the models are those that the bots name", async (t) => {
  const { page } = await playground(t, chrome, { at: "#workflow=named" });
  const first = page.getByLabel("Model").locator("option").first();
  await page.until(() => /bots/.test(document.querySelector("select option")?.textContent ?? ""));
  assert.equal(await first.textContent(), "As the bots define: openai:o-named");
  await page.goto("/#workflow=chat");
  await page.getByRole("heading", { level: 1, name: "chat" }).waitFor();
  assert.match(await first.textContent(), /\(default\)$/);
});

test("DP-06: an error, and how long it is waited, are said once; a run that is gone is not tried again", async (t) => {
  const { page, net, script, run, stands, reads } = await playground(t, chrome, { ...chat, allow: [/Failed to load resource/] });
  await run({ Message: "Why?" });
  const asked = await script.asked();
  await asked.say("Before.");
  await reads("Before.");
  net.cut();
  await page.getByText(/The server cannot be reached\.|The connection broke\./).first().waitFor();
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await page.getByText(/Retrying/).first().waitFor();
  assert.equal(await page.getByText(/Retrying/).count(), 1);
  net.up();
  asked.cut();
  await stands("Failed");
  const message = "The model’s server sent no usable answer";
  assert.equal(await page.getByText(message).count(), 1);
  assert.equal(await page.locator(".slips li").count(), 0);
  await page.goto("/#workflow=chat&run=aaaaaaaaaaaaaaaaaaaaaaaaaa");
  await page.reload();
  await page.getByRole("alert").filter({ hasText: /not found|no such run/i }).first().waitFor();
  assert.equal(await page.getByRole("button", { name: "Try again" }).count(), 0);
});

test("DP-06: the time to the first token does not count how long a person was waited for", async (t) => {
  const { page, script, conversation, say } = await playground(t, chrome, { at: "#agent=careful" });
  await page.clock.install();
  await say("Look.");
  const asked = await script.asked();
  await asked.call("tape_info");
  await asked.end();
  const question = page.getByRole("region", { name: /May .* run/ });
  await question.waitFor();
  await page.clock.fastForward(30_000);
  await question.getByRole("button", { name: "Allow" }).click();
  await (await script.asked()).end("Short.");
  await conversation.getByText("Short.").waitFor();
  const first = await page.getByText("First token", { exact: true }).locator("xpath=following-sibling::dd").innerText();
  assert.ok(parseFloat(first) < 25, first);
});

test("DP-14: the one control of a run is Run, then Cancel, then Run again", async (t) => {
  const { page, script, stands, reads } = await playground(t, chrome, chat);
  const control = page.locator(".control");
  const loud = () => control.evaluate((e) => e.classList.contains("primary"));
  assert.match(await control.innerText(), /^Run\b/);
  assert.equal(await loud(), true);
  await page.getByLabel("Message").first().fill("Why?");
  await control.click();
  const asked = await script.asked();
  await asked.say("Because.");
  await reads("Because.");
  assert.equal((await control.innerText()).trim(), "Cancel");
  assert.equal(await loud(), false);
  assert.equal(await page.getByRole("button", { name: /^(Run|Cancel)/ }).count(), 1);
  await control.click();
  await stands("Canceled");
  assert.equal((await control.innerText()).trim(), "Run again");
  await control.click();
  const again = await script.asked();
  assert.equal(again.question, "Why?");
  await again.end("Once more.");
  await reads("Once more.");
});

test("DP-15: on a phone a line at the foot opens a sheet with everything beside the document, and a menu has the rest", async (t) => {
  const { page, script, run, reads, stands } = await playground(t, chrome, { at: "#workflow=chat", viewport: { width: 390, height: 844 } });
  await run({ Message: "Why?" });
  const asked = await script.asked();
  await asked.say("Because.");
  await reads("Because.");
  const { top, bottom } = await page.evaluate(() => ({ top: document.querySelector(".bar").getBoundingClientRect().height, bottom: document.querySelector(".foot").getBoundingClientRect().height }));
  assert.ok(top <= 100 && bottom <= 60, `the controls take ${top} and ${bottom} pixels`);
  await page.getByRole("button", { name: /Writing: assistant/ }).click();
  const sheet = page.getByRole("dialog", { name: "Run details" });
  await sheet.getByRole("button", { name: /^assistant, writing/ }).waitFor();
  await sheet.getByRole("button", { name: /^Events/ }).click();
  await sheet.getByRole("region", { name: "Events of the run" }).getByText("started").waitFor();
  await page.keyboard.press("Escape"); // closes the sheet and cancels nothing
  await sheet.waitFor({ state: "detached" }).catch(() => undefined);
  assert.equal(await page.getByText("Press Esc again").count(), 0);
  await asked.end();
  await stands("Completed");
  await page.getByRole("button", { name: /tokens/ }).click();
  await sheet.getByRole("button", { name: "Change input" }).click();
  await page.until(() => document.activeElement?.tagName === "TEXTAREA");
  await page.getByRole("button", { name: "Menu" }).click();
  await page.getByRole("dialog", { name: "Menu" }).getByRole("link", { name: "story" }).click();
  await page.getByRole("heading", { level: 1, name: "story" }).waitFor();
  assert.equal(await page.getByRole("dialog").count(), 0);
});

test("DP-16: titles have the face of texts, and an id is short, with a button that copies all of it", async (t) => {
  const { page, script, run, reads, stands } = await playground(t, chrome, { at: "#workflow=story", permissions: ["clipboard-read", "clipboard-write"] });
  await run({ About: "sky" });
  await (await script.asked()).end('{"title": "The sky", "text": "It is blue."}');
  await stands("Completed");
  await reads("It is blue.");
  const face = (locator) => locator.evaluate((e) => getComputedStyle(e).fontFamily);
  assert.equal(await face(page.getByRole("heading", { name: "The sky" })), await face(page.getByText("It is blue.")));
  const id = hash(page).get("run");
  assert.equal(await page.getByText(id, { exact: true }).count(), 0);
  await page.getByText(id.slice(0, 8) + "…").waitFor();
  await page.getByRole("button", { name: "Copy the run’s id" }).click();
  await page.getByText("Copied").first().waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), id);
});
