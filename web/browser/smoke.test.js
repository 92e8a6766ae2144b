// One run on the page at /: what every change must pass. The other tests of the page are in playground.test.js.
import assert from "node:assert/strict";
import { launch, test } from "./browser.js";
import { playground } from "./page.js";

const chrome = await launch();

test("a workflow is chosen, asked, and its document grows while its bots light up", async (t) => {
  const { page, script, document, run, stands, reads } = await playground(t, chrome);
  await page.getByRole("link", { name: "encyclopedia" }).click();
  await run({ Question: "Why is the sky blue?" });
  const outline = await script.asked();
  assert.match(outline.question, /Why is the sky blue\?/);
  await outline.say('{"title": "Why the ');
  await reads("Why the");
  await stands("Writing");
  await outline.say('sky", "summary": "Light.", "sections": [{"title": "Waves"}, ');
  const section = await script.asked(); // it has begun before the outline has ended
  await section.say("Of **waves**, which are long.\n\n");
  await document.locator("strong", { hasText: "waves" }).waitFor();
  const writing = page.getByRole("button", { name: /^(outline|section), writing/ });
  await writing.nth(1).waitFor();
  assert.equal(await writing.count(), 2);
  await page.getByRole("button", { name: /^quiz, waiting/ }).waitFor();
  await outline.end('{"title": "Air"}]}');
  await section.end("- one\n- two\n");
  await (await script.asked()).end("Of air.");
  await document.getByRole("listitem").filter({ hasText: /^two$/ }).waitFor();
  await (await script.asked()).end('{"questions": []}');
  await stands("Completed");
  await page.getByRole("button", { name: /^quiz, (done|completed|finished|ended)/ }).waitFor();
  assert.equal(await page.evaluate(() => Array.from(document.querySelectorAll("#main strong"), (e) => e.textContent).join()), "waves");
  assert.equal(page.starts().length, 1);
});
