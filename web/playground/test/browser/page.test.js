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
  await page.getByLabel("Event 1", { exact: true }).getByText('"event": "bot"').waitFor();
  await page.keyboard.press("ArrowDown");
  await page.getByLabel("Event 2", { exact: true }).getByText('"uri": "answer"').waitFor();
  await page.keyboard.press("End");
  await page.getByText('"status": "completed"').waitFor();
  await page.getByRole("searchbox", { name: "Find in events" }).fill("answer");
  assert.deepEqual((await events.getByRole("button").allInnerTexts()).map((text) => text.split("\n").filter(Boolean)[2]), ["bot", "answer", "answer", "bot"]);
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
  await sheet.getByRole("region", { name: "Events of the run" }).getByText("started", { exact: true }).waitFor();
  await page.keyboard.press("Escape"); // closes the sheet and cancels nothing
  await sheet.waitFor({ state: "detached" }).catch(() => undefined);
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

test("DN-06: on a phone, Allow and Deny stand above the composer, however high that is", async (t) => {
  const { page, script, say } = await playground(t, chrome, { at: "#agent=careful", viewport: { width: 390, height: 700 } });
  await say("Look.");
  const asked = await script.asked();
  await asked.call("tape_search", { query: "word ".repeat(3000) });
  await asked.end();
  await page.getByRole("region", { name: /May .* run/ }).waitFor();
  const apart = () => page.until(() => {
    const choice = document.querySelector(".approval-foot").getBoundingClientRect();
    const composer = document.querySelector("form[aria-label^=Message]").getBoundingClientRect();
    const send = document.querySelector("form[aria-label^=Message] button[type=submit]");
    const { x, y, width, height } = send.getBoundingClientRect();
    return choice.bottom <= composer.top + 1 && choice.top >= 0 && send.contains(document.elementFromPoint(x + width / 2, y + height / 2));
  });
  await apart();
  await page.getByLabel("Message", { exact: true }).fill("line\n".repeat(8));
  await apart();
});

test("DN-13: HTML is previewed in a frame without scripts, with its styles, and its source is a click away", async (t) => {
  const { page, script, document, run, stands } = await playground(t, chrome, { at: "#workflow=page" });
  await run({ Question: "Why?" });
  const asked = await script.asked();
  await asked.say("<!DOCTYPE html><html><head><style>h1 { color: rgb(1, 2, 3) }</style></head><body><h1>Why ");
  await document.getByLabel("HTML").getByText("<h1>Why").waitFor();
  await asked.end(`the sky</h1><p style="color: rgb(4, 5, 6)" onclick="top.hit = 1">Light.</p><img src="/none.png" onerror="top.hit = 3"><script>top.hit = 2</script></body></html>`);
  await stands("Completed");
  const frame = page.frameLocator("iframe[title='Preview of the HTML']");
  await frame.getByRole("heading", { name: "Why the sky" }).waitFor();
  const color = (locator) => locator.evaluate((e) => getComputedStyle(e).color);
  assert.equal(await color(frame.getByRole("heading")), "rgb(1, 2, 3)");
  assert.equal(await color(frame.getByText("Light.")), "rgb(4, 5, 6)");
  assert.equal(await frame.locator("script, [onclick], [onerror]").count(), 0);
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.doesNotMatch(await document.locator("iframe").getAttribute("sandbox"), /scripts|same-origin|forms/);
  await document.getByRole("radio", { name: "Source" }).check({ force: true });
  await document.getByLabel("HTML").getByText("<h1>Why the sky").waitFor();
  assert.equal(await document.locator("iframe").count(), 0);
});

test("DN-13: a failure is one card at the edge of the text, with the bot's name, and says one thing once", async (t) => {
  const { page, script, run, stands } = await playground(t, chrome, { ...chat, viewport: { width: 1500, height: 800 } });
  await run({ Message: "Why?" });
  const asked = await script.asked();
  await asked.say("Half of ");
  asked.cut();
  await stands("Failed");
  const [card, read] = await page.evaluate(() => {
    const card = document.querySelector(".failure");
    const inner = card.querySelector(".failure-title").getBoundingClientRect().left - card.getBoundingClientRect().left;
    return [{ left: card.getBoundingClientRect().left, inner }, document.querySelector(".read .md").getBoundingClientRect().left];
  });
  assert.ok(card.inner < 40, `the words are ${card.inner} pixels from the card's edge`);
  assert.ok(Math.abs(card.left - read) < 40, `the card begins at ${card.left}, the text at ${read}`);
  const lines = (await page.locator(".failure p").allInnerTexts()).map((line) => line.replace(/\s+/g, " "));
  assert.match(lines[0], /^The model’s server sent no usable answer ?upstream_protocol ?Bot assistant$/);
  assert.ok(lines.length <= 2, lines.join("\n"));
});

