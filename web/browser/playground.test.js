// The page at /.
import assert from "node:assert/strict";
import { launch, open, test } from "./browser.js";
import { playground } from "./page.js";

const chrome = await launch();
const broken = [/Failed to load resource: net::ERR_/];
const chat = { at: "#workflow=chat" };
const careful = { at: "#agent=careful" };

test("DP-13: the writing is followed until the reader scrolls, and what is out of sight is a click away", async (t) => {
  const { page, script, run, reads, stands } = await playground(t, chrome, { at: "#workflow=story", viewport: { width: 1300, height: 500 } });
  await run({ About: "sky" });
  const asked = await script.asked();
  await asked.say('{"long": "' + "a line\\n\\n".repeat(60));
  await asked.say("and one more");
  await reads("and one more");
  const caret = () => page.until(() => {
    const { bottom } = document.querySelector(".md-end").getBoundingClientRect();
    return bottom <= innerHeight && bottom > 0;
  });
  await caret(); // it is followed
  await page.mouse.move(600, 300);
  await page.mouse.wheel(0, -5000);
  await page.getByRole("button", { name: "Writing below" }).waitFor();
  const top = () => page.locator("#main").evaluate((e) => e.scrollTop);
  assert.equal(await top(), 0);
  await asked.say("\\n\\nand something more");
  await reads("and something more");
  assert.equal(await top(), 0, "the reader is left alone");
  await page.getByRole("button", { name: "Writing below" }).click();
  await page.getByRole("button", { name: /^Writing/ }).waitFor({ state: "detached" });
  await caret();
  await asked.say("a line\\n\\n".repeat(60));
  await asked.say("and the end");
  await reads("and the end");
  await caret(); // and followed again
  await asked.end('"}');
  await stands("Completed");
  assert.equal(await page.getByRole("button", { name: /^Writing/ }).count(), 0);
});

// MO-25
test("images and files come with a message: by a button, by drop and by paste, and are taken out with the keyboard", async (t) => {
  const { page, script, conversation } = await playground(t, chrome, { at: "#agent=assistant", allow: [/status of 415/] });
  const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  const list = page.getByRole("list", { name: "Files of the message" });
  const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.getByRole("button", { name: "Add files" }).click()]);
  await chooser.setFiles([{ name: "dot.png", mimeType: "image/png", buffer: png }]);
  await list.getByText("dot.png").waitFor();
  const give = (type, name, text) =>
    page.getByRole("form", { name: /^Message to/ }).evaluate((form, [type, name, text]) => {
      const data = new DataTransfer();
      data.items.add(new File([text], name));
      form.dispatchEvent(type === "drop" ? new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }) : new ClipboardEvent(type, { clipboardData: data, bubbles: true, cancelable: true }));
    }, [type, name, text]);
  await give("drop", "notes.txt", "remember the milk");
  await give("paste", "more.csv", "a,b\n");
  await give("drop", "tool.exe", "MZ\u0000\u0001\u0002");
  await list.getByText("this server takes image, pdf, audio, text").waitFor();
  await page.screenshot({ path: process.env.SHOT || undefined, fullPage: true });
  for (const name of ["tool.exe", "more.csv"]) {
    await list.getByRole("button", { name: "Remove " + name }).focus();
    await page.keyboard.press("Enter");
    await list.getByText(name).waitFor({ state: "detached" });
  }
  await page.getByLabel("Message", { exact: true }).fill("What is it?");
  await page.keyboard.press("Enter");
  const asked = await script.asked();
  const parts = asked.request.messages.at(-1).content;
  assert.equal(parts.filter((p) => p.type === "image_url" && p.image_url.url.startsWith("data:image/png;base64,")).length, 1);
  assert.equal(parts.filter((p) => p.type === "text" && p.text.includes("remember the milk")).length, 1);
  await asked.end("A dot.");
  await conversation.getByText("A dot.").waitFor();
  await conversation.getByText("With 2 files").waitFor();
  assert.equal(await list.count(), 0);
});

