// Records the animated pictures of README.md: the page at / while the demo model writes an article, as a light and as a dark page.
//
//   make picture
//
// It needs Chromium and img2webp (Debian: chromium, webp). It writes docs/growing-light.webp and docs/growing-dark.webp.
import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { executable, file } from "./browser.js";
import { chromium } from "playwright-core";

const size = { width: 860, height: 900 };
const interval = 125; // milliseconds between two frames
const hold = 3000; // how long the last frame stays
const largest = 1_500_000; // bytes of a picture

// Starts lingserve with nothing but the demo model and the workflows of the repository.
async function serve(folder) {
  cpSync(file("workflows"), join(folder, "workflows"), { recursive: true });
  const binary = process.env.LINGSERVE ?? file("bin/lingserve");
  const env = { PATH: process.env.PATH, HOME: folder, LINGSERVE_DEMO_PACE: "60" };
  const child = spawn(binary, ["serve", "--addr", "127.0.0.1:0"], { cwd: folder, env, stdio: ["ignore", "ignore", "pipe"] });
  for await (const line of createInterface({ input: child.stderr })) {
    const url = /listens on (http:\S+)/.exec(line)?.[1];
    if (url) {
      child.stderr.resume();
      return { url, stop: () => child.kill() };
    }
  }
  throw new Error("lingserve did not start");
}

// Takes a screenshot at each interval, from the press on Run until the quiz is complete. A frame that looks like the one before extends it.
async function record(page) {
  const frames = [];
  let previous;
  const take = async () => {
    const image = await page.screenshot({ type: "png" });
    const at = performance.now();
    if (!previous?.equals(image)) frames.push({ image, at });
    previous = image;
  };
  await take();
  await page.getByRole("button", { name: /^Run\b/ }).click();
  const start = performance.now();
  for (let next = start; ; next += interval) {
    await take();
    if (next - start > 60_000) throw new Error("the article is not complete after a minute");
    if (await page.getByText("Completed", { exact: true }).first().isVisible()) break;
    await sleep(next + interval - performance.now());
  }
  return frames;
}

// Writes frames as an animated WebP.
function encode(frames, folder, name) {
  const args = ["-loop", "0", "-kmax", "40", "-lossy", "-q", "62", "-m", "6"];
  frames.forEach(({ image, at }, i) => {
    const png = join(folder, `${name}-${i}.png`);
    writeFileSync(png, image);
    const shown = i + 1 < frames.length ? frames[i + 1].at - at : hold;
    args.push("-d", String(Math.round(shown)), png);
  });
  const picture = file(`docs/${name}.webp`);
  execFileSync("img2webp", [...args, "-o", picture], { stdio: "ignore" });
  const bytes = statSync(picture).size;
  console.log(`docs/${name}.webp: ${frames.length} frames, ${bytes} bytes`);
  if (bytes > largest) throw new Error(`docs/${name}.webp has ${bytes} bytes; at most ${largest} are allowed`);
}

const folder = mkdtempSync(join(tmpdir(), "lingserve-picture-"));
const server = await serve(folder);
const chrome = await chromium.launch({ executablePath: executable(), args: ["--no-sandbox", "--disable-dev-shm-usage", "--no-proxy-server"] });
try {
  for (const colorScheme of ["light", "dark"]) {
    const context = await chrome.newContext({ baseURL: server.url, viewport: size, colorScheme });
    const page = await context.newPage();
    await page.goto("/#workflow=encyclopedia");
    await page.getByRole("textbox", { name: "Question" }).fill("Why is the sky blue?");
    encode(await record(page), folder, `growing-${colorScheme}`);
    await context.close();
  }
} finally {
  await chrome.close();
  server.stop();
  rmSync(folder, { recursive: true, force: true });
}
