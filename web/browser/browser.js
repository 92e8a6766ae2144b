// Chromium for tests, with pages that fail their test when anything happens in them that should not.
import assert from "node:assert/strict";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { after, test as tested } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const names = ["chromium", "chromium-browser", "google-chrome"];

/** The path of Chromium, as CHROMIUM names it or as PATH has it. */
export function executable() {
  const named = process.env.CHROMIUM;
  const all = named ? [named] : names.flatMap((name) => process.env.PATH.split(delimiter).map((folder) => join(folder, name)));
  for (const file of all) {
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {}
  }
  throw new Error(named ? `CHROMIUM is ${named}, which cannot be run` : `there is no ${names.join(", no ")} in PATH: install Chromium, or name it in CHROMIUM`);
}

/** Starts a browser for the tests of a file. It reaches this machine and nothing else; `names` are names that lead here too. */
export async function launch({ names = [], args = [] } = {}) {
  const chrome = await chromium.launch({
    executablePath: executable(),
    // Tests may run as root, and in a container whose /dev/shm is small.
    args: [
      "--no-sandbox", "--disable-dev-shm-usage", "--no-proxy-server", ...args,
      `--host-resolver-rules=${names.map((name) => `MAP ${name} 127.0.0.1, `).join("")}MAP * ~NOTFOUND, EXCLUDE 127.0.0.1`,
    ],
  });
  after(() => chrome.close());
  return chrome;
}

const pages = new WeakMap();

/** As node:test has it. The test's pages are closed before the servers that they are of, and what went wrong in them fails it. */
export function test(name, fn) {
  return tested(name, { timeout: 600_000 }, async (t) => {
    const opened = [];
    pages.set(t, opened);
    try {
      await fn(t);
    } catch (error) {
      for (const { context, problems } of opened) {
        for (const problem of problems) t.diagnostic(problem);
        for (const page of context.pages()) t.diagnostic(`the page: ${await page.locator("body").innerText().then((text) => text.slice(0, 1500), String)}`);
      }
      throw error;
    } finally {
      for (const { context } of opened) await context.close();
    }
    for (const { problems } of opened) assert.deepEqual(problems, [], "this should not have happened in the page");
  });
}

/**
 * Opens an empty page for a test, of a context of its own, whose paths are those of the server at `url`. `files` are served from
 * there, too: text or a Buffer by path, its type by the path's ending. Errors and warnings on the console, errors that nobody
 * caught, dialogs, other pages and requests to any other place fail the test; `allow` are patterns of those that belong to it.
 */
export async function open(t, chrome, url, { files = {}, allow = [], ...options } = {}) {
  const context = await chrome.newContext({ baseURL: url, ...options });
  const problems = [];
  const requests = [];
  const problem = (text) => allow.some((pattern) => pattern.test(text)) || problems.push(text);
  pages.get(t).push({ context, problems });
  context.on("console", (m) => ["error", "warning"].includes(m.type()) && problem(`console ${m.type()}: ${m.text()} ${m.location().url}`));
  context.on("weberror", (e) => problem(`error: ${e.error().stack ?? e.error()}`));
  context.on("dialog", (d) => (problem(`dialog: ${d.message()}`), d.dismiss().catch(() => {})));
  context.on("request", (r) => {
    requests.push(r);
    const at = new URL(r.url());
    if (at.origin !== url && !["data:", "blob:", "about:"].includes(at.protocol)) problem(`request: ${r.url()}`);
  });
  if (Object.keys(files).length > 0) {
    await context.route((at) => at.origin === url && at.pathname in files, (route) => {
      const { pathname } = new URL(route.request().url());
      return route.fulfill({ contentType: type(pathname), body: files[pathname] });
    });
  }
  const page = await context.newPage();
  context.on("page", (p) => problem(`another page: ${p.url()}`));
  page.setDefaultTimeout(100_000);
  return Object.assign(page, {
    requests,
    /** The starts of runs so far. */
    starts: () => requests.filter((r) => new URL(r.url()).pathname === "/v1/runs"),
    /** Waits until fn, run in the page, gives something true, and returns that. */
    until: async (fn, argument) => (await page.waitForFunction(fn, argument, { polling: 20 })).jsonValue(),
  });
}

function type(path) {
  if (path.endsWith(".js")) return "text/javascript; charset=utf-8";
  return "text/html; charset=utf-8";
}

/** The file at a path of the repository. */
export function file(path) {
  return fileURLToPath(new URL(`../../${path}`, import.meta.url));
}