test("a reload in mid-run comes back to the run, and to its end", async (t) => {
  const { page, script, run, stands, reads } = await playground(t, chrome, chat);
  await run({ Message: "Why?" });
  const asked = await script.asked();
  await asked.say("Before, ");
  await reads("Before,");
  await page.reload();
  await reads("Before,");
  await stands("Resumed");
  await asked.say("meanwhile, ");
  await reads("Before, meanwhile,");
  await asked.end("after.");
  await reads("Before, meanwhile, after.");
  await stands("Completed");
  assert.equal(page.starts().length, 1, "it is one run");
  await page.reload();
  await reads("Before, meanwhile, after.");
  await stands("Completed");
  assert.equal(page.starts().length, 1);
});

test("a server that is killed in mid-run and started again: the run goes on, and what was not complete is written again, once", async (t) => {
  const { page, document, server, script, run, stands, reads } = await playground(t, chrome, { at: "#workflow=pair", allow: broken });
  await run({ About: "sky" });
  const [one, other] = [await script.asked(), await script.asked()];
  await one.end("Complete.");
  await reads("Complete.");
  await other.say("So far.");
  await reads("So far.");
  await server.written("So far.");
  await server.end("SIGKILL");
  await page.getByText("The server cannot be reached.").first().waitFor();
  await server.start();
  const again = await script.asked();
  await page.getByText("The server restarted. The run continues; 1 part is written again.").waitFor();
  await document.getByText("So far.").waitFor({ state: "detached" });
  await reads("Complete.");
  await again.say("Once ");
  await reads("Once");
  await stands("Writing");
  await again.end("more.");
  await reads("Once more.");
  await stands("Completed");
  await stands("Restarted");
  assert.equal(await page.getByRole("alert").count(), 0);
  assert.equal(script.questions.length, 3, "what was complete is not asked for again");
  await page.reload();
  await reads("Once more.");
  await reads("Complete.");
  await stands("Completed");
});

test("a server that is killed in mid-answer of an agent: the half answer is replaced", async (t) => {
  const { page, conversation, server, script, say } = await playground(t, chrome, { at: "#agent=assistant", allow: broken });
  await say("Why?");
  await (await script.asked()).say("So far.");
  await conversation.getByText("So far.").waitFor();
  await server.written("So far.");
  await server.end("SIGKILL");
  await page.getByText("The server cannot be reached.").first().waitFor();
  await server.start();
  const again = await script.asked();
  assert.equal(again.question.split("\n").at(-1), "Why?");
  await page.getByText(/^The server restarted\. The run continues/).waitFor();
  await conversation.getByText("So far.").waitFor({ state: "detached" });
  await again.end("Because.");
  await conversation.getByText("Because.").waitFor();
  await page.reload();
  await conversation.getByText("Because.").waitFor();
  assert.equal(await conversation.getByText("Why?", { exact: true }).count(), 1);
  assert.equal(await conversation.getByText("So far.").count(), 0);
});

test("a server that is killed in mid-run of a workflow that does not go on: what there is stays, and the page says what has happened", async (t) => {
  const { page, server, script, run, stands, reads } = await playground(t, chrome, { at: "#workflow=fragile", allow: broken });
  await run({ Message: "Why?" });
  await (await script.asked()).say("So far.");
  await reads("So far.");
  await server.written("So far.");
  await server.end("SIGKILL");
  await page.getByText("The server cannot be reached.").first().waitFor();
  await server.start();
  await stands("Interrupted");
  await reads("So far.");
  const failure = await page.getByRole("alert").filter({ hasText: "A restart of the server interrupted this run" }).innerText();
  assert.match(failure, /output so far is kept/);
  assert.doesNotMatch(failure, /Idempotency-Key|any more/, "what is no news for a person");
  await page.getByRole("button", { name: "Try again" }).click();
  await (await script.asked()).end("Once more.");
  await reads("Once more.");
  await stands("Completed");
});

