// What of the page is told by no part of it alone: addresses, sessions, focus, the list of events.
import assert from "node:assert/strict";
import { launch, open, test } from "../../browser/browser.js";
import { playground } from "../../browser/page.js";

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
