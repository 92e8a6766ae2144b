// The page at /, as a person uses it: by roles and names, never by class.
import { lingserve } from "../client/test/server.js";
import { open } from "./browser.js";
import { model } from "./model.js";
import { network } from "./network.js";

const workflows = {
  // One bot that writes JSON of any shape, and one that writes prose.
  story: "name: story\ndescription: Writes anything.\ninput: {type: object, required: [about], properties: {about: {type: string, title: About, maxLength: 100}}}\nbots:\n  story: {}\n",
  // One that does not go on after a restart of the server.
  fragile: "name: fragile\nresume: false\ninput: {type: object, required: [message], properties: {message: {type: string, title: Message}}}\nbots:\n  fragile: {root: answer, format: text}\n",
  // Two bots that write at the same time.
  pair: "name: pair\ninput: {type: object, required: [about], properties: {about: {type: string, title: About, maxLength: 100}}}\nbots:\n  left: {root: left, format: text}\n  right: {root: right, format: text}\n",
  // A bot that names its model.
  named: "name: named\ndescription: Names its model.\ninput: {type: object, required: [about], properties: {about: {type: string, title: About, maxLength: 100}}}\nbots:\n  named: {model: \"openai:o-named\"}\n",
};
const config = 'agents:\n  assistant: {}\n  careful:\n    ask_always: ["tape.*"]\n';

/** Opens the page on a server whose model says what the test wants. `at` is where in it; `keys` are those that the server asks for. */
export async function playground(t, chrome, { at = "", keys, ...options } = {}) {
  const script = await model(t);
  const server = await lingserve(t, { env: { ...script.env, LINGSERVE_GRACE: "1s", ...(keys && { LINGSERVE_API_KEYS: keys }) }, workflows, config });
  const net = await network(t, server.url);
  const page = await open(t, chrome, net.url, options);
  await page.goto("/" + at);
  if (!keys) await page.getByRole("heading", { level: 1 }).waitFor();
  return { page, script, server, net, ...parts(page) };
}

function parts(page) {
  const document = page.getByRole("region", { name: "Document", exact: true });
  return {
    document,
    conversation: page.getByRole("log"),
    /** Fills the field of a name and runs. */
    async run(fields = {}) {
      for (const [label, text] of Object.entries(fields)) await page.getByRole("textbox", { name: label }).fill(text);
      await page.getByRole("button", { name: /^Run\b/ }).click();
    },
    /** Says something to the agent. */
    async say(text) {
      await page.getByLabel("Message", { exact: true }).fill(text);
      await page.keyboard.press("Enter");
    },
    /** Opens one of the panels beside the document: Events, Code or Tape. */
    open: (name) => page.getByRole("button", { name: new RegExp(`^${name}\\b`), expanded: false }).click(),
    /** Waits until the page says so of its run. */
    stands: (word) => page.getByText(word, { exact: true }).first().waitFor(),
    /** Waits until a text is to be read in the document. */
    reads: (text) => document.getByText(text).first().waitFor(),
  };
}
