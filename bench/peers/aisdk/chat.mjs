// The AI SDK's chat, without a framework around it. Arguments: the package, "ai5" to "ai7", and the server's address.
import { serve } from "../peer.mjs";

const [, , name, base] = process.argv;
const { AbstractChat, DefaultChatTransport, ...ai } = await import(name);

// State is what React or Vue would hold.
class State {
  status = "ready";
  error = undefined;
  messages = [];
  statuses = [];
  constructor(messages) {
    this.messages = messages;
    let status = "ready";
    Object.defineProperty(this, "status", {
      get: () => status,
      set: (next) => {
        status = next;
        this.statuses.push(next);
      },
    });
  }
  pushMessage = (message) => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => (this.messages = this.messages.with(index, structuredClone(message)));
  snapshot = structuredClone;
}

class Chat extends AbstractChat {}

const chats = new Map();

// open makes a chat: { id, path, base, messages, headers, body, short, cut, automatically }. short sends
// the last message only. cut breaks the first answer off, as a network does that goes away, when so many bytes
// of it have come.
function open(job) {
  const chat = { state: new State(job.messages ?? []), data: [], errors: [], calls: 0, requests: [] };
  let cut = job.cut;
  const transport = new DefaultChatTransport({
    api: (job.base ? `http://${job.base}` : base) + job.path,
    headers: job.headers,
    body: job.body,
    prepareSendMessagesRequest: job.short && (({ id, messages, trigger, messageId }) => ({ body: { id, messages: messages.slice(-1), trigger, messageId } })),
    fetch: async (url, init) => {
      const response = await fetch(url, init);
      chat.requests.push(`${init.method} ${new URL(url).pathname}${new URL(url).search} ${response.status}`);
      if (!cut || !response.body) return response;
      let left = cut;
      cut = 0;
      const reader = response.body.getReader();
      const body = new ReadableStream({
        async pull(controller) {
          if (left <= 0) { // later, since an error goes before what is not read yet
            await reader.cancel();
            await new Promise((resolve) => setTimeout(resolve, 100));
            return controller.error(new TypeError("network error"));
          }
          const { done, value } = await reader.read();
          if (done) return controller.close();
          left -= value.length;
          controller.enqueue(value);
        },
      });
      return new Response(body, { status: response.status, headers: response.headers });
    },
  });
  chat.it = new Chat({
    id: job.id,
    state: chat.state,
    transport,
    onData: (part) => chat.data.push(part),
    onError: (error) => chat.errors.push(error.message),
    onToolCall: () => chat.calls++,
    onFinish: ({ message, messages, ...how }) => (chat.finish = how),
    sendAutomaticallyWhen: job.automatically && ai[job.automatically],
  });
  chats.set(job.id, chat);
  return chat;
}

// until waits until something holds that a chat's state says.
async function until(holds) {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}

const texts = (message) => (message?.parts ?? []).filter((part) => part.type === "text").map((part) => part.text).join("");

function tell(chat, seen) {
  const { state } = chat;
  Object.assign(seen, {
    status: state.status,
    statuses: state.statuses,
    failed: state.error?.message ?? "",
    code: state.error?.statusCode ?? 0,
    messages: state.messages,
    data: chat.data,
    calls: chat.calls,
    finish: chat.finish ?? {},
    requests: chat.requests,
  });
}

const does = {
  open,

  // send says something, and waits for the answer.
  send: (job, chat) => chat.it.sendMessage(job.message ?? { text: job.text, messageId: job.messageId }),

  // begin says something and waits only until the answer has this many characters, or a part of this type.
  async begin(job, chat) {
    chat.running = chat.it.sendMessage({ text: job.text });
    const last = () => chat.state.messages.at(-1);
    await until(() =>
      chat.state.status === "error" ||
      last()?.role === "assistant" && (job.part ? last().parts.some((part) => part.type === job.part) : texts(last()).length >= job.characters));
  },

  rest: (job, chat) => chat.running,
  stop: (job, chat) => chat.it.stop(),
  resume: (job, chat) => chat.it.resumeStream(),
  regenerate: (job, chat) => chat.it.regenerate({ messageId: job.messageId }),

  // approve answers the first question that waits; what the chat does then by itself is waited for.
  async approve(job, chat) {
    const part = chat.state.messages.at(-1).parts.find((part) => part.state === "approval-requested");
    const before = chat.requests.length;
    await chat.it.addToolApprovalResponse({ id: part.approval.id, approved: job.approved, reason: job.reason });
    if (job.manually) await chat.it.sendMessage();
    else if (job.settled !== false) await until(() => chat.requests.length > before && ["ready", "error"].includes(chat.state.status));
  },

  // several sends in as many chats at once.
  async together(job) {
    await Promise.all(job.chats.map((one) => open({ ...job, ...one }).it.sendMessage({ text: one.text })));
    return (seen) => (seen.answers = job.chats.map(({ id }) => texts(chats.get(id).state.messages.at(-1))));
  },

  // object reads a document as useObject does: each piece of text is parsed with what came before.
  async object(job) {
    const response = await fetch(base + job.path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(job.input) });
    let text = "", object, pieces = 0, broken = "";
    try {
      for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
        text += piece;
        pieces++;
        const { value, state } = await ai.parsePartialJson(text);
        if (response.ok && state === "failed-parse") throw new Error(`cannot be parsed: ${text.slice(-100)}`);
        object = value;
      }
    } catch (error) {
      broken = String(error.message);
    }
    return (seen) => Object.assign(seen, { object: { status: response.status, run: response.headers.get("x-run-id") ?? "", text, value: object, pieces, broken } });
  },

  async get(job) {
    const response = await fetch(base + job.path);
    return async (seen) => (seen.got = await response.json());
  },
};

const job = async (job, seen) => {
  const chat = job.do === "open" ? open(job) : chats.get(job.id);
  const more = job.do === "open" ? undefined : await does[job.do](job, chat);
  if (typeof more === "function") await more(seen);
  if (chat) tell(chat, seen);
};

await serve(Object.fromEntries(Object.keys(does).map((name) => [name, job])));
