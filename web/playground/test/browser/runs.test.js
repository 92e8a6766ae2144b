// The list of runs, as a person uses it.
import assert from "node:assert/strict";
import { launch, test } from "../../../browser/browser.js";
import { playground } from "../../../browser/page.js";

const chrome = await launch();

test("a run is listed while it goes on and after its end, and a click shows it", async (t) => {
  const { page, script, run, reads } = await playground(t, chrome, { at: "#workflow=chat" });
  await run({ Message: "Why?" });
  const asked = await script.asked();
  await page.getByRole("link", { name: "Runs" }).click();
  await page.getByRole("heading", { level: 1, name: "Runs" }).waitFor();
  const row = page.getByRole("row", { name: /chat/ });
  await row.getByRole("cell", { name: "Running" }).waitFor();
  await asked.end("Because.");
  await row.getByRole("cell", { name: "Completed" }).waitFor();
  await page.getByRole("radio", { name: "Failed" }).check();
  await page.getByText("No run fits all of this").waitFor();
  assert.match(page.url(), /#list=runs&status=failed$/);
  await page.reload();
  assert.equal(await page.getByRole("radio", { name: "Failed" }).isChecked(), true);
  await page.getByRole("button", { name: "Clear all" }).click();
  await row.click();
  await page.getByRole("heading", { level: 1, name: "chat" }).waitFor();
  await reads("Because.");
  await page.goBack();
  await row.waitFor();
});

test("the list is gone through with the keyboard, and its next page begins where the focus is", async (t) => {
  const { page, script } = await playground(t, chrome, { at: "#workflow=chat" });
  await page.evaluate(async () => {
    const start = () => fetch("/v1/runs", { method: "POST", headers: { "Content-Type": "application/json", Prefer: "respond-async" }, body: JSON.stringify({ workflow: "chat", input: "Why?" }) });
    for (let i = 0; i < 52; i++) await start();
  });
  for (let i = 0; i < 52; i++) await (await script.asked()).end("Because.");
  await page.getByRole("link", { name: "Runs" }).click();
  const links = page.getByRole("table", { name: "Runs" }).getByRole("link");
  await links.first().focus();
  await page.keyboard.press("j");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("k");
  const focused = () => page.evaluate(() => [...document.querySelectorAll("table a")].indexOf(document.activeElement));
  assert.equal(await focused(), 1);
  assert.equal(await links.count(), 50);
  await page.getByRole("button", { name: "More runs" }).click();
  await page.until(() => document.querySelectorAll("table a").length === 52);
  await page.until(() => [...document.querySelectorAll("table a")].indexOf(document.activeElement) === 50);
  assert.equal(await page.getByRole("button", { name: "More runs" }).count(), 0);
});
