// Servers for tests: the real one, as a process that can be killed, and one that sends what it is told to.
import { spawn } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createSocket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const binary = process.env.LINGSERVE ?? fileURLToPath(new URL("../../../bin/lingserve", import.meta.url));
const shipped = fileURLToPath(new URL("../../../workflows", import.meta.url));

/**
 * Starts lingserve with its scripted model, a configuration file, more workflows by name, and more of an environment. It can be
 * ended and started again at the same address with the same data.
 */
export async function lingserve(t, { pace = 400, config = "", workflows = {}, env: more = {} } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "lingserve-client-"));
  const port = await new Promise((resolve) => {
    const s = createSocket().listen(0, "127.0.0.1", () => {
      const { port } = s.address();
      s.close(() => resolve(port));
    });
  });
  const url = `http://127.0.0.1:${port}`;
  writeFileSync(join(folder, "lingserve.yaml"), config);
  cpSync(shipped, join(folder, "workflows"), { recursive: true });
  for (const [name, text] of Object.entries(workflows)) writeFileSync(join(folder, "workflows", `${name}.yaml`), text);
  let child;
  const server = {
    url,
    env: { ...more }, // as the next start has it
    runs: `${url}/v1/runs`,
    async start() {
      const env = { PATH: process.env.PATH, HOME: folder, LINGSERVE_DEMO_PACE: String(pace), LINGSERVE_WORKSPACE: join(folder, "workspace"), ...server.env };
      child = spawn(binary, ["serve", "--addr", `127.0.0.1:${port}`, "--data", join(folder, "data")], { cwd: folder, env, stdio: ["ignore", "ignore", "pipe"] });
      let said = "";
      child.stderr.on("data", (d) => (said += d));
      child.exited = new Promise((resolve) => child.on("exit", resolve));
      for (;;) {
        if (child.exitCode !== null) throw new Error(`lingserve ended: ${said}`);
        try {
          if ((await fetch(`${url}/readyz`)).ok) return;
        } catch {}
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    /** Waits until a text that came in one piece is in the database, where a killed server leaves it. */
    async written(text) {
      const data = join(folder, "data");
      const files = () => readdirSync(data).filter((name) => /\.db(-wal)?$/.test(name));
      while (!files().some((name) => readFileSync(join(data, name)).includes(text))) {
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    async end(signal = "SIGTERM") {
      child.kill(signal);
      await child.exited;
    },
  };
  t.after(async () => {
    await server.end("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });
  await server.start();
  return server;
}

/** Starts a server of which each connection is answered by the next of the handlers; the last one answers all that follow. */
export async function scripted(t, ...handlers) {
  const requests = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (d) => (body += d));
    request.on("end", () => {
      requests.push({ method: request.method, url: request.url, headers: request.headers, body });
      handlers[Math.min(requests.length, handlers.length) - 1](response, requests.at(-1));
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { runs: `http://127.0.0.1:${server.address().port}/v1/runs`, requests };
}

/** Answers with events and then ends the stream, cleanly or not, or leaves it open. */
export function stream(text, end = "end") {
  return (response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write("retry: 5\n" + text, () => {
      if (end === "end") response.end();
      if (end === "break") response.destroy();
    });
  };
}

export const delta = (n, uri, delta) => `id: r:${n}\ndata: ${JSON.stringify({ uri, delta })}\n\n`;
export const part = (uri, delta) => `data: ${JSON.stringify({ uri, delta })}\n\n`;
export const done = (n, uri) => `id: r:${n}\ndata: ${JSON.stringify({ uri, done: true })}\n\n`;
export const event = (n, name, data) => `id: r:${n}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
export const started = event(0, "started", { run: "r", workflow: "w" });
export const finished = (n, status = "completed") => event(n, "finished", { status });

/** A problem document, as the server sends it. */
export function problem(status, code, headers = {}) {
  return (response) => {
    response.writeHead(status, { "Content-Type": "application/problem+json", ...headers });
    response.end(JSON.stringify({ status, code, detail: `no: ${code}`, errors: [{ pointer: "/input", detail: "missing" }] }));
  };
}
