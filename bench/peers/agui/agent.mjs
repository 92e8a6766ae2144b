// AG-UI's agents, as a page has them. The argument is the server's address.
import { HttpAgent, runHttpRequest, transformHttpEventStream } from "@ag-ui/client";
import { serve } from "../peer.mjs";

const [, , base] = process.argv;

// Page is an agent that can come back to its thread. The client has a method for that, and leaves what it asks to its users.
class Page extends HttpAgent {
  connect() {
    return transformHttpEventStream(
      runHttpRequest(() => this.fetch(`${this.url}/${encodeURIComponent(this.threadId)}`, { headers: { Accept: "text/event-stream" }, signal: this.abortController.signal })),
    );
  }
}

const agents = new Map();

// watch notes what an agent is told. abort ends a run when so many texts have come.
function watch(seen, agent, abort) {
  seen.events = [];
  seen.notes = [];
  seen.answers = [];
  const { fetch: ask } = agent;
  agent.fetch = async (...args) => {
    const response = await ask(...args);
    seen.run = response.headers.get("x-run-id") ?? "";
    seen.answers.push(response.status);
    return response;
  };
  return {
    onEvent({ event }) {
      if (seen.events.at(-1) !== event.type) seen.events.push(event.type);
      if (event.type === "TEXT_MESSAGE_CONTENT" && abort && --abort === 0) agent.abortRun();
    },
    onCustomEvent: ({ event }) => void seen.notes.push({ name: event.name, value: event.value }),
    onRunErrorEvent: ({ event }) => void (seen.failed = { message: event.message, code: event.code ?? "" }),
    onRunFinishedEvent: ({ outcome, event }) => void ((seen.outcome = outcome), (seen.usage = event.usage ?? [])),
  };
}

// take lets an agent do something, and notes what it has then; an error of the client is what it has, too.
async function take(agent, seen, abort, what) {
  const before = agent.fetch;
  try {
    const { result } = await what(watch(seen, agent, abort));
    seen.result = JSON.stringify(result ?? null);
  } catch (error) {
    seen.rejected = { message: String(error.message), status: error.status ?? 0, code: error.payload?.code ?? "" };
  }
  agent.fetch = before;
  seen.state = JSON.stringify(agent.state);
  seen.messages = agent.messages;
  seen.interrupts = agent.pendingInterrupts;
}

const parameters = ({ resume, tools, context, forwardedProps }) => ({ resume, tools, context, forwardedProps });

function run(job, seen, agent = agents.get(job.thread)) {
  if (job.text !== undefined) agent.addMessage({ id: crypto.randomUUID(), role: "user", content: job.text });
  return take(agent, seen, job.abort, (subscriber) => agent.runAgent(parameters(job), subscriber));
}

await serve({
  // open makes an agent: { thread, path, base, state, query }.
  open(job) {
    agents.set(job.thread, new Page({ url: `${job.base ?? base}/v1/agui/${job.path}`, threadId: job.thread, initialState: job.state }));
  },

  run,

  // rejoin is a page that was loaded anew.
  rejoin(job, seen) {
    const agent = new Page({ url: agents.get(job.thread).url, threadId: job.thread });
    agents.set(job.thread, agent);
    return take(agent, seen, 0, (subscriber) => agent.connectAgent({}, subscriber));
  },

  // both runs two agents at the same time, and both have to be told all of their own.
  async both(job, seen) {
    const all = job.threads.map((thread) => ({ thread }));
    await Promise.all(all.map((part) => run({ ...job, thread: part.thread, text: part.thread }, part)));
    seen.parts = all;
  },

  // begin starts a run and does not wait; end waits for it.
  async begin(job, seen) {
    const agent = agents.get(job.thread);
    let begun;
    const first = new Promise((resolve) => (begun = resolve));
    agent.later = { events: [] };
    const { unsubscribe } = agent.subscribe({ onTextMessageContentEvent: () => void begun() });
    agent.ends = run(job, agent.later).then(() => (begun(), unsubscribe()));
    await first;
    seen.run = agent.later.run;
  },
  async end(job, seen) {
    const agent = agents.get(job.thread);
    await agent.ends;
    Object.assign(seen, agent.later);
  },
});
