// Readers that are published by others. The argument is the address of the load balancer. A job is { client, input }: one run of the
// client's own, read to its end; what goes back is what the client made of it: { text, end }, or what it threw.
import { HttpAgent } from "@ag-ui/client";
import { EventSource } from "eventsource";
import { createInterface } from "node:readline";

const base = process.argv[2];

// State is what a framework around the AI SDK's chat would hold.
class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => (this.messages = this.messages.with(index, structuredClone(message)));
  snapshot = structuredClone;
}

async function chat(name, input) {
  const { AbstractChat, DefaultChatTransport } = await import(name);
  const state = new State();
  class Chat extends AbstractChat {}
  const it = new Chat({ id: `rolling-${name}-${input}`, state, transport: new DefaultChatTransport({ api: `${base}/v1/ui/assistant` }) });
  await it.sendMessage({ text: input });
  const last = state.messages.at(-1);
  if (state.error) throw state.error;
  return { text: last.parts.filter((part) => part.type === "text").map((part) => part.text).join(""), end: state.status };
}

async function completion(name, input) {
  const { OpenAI } = await import(name);
  const client = new OpenAI({ apiKey: "none", baseURL: `${base}/v1` });
  let text = "";
  let end = "";
  for await (const chunk of await client.chat.completions.create({ model: "assistant", messages: [{ role: "user", content: input }], stream: true })) {
    text += chunk.choices[0]?.delta.content ?? "";
    end = chunk.choices[0]?.finish_reason ?? end;
  }
  return { text, end };
}

const readers = {
  // An EventSource comes back by itself, whatever becomes of its connection.
  eventsource: (input) =>
    new Promise((resolve, reject) => {
      const query = new URLSearchParams({ agent: "assistant", input, key: input });
      const source = new EventSource(`${base}/v1/runs?${query}`);
      let text = "";
      let last = -1;
      source.addEventListener("message", (event) => {
        const n = Number(event.lastEventId.split(":")[1]);
        if (n <= last) reject(new Error(`${event.lastEventId} after ${last}`));
        last = n;
        text += JSON.parse(event.data).delta;
      });
      source.addEventListener("finished", (event) => {
        source.close();
        resolve({ text, end: JSON.parse(event.data).status });
      });
      source.addEventListener("error", (event) => {
        if (event.data) return reject(new Error(event.data)); // the server's own
        if (source.readyState === EventSource.CLOSED) reject(new Error(`it has given up: ${event.code} ${event.message}`));
      });
    }),
  ai5: (input) => chat("ai5", input),
  ai6: (input) => chat("ai6", input),
  ai7: (input) => chat("ai7", input),
  openai6: (input) => completion("openai6", input),
  openai7: (input) => completion("openai7", input),
  async agui(input) {
    const agent = new HttpAgent({ url: `${base}/v1/agui/assistant`, threadId: input });
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content: input });
    let failed;
    await agent.runAgent({}, { onRunErrorEvent: ({ event }) => void (failed = event.message) });
    if (failed) throw new Error(failed);
    return { text: agent.messages.at(-1).content, end: "finished" };
  },
  async json(input) {
    const response = await fetch(`${base}/v1/runs`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json", "Idempotency-Key": input },
      body: JSON.stringify({ agent: "assistant", input }),
    });
    const document = await response.json();
    return { text: document.result, end: document.status ?? `${response.status} ${document.detail}` };
  },
};

process.on("unhandledRejection", () => {}); // which AG-UI's client has beside what it throws
for (const level of ["debug", "error", "info", "log", "warn"]) console[level] = () => {};
for await (const line of createInterface({ input: process.stdin })) {
  const { client, input } = JSON.parse(line);
  readers[client](input)
    .catch((error) => ({ text: "", end: "", error: `${error.constructor.name}: ${error.message}` }))
    .then((seen) => process.stdout.write(JSON.stringify({ client, input, ...seen }) + "\n"));
}
