// What the page at / offers to copy really runs, whatever it was asked.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { Fold } from "../client/dist/index.js";
import { file, launch, test } from "./browser.js";
import { playground } from "./page.js";

const chrome = await launch();

// Questions that a shell, a query or a string would take for something else.
const questions = ["Why is the sky blue?", "It's \"why\" & how: $HOME `id` \\ %41 + #1 </script> é 日本 😀", "one\ntwo", '{"message": "no"}', "7"];

// The text of a snippet, as it comes out of the clipboard.
async function snippet(page, language) {
  const code = page.getByRole("button", { name: "Code", exact: true });
  if ((await code.getAttribute("aria-expanded")) === "false") await code.click();
  await page.getByRole("radio", { name: language, exact: true }).check({ force: true });
  const text = await page.getByLabel(`This run with ${language}`).textContent();
  await page.getByRole("button", { name: `Copy ${language}` }).click();
  await page.until(async (text) => (await navigator.clipboard.readText()).trimEnd() === text.trimEnd(), text);
  return text;
}

// Runs a program that is fed a text, and returns what it says.
function output(program, args, text = "", options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, options);
    let out = "";
    let wrong = "";
    child.stdout.on("data", (d) => (out += d));
    child.stderr.on("data", (d) => (wrong += d));
    child.on("error", reject);
    child.on("close", (status) => (status === 0 ? resolve(out) : reject(new Error(`${program} ended with ${status}: ${wrong}${out}`))));
    child.stdin.end(text);
  });
}

const runs = {
  async curl(page, text, answered) {
    const [lines] = await Promise.all([output("sh", ["-c", text]), answered]);
    const fold = new Fold();
    const events = lines.trimEnd().split("\n").map((line) => JSON.parse(line));
    for (const e of events) if ("delta" in e) fold.apply(e.uri, e.delta);
    assert.deepEqual(fold.document, { answer: "Because." });
    assert.equal(events.at(-1).event, "finished");
  },
  async EventSource(page, text, answered) {
    const logged = [];
    const log = async (m) => logged.push(await Promise.all(m.args().map((a) => a.jsonValue())));
    page.on("console", log);
    await Promise.all([page.evaluate(text + "\nwindow.source = source;"), answered]);
    await page.until(() => source.readyState === EventSource.CLOSED);
    page.off("console", log);
    assert.deepEqual(logged[0], ["answer", "Because."]);
    assert.equal(logged.at(-1)[0], "finished");
  },
  async Client(page, text, answered) {
    const [said] = await Promise.all([output(process.execPath, ["--input-type=module"], text, { cwd: file("web/client") }), answered]);
    assert.equal(said, "answer Because.\n{ answer: 'Because.' }\n");
  },
};

for (const [language, run] of Object.entries(runs)) {
  test(`${language}: what is copied runs, and asks what was asked`, async (t) => {
    const { page, script } = await playground(t, chrome, { at: "#workflow=chat", permissions: ["clipboard-read", "clipboard-write"] });
    for (const question of questions) {
      await page.getByRole("textbox", { name: "Message" }).fill(question);
      const text = await snippet(page, language);
      const answered = script.asked().then((asked) => {
        assert.equal(asked.question, question);
        return asked.end("Because.");
      });
      await run(page, text, answered);
    }
  });
}

test("the code of a run that was started is that of this run, also of an agent's", async (t) => {
  const { page, script, conversation, say } = await playground(t, chrome, { at: "#agent=assistant", permissions: ["clipboard-read", "clipboard-write"] });
  await say("My name is Ada.");
  await (await script.asked()).end("Hello.");
  await conversation.getByText("Hello.").waitFor();
  const again = script.asked().then(async (asked) => {
    assert.equal(asked.question, "My name is Ada.");
    await asked.end("Hello again.");
  });
  const [lines] = await Promise.all([output("sh", ["-c", await snippet(page, "curl")]), again]);
  assert.match(lines, /"event":"started","data":\{[^}]*"agent":"assistant"/);
  assert.match(lines, /"uri":"","delta":"Hello again\."/);
});