test("a server that is restarted in mid-run and lets it end: the page is told the rest", async (t) => {
  const { page, net, server, script, run, stands, reads } = await playground(t, chrome, { ...chat, allow: broken });
  await run({ Message: "Why?" });
  const asked = await script.asked();
  await asked.say("Before, ");
  await reads("Before,");
  net.cut(); // else it would all be told before the server ends
  const stopped = server.end("SIGTERM");
  await asked.end("after.");
  await stopped;
  net.up();
  await server.start();
  await reads("Before, after.");
  await stands("Completed");
});

test("a network that is cut comes back by itself, and nothing is missing", async (t) => {
  const { page, net, script, run, stands, reads } = await playground(t, chrome, { ...chat, allow: broken });
  await run({ Message: "Why?" });
  const asked = await script.asked();
  await asked.say("Before, ");
  await reads("Before,");
  net.cut();
  await page.getByText("The server cannot be reached.").first().waitFor();
  await asked.say("meanwhile, ");
  net.up();
  await reads("Before, meanwhile,");
  await asked.end("after.");
  await stands("Completed");
  await reads("Before, meanwhile, after.");
});

test("cancel keeps what there is, and Esc cancels nothing", async (t) => {
  const { page, script, run, stands, reads } = await playground(t, chrome, chat);
  await run();
  const asked = await script.asked();
  await asked.say("So ");
  await reads("So");
  for (let i = 0; i < 3; i++) await page.keyboard.press("Escape");
  await asked.say("far.");
  await reads("So far.");
  await stands("Writing");
  await page.getByRole("button", { name: "Cancel" }).click();
  await stands("Canceled");
  await reads("So far.");
  await asked.closed;
});

test("a conversation: the session remembers, also after a reload", async (t) => {
  const { page, script, conversation, say } = await playground(t, chrome, { at: "#agent=assistant" });
  await say("My name is Ada.");
  const first = await script.asked();
  await first.say("Hello, ");
  await conversation.getByText("Hello,").waitFor();
  await first.end("Ada.");
  await conversation.getByText("Hello, Ada.").waitFor();
  await say("Who am I?");
  const second = await script.asked();
  assert.deepEqual(second.request.messages.slice(-3).map((m) => m.content), ["My name is Ada.", "Hello, Ada.", "Who am I?"]);
  await second.end("You are Ada.");
  await conversation.getByText("You are Ada.").waitFor();
  await page.reload();
  for (const text of ["My name is Ada.", "Hello, Ada.", "Who am I?", "You are Ada."]) await conversation.getByText(text, { exact: true }).waitFor();
  assert.equal(page.starts().length, 2);
});

test("on a phone, a session opens at what was said last", async (t) => {
  const { page, script, conversation, say } = await playground(t, chrome, { at: "#agent=assistant", viewport: { width: 360, height: 700 } });
  for (const word of ["first", "second"]) {
    await say("Tell me the " + word);
    await (await script.asked()).end("word ".repeat(400) + word);
    await conversation.getByText("word " + word).waitFor();
  }
  const session = new URLSearchParams(new URL(page.url()).hash.slice(1)).get("session");
  await page.goto("about:blank");
  await page.goto("/#agent=assistant&session=" + session);
  await conversation.getByText("word second").waitFor();
  await page.until(() => {
    const turns = document.querySelectorAll("[role=log] article");
    const composer = document.querySelector("form[aria-label^=Message]").getBoundingClientRect();
    const { bottom } = turns[turns.length - 1].getBoundingClientRect();
    return turns.length === 2 && bottom > 0 && bottom <= composer.top;
  });
});

test("two windows on one run: both grow, and what is done in one is seen in the other", async (t) => {
  const { page, net, script, run, stands, reads } = await playground(t, chrome, chat);
  await run({ Message: "Why?" });
  const asked = await script.asked();
  await asked.say("So far.");
  await reads("So far.");
  const other = await open(t, chrome, net.url);
  await other.goto(page.url());
  await other.getByRole("region", { name: "Document" }).getByText("So far.").waitFor();
  await asked.say(" And on.");
  await reads("So far. And on.");
  await other.getByText("So far. And on.").first().waitFor();
  await other.getByRole("button", { name: "Cancel" }).click();
  await stands("Canceled");
  assert.equal(page.starts().length + other.starts().length, 1);
});

