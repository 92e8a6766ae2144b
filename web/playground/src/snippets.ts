// The same run as code: what is copied from the page works where it is pasted.

import type { RunRequest } from "../../client/src/index.js";

/** A text as one word of a POSIX shell. */
export function shellWord(text: string): string {
  return "'" + text.replaceAll("'", `'\\''`) + "'";
}

const indented = (value: unknown, by: string) => JSON.stringify(value, null, 2).replaceAll("\n", "\n" + by);

// As it is sent: without what is not there.
const plain = (request: RunRequest): Record<string, unknown> => JSON.parse(JSON.stringify(request));

/** For a terminal: the events as JSON Lines. With `keyed`, the server asks for a key, which is in LINGSERVE_KEY. */
export function curl(origin: string, request: RunRequest, keyed = false): string {
  const key = keyed ? `-H "Authorization: Bearer $LINGSERVE_KEY" ` : "";
  return `curl -N ${shellWord(origin + "/v1/runs?format=jsonl")} ${key}--json ${shellWord(JSON.stringify(request))}`;
}

const ticketOf = (origin: string): string => `// A key has no place in a page: your own server gets a ticket with it, which is good for one connection.
const answer = await fetch(${JSON.stringify(origin + "/v1/tickets")}, {
  method: "POST",
  headers: { "Authorization": "Bearer " + process.env.LINGSERVE_KEY, "Content-Type": "application/json" },
  body: JSON.stringify({ path: "/v1/runs" }),
});
const { ticket } = await answer.json();
`;

/** For a page of this server, or Node with an EventSource: nothing to install. */
export function eventSource(origin: string, request: RunRequest, keyed = false): string {
  const query = Object.entries(plain(request)).map(([name, value]) => {
    const literal = typeof value === "boolean" ? (value ? `"1"` : `"0"`)
      : typeof value === "string" && !(name === "input" && looksLikeJSON(value)) ? JSON.stringify(value)
      : name === "model" ? JSON.stringify(String(value))
      : `JSON.stringify(${indented(value, "  ")})`;
    return `  ${name}: ${literal},`;
  });
  if (keyed) query.push("  ticket,");
  return `${keyed ? ticketOf(origin) : ""}const query = new URLSearchParams({
${query.join("\n")}
});
const source = new EventSource(${JSON.stringify(origin + "/v1/runs?")} + query);
source.onmessage = (e) => {
  // Where in the document, and what is added there.
  const { uri, delta } = JSON.parse(e.data);
  console.log(uri, delta);
};
source.addEventListener("error", (e) => {
  if (e.data) console.error(JSON.parse(e.data).message); // else: it connects again by itself
});
source.addEventListener("finished", (e) => (source.close(), console.log("finished", e.data)));
source.addEventListener("canceled", (e) => (source.close(), console.log("canceled", e.data)));
`;
}

// In a query, an input that is JSON text is read as JSON; such a string is sent as JSON, too, to stay a string.
function looksLikeJSON(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** With the client: the document grows, and the promise is of all of it. */
export function client(origin: string, request: RunRequest, keyed = false): string {
  const options = keyed ? `, {\n  headers: { Authorization: "Bearer " + process.env.LINGSERVE_KEY },\n}` : "";
  return `import { run } from "@lingserve/client";

const r = run(${JSON.stringify(origin + "/v1/runs")}, ${indented(plain(request), "")}${options});
r.subscribe("**", (value, uri, done) => {
  if (done && typeof value !== "object") console.log(uri, value);
});
console.log(await r);
`;
}
