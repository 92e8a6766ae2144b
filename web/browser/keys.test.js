// A server that asks for a key: the page asks for it, and an EventSource gets a ticket.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { lingserve } from "../client/test/server.js";
import { audit } from "./audit.js";
import { file, launch, open, test } from "./browser.js";
import { model } from "./model.js";
import { network } from "./network.js";
import { playground } from "./page.js";

const chrome = await launch();
const ann = "ann-0123456789-abcdefghij";
const bob = "bob-0123456789-abcdefghij";
const keys = `ann:${ann}:user,bob:${bob}:user`;
// The browser itself says on the console that a request was refused.
const refused = [/status of 401/];
const broken = [...refused, /Failed to load resource: net::ERR_/];

async function signIn(page, key) {
  await page.getByLabel("API key").fill(key);
  await page.keyboard.press("Enter");
}

test("the page asks for a key, says what is wrong with one, and works with the right one until it is left", async (t) => {
  const { page, script, conversation, say } = await playground(t, chrome, { at: "#agent=assistant", keys, allow: refused });
  const field = page.getByLabel("API key");
  await field.waitFor();
  assert.equal(await page.getByRole("alert").innerText(), "", "who has shown nothing did nothing wrong");
  assert.equal(await page.getByRole("navigation").count(), 0);
  await signIn(page, "another-0123456789-abcdefghij");
  await page.getByRole("alert").filter({ hasText: "unknown API key" }).waitFor();
  assert.equal(await field.getAttribute("aria-invalid"), "true");
  await audit(page, "a wrong key");

  await signIn(page, ann);
  await page.getByRole("navigation").waitFor();
  await say("My name is Ann.");
  await (await script.asked()).end("Hello, Ann.");
  await conversation.getByText("Hello, Ann.").waitFor();
  await page.reload();
  await conversation.getByText("Hello, Ann.").first().waitFor(); // the key and the session are still there
  await page.getByRole("navigation").getByText("My name is Ann.").waitFor();
  assert.ok(!page.url().includes(ann));
  assert.equal(await page.evaluate((key) => JSON.stringify(localStorage).includes(key) || document.cookie.includes(key), ann), false);

  // Who comes next sees nothing of it.
  await page.getByRole("button", { name: "Sign out" }).click();
  await field.waitFor();
  assert.equal(await page.evaluate((key) => JSON.stringify([localStorage, sessionStorage]).includes(key), ann), false);
  await signIn(page, bob);
  await page.getByRole("navigation").waitFor();
  await page.getByRole("link", { name: "assistant" }).click();
  await page.getByRole("link", { name: "New session" }).waitFor();
  assert.equal(await page.getByText("Ann").count(), 0);
});

test("a run goes on to its end in the page while the key is sent with all that it asks", async (t) => {
  const { page, net, server, script, run, stands, reads } = await playground(t, chrome, { at: "#workflow=chat", keys, allow: broken });
  await signIn(page, ann);
  await run({ Message: "Why?" });
  const asked = await script.asked();
  await asked.say("Before, ");
  await reads("Before,");
  net.cut();
  await asked.say("meanwhile, ");
  net.up();
  await reads("Before, meanwhile,");
  await page.getByRole("button", { name: "Cancel" }).click();
  await stands("Canceled");
  // A key that is taken away: the page asks again, and what was there is there when it has one.
  await server.end("SIGTERM");
  const { env } = server;
  env.LINGSERVE_API_KEYS = `ann:${bob}:user`;
  await server.start();
  await page.reload();
  await signIn(page, bob);
  await reads("Before, meanwhile,");
});

test("an EventSource gets a ticket for each connection, and comes back with another one after a restart", async (t) => {
  const script = await model(t);
  const server = await lingserve(t, { env: { ...script.env, LINGSERVE_GRACE: "1s", LINGSERVE_API_KEYS: keys } });
  const net = await network(t, server.url);
  const files = {
    "/client.min.js": readFileSync(file("web/client/dist/client.min.js")),
    "/test": `<!doctype html><meta charset="utf-8"><title>test</title><link rel="icon" href="data:,">
      <script type="module">import * as client from "./client.min.js"; Object.assign(window, client);</script>`,
  };
  const page = await open(t, chrome, net.url, { files, allow: broken });
  const given = [];
  // What stands in for a server of the page's own, which has the key.
  await page.exposeFunction("ticket", async () => {
    const answer = await fetch(server.url + "/v1/tickets", {
      method: "POST",
      headers: { Authorization: "Bearer " + ann, "Content-Type": "application/json" },
      body: JSON.stringify({ path: "/v1/runs" }),
    });
    const { ticket } = await answer.json();
    given.push(ticket);
    return ticket;
  });
  await page.goto("/test");
  await page.evaluate(() => {
    window.r = run("/v1/runs", { workflow: "chat", input: "Why?" }, { transport: "eventsource", ticket });
    r.catch(() => {});
  });
  const asked = await script.asked();
  await asked.say("Before, ");
  await page.until(() => r.document.answer === "Before, ");
  net.cut();
  await asked.say("meanwhile, ");
  net.up();
  await page.until(() => r.document.answer === "Before, meanwhile, ");
  await asked.end("after.");
  assert.equal(await page.evaluate(() => r.then((d) => d.answer)), "Before, meanwhile, after.");
  assert.ok(given.length >= 2);
  assert.equal(new Set(given).size, given.length);
});