test("DN-13: a call that was denied is said to be denied, and no error besides", async (t) => {
  const { page, script, conversation, say } = await playground(t, chrome, { at: "#agent=careful" });
  await say("Look.");
  const asked = await script.asked();
  await asked.call("tape_info");
  await asked.end();
  await page.getByRole("region", { name: /May .* run/ }).getByRole("button", { name: "Deny" }).click();
  await (await script.asked()).end("Then not.");
  await conversation.getByText("Then not.").waitFor();
  await conversation.getByText("denied", { exact: true }).waitFor();
  assert.doesNotMatch(await conversation.innerText(), /internal|not allowed to run/);
});

test("DN-13: Esc closes what is open, the newest first, and stops no run", async (t) => {
  const { page, script, run, reads, stands } = await playground(t, chrome, chat);
  await run({ Message: "Why?" });
  const asked = await script.asked();
  await asked.say("Because ");
  await reads("Because");
  const panel = page.getByRole("button", { name: /^Code/ });
  await panel.click();
  await page.getByRole("button", { name: /Change input/ }).click();
  const options = page.getByRole("button", { name: /^Options/ });
  await options.click();
  await page.getByLabel("Temperature").focus();
  const expanded = (button) => button.getAttribute("aria-expanded");
  await page.keyboard.press("Escape");
  assert.equal(await expanded(options), "false");
  await page.until(() => document.activeElement?.textContent.startsWith("Options"));
  await page.keyboard.press("Escape");
  await options.waitFor({ state: "detached" });
  assert.equal(await expanded(panel), "true");
  await page.keyboard.press("Escape");
  assert.equal(await expanded(panel), "false");
  for (let i = 0; i < 4; i++) await page.keyboard.press("Escape");
  await asked.end("I say so.");
  await stands("Completed");
});

test("DN-13: params of a workflow go with its run, and what the server says of them stands at their field", async (t) => {
  const { page, run } = await playground(t, chrome, { ...chat, allow: [/status of 400/] });
  await page.getByRole("button", { name: /^Options/ }).click();
  await page.getByLabel(/^Params/).fill("tone=playful");
  const [wrong] = await Promise.all([page.waitForRequest((r) => new URL(r.url()).pathname === "/v1/runs"), run()]);
  assert.equal(JSON.parse(wrong.postData()).params, "tone=playful");
  await page.until(() => document.querySelector("[aria-invalid=true]"));
  await page.getByLabel(/^Params/).fill('{"tone": "playful"}');
  const [right] = await Promise.all([page.waitForRequest((r) => new URL(r.url()).pathname === "/v1/runs"), run()]);
  assert.deepEqual(JSON.parse(right.postData()).params, { tone: "playful" });
});

test("DN-13: an upload's limit is said before it is reached, and what is larger is not sent", async (t) => {
  const { page } = await playground(t, chrome, { at: "#agent=assistant" });
  await page.getByText("up to 16 MiB each").waitFor();
  await page.getByRole("form", { name: /^Message to/ }).evaluate((form) => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array((16 << 20) + 1)], "large.txt"));
    form.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await page.getByRole("list", { name: "Files of the message" }).getByText("larger than 16 MiB").waitFor();
  assert.equal(page.requests.filter((r) => new URL(r.url()).pathname === "/v1/files").length, 0);
});

test("DN-13: summaries of anchors are folded, and after a reload a turn says when it was and how long it took", async (t) => {
  const { page, script, conversation, say } = await playground(t, chrome, { at: "#agent=assistant" });
  await say("Hello");
  await (await script.asked()).end("Hi.");
  await conversation.getByText("Hi.").waitFor();
  await say(",tape.handoff name=billing summary=" + '"It was **paid**."');
  await conversation.getByText(/billing/).first().waitFor();
  await page.until(() => location.hash.includes("session="));
  const session = hash(page).get("session");
  await page.goto("about:blank");
  await page.goto("/#agent=assistant&session=" + session);
  await conversation.getByText(/^Completed in \d/).first().waitFor();
  assert.ok((await conversation.locator("time").count()) > 0);
  const paid = conversation.locator("strong", { hasText: "paid" });
  assert.equal(await paid.isVisible(), false);
  await conversation.locator("summary", { hasText: "Summary" }).click();
  await paid.waitFor();
});
