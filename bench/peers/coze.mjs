import { CozeAPI } from "@coze/api";
import { join, serve } from "./peer.mjs";

const client = new CozeAPI({ token: "pat_peer", baseURL: process.argv[2], axiosOptions: { timeout: 10_000 } });

const request = (job) => ({
  bot_id: "7379462189365198898",
  user_id: "peer",
  additional_messages: [{ role: "user", content: "Why is the sky blue?", content_type: "text" }],
  ...job.request,
});

async function read(events, seen) {
  let answer = "";
  for await (const { event, data } of events) {
    // The client hands out strings as enums.
    if (event !== "done" && event !== "error") {
      seen.frames.push({ type: event.startsWith("conversation.chat.") ? "Chat" : "Message", value: structuredClone(data) });
    }
    if ((seen.events ??= []).at(-1) !== event) seen.events.push(event);
    switch (event) {
      case "conversation.message.delta":
        join(seen, "text", data.content);
        join(seen, "reasoning", data.reasoning_content);
        break;
      case "conversation.message.completed":
        switch (data.type) {
          case "answer":
            answer = data.content;
            if (answer !== (seen.text ?? "")) throw new Error(`the answer is ${answer} and not what its deltas were`);
            break;
          case "function_call": {
            const call = JSON.parse(data.content);
            (seen.calls ??= []).push({ id: data.id, name: call.name, arguments: JSON.stringify(call.arguments) });
            break;
          }
          case "tool_response":
            (seen.results ??= []).push(data.content);
            break;
          case "follow_up":
            (seen.questions ??= []).push(data.content);
            break;
          case "verbose":
            JSON.parse(data.content);
            break;
          default:
            throw new Error(`a message of type ${data.type}`);
        }
        break;
      case "conversation.chat.completed":
        seen.usage = { prompt_tokens: data.usage.input_count, completion_tokens: data.usage.output_count, total_tokens: data.usage.token_count };
        break;
      case "conversation.chat.requires_action":
        seen.wanted = data.required_action.submit_tool_outputs.tool_calls.map((call) => ({ id: call.id, ...call.function }));
        seen.chat = [data.conversation_id, data.id];
        break;
      case "conversation.chat.failed":
      case "error":
        seen.error = { type: event, status: (data.last_error ?? data).code, message: (data.last_error ?? data).msg };
        break;
    }
    const { status } = data;
    if (status) seen.finish = status;
  }
}

await serve({
  stream: (job, seen) => read(client.chat.stream(request(job)), seen),

  // An answer that asks for the outputs of tools, and the rest of it.
  async outputs(job, seen) {
    const first = { frames: seen.frames };
    await read(client.chat.stream(request(job)), first);
    const [conversation_id, chat_id] = first.chat;
    const tool_outputs = first.wanted.map((call) => ({ tool_call_id: call.id, output: `${call.name} was called` }));
    await read(client.chat.submitToolOutputs({ conversation_id, chat_id, tool_outputs, stream: true }), seen);
    seen.wanted = first.wanted.map(({ id, name, arguments: text }) => ({ id, name, arguments: text }));
  },

  async whole(job, seen) {
    const chat = await client.chat.create(request(job));
    seen.frames.push({ type: "Chat", value: chat });
    seen.finish = chat.status;
  },

  async abort(job, seen) {
    const aborter = new AbortController();
    for await (const { event, data } of client.chat.stream(request(job), { signal: aborter.signal })) {
      if (event === "conversation.message.delta" && !aborter.signal.aborted) { // what has come meanwhile is still read
        join(seen, "text", data.content);
        const chat = await client.chat.cancel(data.conversation_id, data.chat_id);
        seen.frames.push({ type: "Canceled", value: chat });
        seen.finish = chat.status;
        aborter.abort();
      }
    }
  },
});
