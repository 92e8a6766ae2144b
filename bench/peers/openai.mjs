import { AzureOpenAI, OpenAI } from "openai";
import { join, serve } from "./peer.mjs";

const base = process.argv[2];
const client = new OpenAI({ apiKey: "sk-peer", baseURL: `${base}/v1`, timeout: 10_000 });
const azure = new AzureOpenAI({ apiKey: "azure-peer", endpoint: base, apiVersion: "2024-10-21", deployment: "gpt-script", timeout: 10_000 });

const request = (job) => ({ model: "gpt-script", messages: [{ role: "user", content: "Why is the sky blue?" }], ...job.request });
const stream = (job, by = client) =>
  by.chat.completions.create({ ...request(job), stream: true, stream_options: { include_usage: true } });

// calls joins the parts of tool calls by their index.
function calls(seen, parts) {
  for (const part of parts ?? []) {
    const call = ((seen.calls ??= [])[part.index] ??= { id: "", name: "", arguments: "" });
    call.id += part.id ?? "";
    call.name += part.function?.name ?? "";
    call.arguments += part.function?.arguments ?? "";
  }
}

function message(seen, completion) {
  seen.frames.push({ type: "Completion", value: completion });
  const { message, finish_reason } = completion.choices[0];
  join(seen, "text", message.content);
  join(seen, "reasoning", message.reasoning_content);
  seen.calls = message.tool_calls?.map((call) => ({ id: call.id, name: call.function.name, arguments: call.function.arguments }));
  seen.finish = finish_reason;
  seen.usage = completion.usage;
}

async function read(chunks, seen, type = "Chunk") {
  const ids = new Set();
  for await (const chunk of chunks) {
    if (type === "AzureChunk" && chunk.prompt_filter_results) { // what Azure's filter says of the question, before the answer
      seen.frames.push({ type: "AzureFilter", value: chunk });
      continue;
    }
    seen.frames.push({ type, value: chunk });
    ids.add(`${chunk.id} ${chunk.created}`);
    if (ids.size > 1) throw new Error("the chunks of an answer have different ids");
    if (chunk.usage) {
      if (chunk.choices.length > 0) throw new Error("the usage comes with choices");
      seen.usage = chunk.usage;
    }
    for (const { delta, finish_reason } of chunk.choices) {
      join(seen, "text", delta.content);
      join(seen, "reasoning", delta.reasoning_content);
      calls(seen, delta.tool_calls);
      if (finish_reason) seen.finish = finish_reason;
    }
  }
}

async function list(client, type, seen) {
  seen.list = [];
  for await (const model of client.models.list()) {
    seen.frames.push({ type, value: model });
    seen.list.push(model.id);
  }
}

const ours = new OpenAI({ apiKey: "none", baseURL: `${base}/lingserve/v1`, timeout: 10_000 });

await serve({
  stream: async (job, seen) => read(await stream(job), seen),
  azure: async (job, seen) => read(await stream(job, azure), seen, "AzureChunk"),

  // The client's own joining of a stream.
  async helper(job, seen) {
    const events = client.chat.completions.stream({ ...request(job), stream_options: { include_usage: true } });
    events.on("content.delta", ({ delta }) => join(seen, "heard", delta));
    events.on("tool_calls.function.arguments.done", ({ name, arguments: text }) => join(seen, "heard", `${name}${text};`));
    const { frames } = seen;
    message(seen, await events.finalChatCompletion());
    seen.frames = frames.slice(0, 0); // joined by the client, so not the server's any more
  },

  async whole(job, seen) {
    message(seen, await client.chat.completions.create(request(job)));
  },

  async leave(job, seen) {
    for await (const chunk of await stream(job)) {
      if (chunk.choices[0]?.delta.content) {
        join(seen, "text", chunk.choices[0].delta.content);
        break;
      }
    }
  },

  async abort(job, seen) {
    const chunks = await stream(job);
    for await (const chunk of chunks) {
      if (chunk.choices[0]?.delta.content && !chunks.controller.signal.aborted) { // what has come meanwhile is still read
        join(seen, "text", chunk.choices[0].delta.content);
        chunks.controller.abort();
      }
    }
  },

  list: (job, seen) => list(client, "Model", seen),
  lingserve: (job, seen) => list(ours, "Ours", seen),

  // What Lingserve answers itself; what it says is looked at elsewhere.
  async completion(job, seen) {
    const answer = await ours.chat.completions.create({ ...request(job), model: "demo:demo" });
    seen.frames.push({ type: "Completion", value: answer });
    seen.finish = answer.choices[0].finish_reason;
  },
  async chunks(job, seen) {
    const body = { ...request(job), model: "demo:demo", stream: true, stream_options: { include_usage: true } };
    for await (const chunk of await ours.chat.completions.create(body)) {
      seen.frames.push({ type: "Chunk", value: chunk });
      seen.finish = chunk.choices[0]?.finish_reason ?? seen.finish;
    }
  },
});
