import { Ollama } from "ollama";
import { join, serve } from "./peer.mjs";

const client = new Ollama({ host: process.argv[2] });

const request = (job) => ({ model: "script:8b", messages: [{ role: "user", content: "Why is the sky blue?" }], ...job.request });

function take(seen, part) {
  const { message } = part;
  if (message.role !== "assistant") throw new Error(`a message of ${message.role}`);
  if (Number.isNaN(Date.parse(part.created_at))) throw new Error(`created at ${part.created_at}`);
  join(seen, "text", message.content);
  join(seen, "reasoning", message.thinking);
  for (const call of message.tool_calls ?? []) {
    if (typeof call.function.arguments !== "object") throw new Error("the arguments of a call are no object");
    (seen.calls ??= []).push({ id: call.id ?? "", name: call.function.name, arguments: JSON.stringify(call.function.arguments) });
  }
  if (part.done) {
    seen.finish = part.done_reason;
    seen.usage = {
      prompt_tokens: part.prompt_eval_count,
      completion_tokens: part.eval_count,
      total_tokens: part.prompt_eval_count + part.eval_count,
    };
  }
}

async function read(parts, seen) {
  for await (const part of parts) {
    seen.frames.push({ type: part.done ? "Last" : "Part", value: part });
    take(seen, part);
  }
}

await serve({
  stream: async (job, seen) => read(await client.chat({ ...request(job), stream: true }), seen),

  async whole(job, seen) {
    const answer = await client.chat(request(job));
    seen.frames.push({ type: "Last", value: answer });
    take(seen, answer);
  },

  async abort(job, seen) {
    for await (const part of await client.chat({ ...request(job), stream: true })) {
      if (!seen.text) join(seen, "text", part.message.content); // what has come meanwhile is still read
      client.abort();
    }
  },

  async list(job, seen) {
    const { models } = await client.list();
    for (const model of models) seen.frames.push({ type: "Listed", value: model });
    seen.list = models.map((model) => model.name);
  },
});