test("an agent that is busy is told more, or interrupted", async (t) => {
  const { page, script, conversation, say, stands } = await playground(t, chrome, { at: "#agent=careful" });
  const options = page.getByRole("button", { name: /^Options/ });
  const busy = async (choice) => {
    await options.click();
    await page.getByLabel("If the session is busy").selectOption({ label: choice });
    await options.click();
  };
  await say("One.");
  const first = await script.asked();
  await first.call("tape_info");
  await first.end();
  await page.getByRole("region", { name: "May tape.info run?" }).waitFor();
  await busy("steer the current answer");
  await say("Two.");
  await conversation.getByText("Two.", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Allow" }).click();
  const second = await script.asked();
  assert.equal(second.question, "Two.", "it reads this before it goes on");
  await second.say("I am at it");
  await conversation.getByText("I am at it").waitFor();
  await busy("interrupt the current answer");
  await say("Three.");
  await stands("Canceled");
  await second.closed;
  await (await script.asked()).end("All done.");
  await conversation.getByText("All done.").waitFor();
});

test("however many messages wait, a call that asks can be answered", async (t) => {
  const { page, script, conversation, say } = await playground(t, chrome, careful);
  await say("One.");
  const first = await script.asked();
  await first.call("tape_info");
  await first.end();
  const question = page.getByRole("region", { name: "May tape.info run?" });
  await question.waitFor();
  for (const text of ["Two.", "Three.", "Four."]) {
    await say(text);
    await conversation.getByText(text, { exact: true }).waitFor();
  }
  await say("Five."); // a browser has six connections, and those that are left are needed
  await page.getByRole("alert").filter({ hasText: "4 messages" }).waitFor();
  assert.equal(await page.getByRole("textbox", { name: "Message" }).inputValue(), "Five.");
  await question.getByRole("button", { name: "Allow" }).click();
  for (const text of ["One.", "Two.", "Three.", "Four."]) await (await script.asked()).end(`To ${text}`);
  await conversation.getByText("To Four.").waitFor();
  await page.getByRole("textbox", { name: "Message" }).press("Enter");
  await (await script.asked()).end("To Five.");
  await conversation.getByText("To Five.").waitFor();
});

test("a server that is away when a run is asked for is waited for, and it is one run", async (t) => {
  const { page, net, script, run, stands, reads } = await playground(t, chrome, { ...chat, allow: broken });
  net.cut();
  await run({ Message: "Why?" });
  await page.getByText("The server cannot be reached.").first().waitFor();
  net.up();
  await (await script.asked()).end("Because.");
  await reads("Because.");
  await stands("Completed");
});

test("a run that nobody knows, and a session that nobody has spoken in, are said", async (t) => {
  const { page, conversation } = await playground(t, chrome, { at: "#workflow=chat&run=aaaaaaaaaaaaaaaaaaaaaaaaaa", allow: [/status of 404/] });
  await page.getByRole("alert").filter({ hasText: /not found|no such run/i }).first().waitFor();
  await page.evaluate(() => (location.hash = "#agent=assistant&session=nobody"));
  await page.getByText(/Write a message to assistant/).first().waitFor();
  await conversation.waitFor();
});

test("a call that asks is denied with a reason, another one allowed, and remembered", async (t) => {
  const { page, script, conversation, say } = await playground(t, chrome, careful);
  const question = page.getByRole("region", { name: "May tape.info run?" });
  const call = async () => {
    const asked = await script.asked();
    await asked.call("tape_info");
    await asked.end();
  };
  await say("How long is this?");
  await call();
  await question.getByLabel(/Reason/).fill("not today");
  await question.getByRole("button", { name: "Deny" }).click();
  const after = await script.asked();
  assert.match(after.question, /not today/);
  await conversation.getByText("denied", { exact: true }).waitFor();
  await after.call("tape_info");
  await after.end();
  await question.getByRole("checkbox").check();
  await question.getByRole("button", { name: "Allow" }).click();
  const allowed = await script.asked();
  assert.match(allowed.question, /entries/);
  await allowed.end("Not long.");
  await conversation.getByText("Not long.").waitFor();
  assert.equal(await question.count(), 0);
  await say("And now?");
  await call();
  await (await script.asked()).end("Longer.");
  await conversation.getByText("Longer.").waitFor();
  // DS-06: what was allowed can be taken back.
  await page.getByRole("region", { name: "Allowed for this session" }).getByRole("button", { name: "Ask again before tape.info runs" }).click();
  await page.getByRole("region", { name: "Allowed for this session" }).waitFor({ state: "detached" });
  await say("And now?");
  await call();
  await question.getByRole("button", { name: "Deny" }).click();
  await (await script.asked()).end("Unknown.");
  await conversation.getByText("Unknown.").waitFor();
});

test("a question that waits is there after a reload, too", async (t) => {
  const { page, script, conversation, say } = await playground(t, chrome, careful);
  await say("How long is this?");
  const asked = await script.asked();
  await asked.call("tape_info");
  await asked.end();
  const question = page.getByRole("region", { name: "May tape.info run?" });
  await question.waitFor();
  await page.reload();
  await question.getByRole("button", { name: "Allow" }).click();
  await (await script.asked()).end("Not long.");
  await conversation.getByText("Not long.").waitFor();
});

test("what does not fit is said next to its field", async (t) => {
  const { page, script, run, reads } = await playground(t, chrome, { at: "#workflow=story", allow: [/Failed to load resource: the server responded with a status of 400/] });
  const field = page.getByLabel("About");
  await run({ About: "" });
  await page.until(() => document.querySelector("[aria-invalid=true]"));
  assert.equal(await field.getAttribute("aria-invalid"), "true");
  const said = await field.evaluate((e) => e.getAttribute("aria-describedby").split(" ").map((id) => document.getElementById(id)?.textContent).join(" "));
  assert.match(said, /required|missing|needed/i);
  await run({ About: "sky" });
  await (await script.asked()).end('{"it": "is blue"}');
  await reads("is blue");
});

test("a model that fails, and one that cannot be reached, are said as a person would want it", async (t) => {
  const { page, script, run, stands, reads } = await playground(t, chrome, chat);
  await run({ Message: "Why?" });
  (await script.asked()).refuse(401);
  const failure = page.getByRole("alert").filter({ hasText: "key" });
  await failure.waitFor();
  await stands("Failed");
  assert.doesNotMatch(await failure.innerText(), /127\.0\.0\.1|scripted/, "the model server's address or words");
  await failure.getByRole("button", { name: "Try again" }).click();
  const asked = await script.asked();
  await asked.say("Half of ");
  await reads("Half of");
  asked.cut();
  await page.getByText("The model’s server sent no usable answer").waitFor();
  await reads("Half of");
  script.down();
  await run();
  await page.getByText("The model’s server is not available").waitFor();
});

test("a model that thinks and calls tools shows both, folded", async (t) => {
  const { page, script, conversation, say } = await playground(t, chrome, { at: "#agent=assistant" });
  await say("How long is this?");
  const asked = await script.asked();
  await asked.think("Let me look.");
  await asked.call("tape_info");
  await asked.end();
  await (await script.asked()).end("Short.");
  await conversation.getByText("Short.").waitFor();
  await conversation.getByText("Reasoning").click();
  await conversation.getByText("Let me look.").last().waitFor();
  await conversation.getByText("tape_info").click();
  await conversation.getByText(/"entries": \d/).waitFor();
});

test("a message to a busy agent waits for its turn; a session has its anchors on the tape", async (t) => {
  const { page, script, conversation, say, stands, open } = await playground(t, chrome, { at: "#agent=assistant" });
  await say("One.");
  const first = await script.asked();
  await first.say("I am at ");
  await conversation.getByText("I am at").waitFor();
  await say("Two.");
  await stands("Waits, next in the session");
  await first.end("it.");
  const second = await script.asked();
  assert.deepEqual(second.request.messages.slice(-3).map((m) => m.content), ["One.", "I am at it.", "Two."]);
  await second.end("Done.");
  await conversation.getByText("Done.").waitFor();
  await say(",tape.handoff name=chapter-two");
  await conversation.getByText(/Anchor .*chapter-two/).first().waitFor();
  await open("Tape");
  await page.getByRole("region", { name: "Tape" }).getByText("chapter-two").first().waitFor();
  await page.reload();
  await conversation.getByText(/chapter-two/).first().waitFor();
});

test("the events are listed with their ids, and the figures of the run", async (t) => {
  const { page, script, run, stands, open } = await playground(t, chrome, chat);
  await open("Events");
  await run({ Message: "Why?" });
  await (await script.asked()).end("Because.");
  await stands("Completed");
  const events = page.getByRole("region", { name: "Events of the run" });
  assert.deepEqual((await events.getByRole("button").allInnerTexts()).map((text) => text.split("\n").filter(Boolean).slice(1, 3)), [
    ["0", "started"], ["1", "bot"], ["2", "answer"], ["3", "answer"], ["4", "usage"], ["5", "bot"], ["6", "finished"],
  ]);
  // As the model's server has counted them.
  const figure = (name) => page.getByText(name, { exact: true }).locator("xpath=following-sibling::dd").innerText();
  assert.deepEqual([await figure("Output tokens"), await figure("Input tokens")], ["11", "7"]);
});

test("screen readers are told that a run has begun and that it has ended, and nothing between", async (t) => {
  const { page, script, run, reads, stands } = await playground(t, chrome, chat);
  await page.evaluate(() => {
    window.said = [];
    const live = "[role=status], [role=alert], [aria-live=polite], [aria-live=assertive]";
    const note = (e) => e && e.textContent !== "" && window.said.push(e.textContent);
    new MutationObserver((changes) => {
      for (const { target, addedNodes } of changes) {
        note((target.closest ? target : target.parentElement)?.closest(live));
        for (const node of addedNodes) if (node.matches?.(live)) note(node);
          else node.querySelectorAll?.(live).forEach(note);
      }
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
  });
  await run({ Message: "Why?" });
  const asked = await script.asked();
  for (const word of ["Because ", "of ", "the ", "light."]) {
    await asked.say(word);
    await reads(word.trim());
  }
  await asked.end();
  await stands("Completed");
  await page.until(() => /^Completed/.test(window.said.at(-1)));
  const said = (await page.evaluate(() => window.said)).map((text) => text.split(" ")[0].replace(".", ""));
  assert.deepEqual(said.filter((word) => word !== "Starting"), ["Writing", "Completed"]); // a quick server has started before that is said
});

test("the back button goes to what was looked at before", async (t) => {
  const { page } = await playground(t, chrome, chat);
  await page.getByRole("link", { name: "story" }).click();
  await page.getByRole("heading", { level: 1, name: "story" }).waitFor();
  await page.goBack();
  await page.getByRole("heading", { level: 1, name: "chat" }).waitFor();
});

test("the back button goes to a run that goes on, and its bots are those that write", async (t) => {
  const { page, script, run, reads } = await playground(t, chrome, { at: "#workflow=story" });
  await run({ About: "sky" });
  const asked = await script.asked();
  await asked.say('{"it": "is ');
  await reads("is");
  await page.getByRole("link", { name: "chat" }).click();
  await page.getByRole("button", { name: /^assistant, waiting/ }).waitFor();
  await page.goBack();
  await page.getByRole("button", { name: /^story, writing/ }).waitFor();
  await asked.end('blue"}');
  await reads("is blue");
});

test("who comes for the first time sees the workflow of the most bots, and later what was looked at last", async (t) => {
  const { page } = await playground(t, chrome);
  await page.getByRole("heading", { level: 1, name: "encyclopedia" }).waitFor();
  await page.getByRole("link", { name: "page", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "page" }).waitFor();
  await page.goto("/");
  await page.getByRole("heading", { level: 1, name: "page" }).waitFor();
});
