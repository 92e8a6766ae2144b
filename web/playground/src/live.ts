// One run on the page: the client's run, and what the page wants to know of it beside the document.

import { signal } from "@preact/signals";
import { attach, run, type EventData, type Run, type RunEvent, type RunRequest } from "../../client/src/index.js";
import { Bots, type BotState, type Times } from "./bots.js";
import { call, type Graph } from "./api.js";
import { keep, kept } from "./storage.js";

/** An event as it is listed. */
export interface Row {
  n: number; // its place in the list, from 0
  at: number; // ms since the run began, as far as this page knows
  event: RunEvent;
}

/** A call of a tool that waits for somebody. */
export interface Question {
  id: string;
  call: string; // the model's id of the call, which it repeats
  subagent?: string; // the call whose subagent makes this one
  tool: string;
  arguments: unknown;
  repeat?: boolean; // it may have run before
  expires?: string;
}

/** A pause before a model is asked once more. */
interface Pause {
  reason: string; // an error's code
  attempt: number; // the number of the next one
  of: number;
  until: number; // epoch ms
}

/** How the connection stands: how often it was not made since it was there last, and when it is tried again, in epoch ms. */
export interface Connection {
  state: "connecting" | "open" | "waiting";
  failed: number;
  until?: number;
}

/** What is known of a run in this tab, so that a reload loses little. */
interface Memory {
  id: string;
  request?: RunRequest;
  began: number; // epoch, ms
  first?: number; // ms to the first token
  last?: number; // and to the newest
  ended?: number; // epoch, ms
  times?: Times; // of its bots
}

const pauseReasons: Record<string, string> = {
  upstream_rate_limited: "rate limited",
  upstream_timeout: "the model took too long",
  upstream_unavailable: "the model is not available",
  overloaded: "the model is not available",
};

/** How many events are kept to be looked at. */
const mostRows = 20_000;

/** For how many halves of a second the pace is kept. */
const mostSlots = 7200;

/** And how many runs are remembered over a reload. */
const mostRemembered = 30;

export class Live {
  readonly run: Run;
  /** Whether it was there before this page was. */
  readonly resumed: boolean;
  /** Is another number after each frame in which something has changed. */
  readonly revision = signal(0);
  readonly connection = signal<Connection>({ state: "connecting", failed: 0 });
  /** How often the connection was made again. */
  readonly reconnects = signal(0);

  request: RunRequest | undefined;
  began: number; // epoch, ms
  ended: number | undefined;
  first: number | undefined; // ms from the beginning to the first token; undefined where that was not seen
  lastDelta = 0; // the same to the newest
  characters = 0; // of text that was seen coming
  bytes = 0; // on the wire
  tokens = { prompt: 0, completion: 0 };
  /** What it has cost so far, in millionths of a dollar; 0 where that is not known. */
  cost = 0;
  models = new Map<string, string>(); // by bot
  rows: Row[] = [];
  dropped = 0; // rows that are not kept any more
  count = 0;
  questions: Question[] = [];
  denied = new Map<string, string>(); // why calls of tools were not allowed to run, by their ids
  pauses = new Map<string, Pause>(); // the last one of each bot
  errors: any[] = []; // data of error events
  started: any; // data of the first event
  position: number | undefined; // in the queue
  waitsFor: string | undefined; // `slot` where it waits for other sessions
  expected: number | undefined; // seconds
  steered: string[] = []; // messages that were given to it while it ran
  /** It is over, and all that it has told is here: events come a little later than the run's end is known. */
  settled = false;
  anchors: string[] = []; // that it has left what was said behind, by name
  followUp: string | undefined;
  reason: string | undefined; // why it was canceled
  /** How often it went on after its server was lost, what was taken back the last time, by uri, and when this page knew, in epoch ms. */
  restarted: { times: number; parts: string[]; at: number } | undefined;
  readonly complete = new Set<string>();
  readonly bots: Bots;

  readonly #pace: number[] = []; // characters that came in each half of a second
  #opened = 0;
  #held: number | undefined; // ms to when it began to wait, for a person or in a queue
  #waited = 0; // ms that it has waited so far
  #came: number | undefined; // ms to the first event
  #flows = 0; // ms to the first text that is counted
  #remembered = 0; // ms to when it was remembered last; writing that takes time

  constructor(what: { request: RunRequest } | { id: string }, graph?: Graph) {
    const remembered = "id" in what ? memories().find((m) => m.id === what.id) : undefined;
    this.request = "request" in what ? what.request : remembered?.request;
    this.resumed = "id" in what;
    this.began = remembered?.began ?? Date.now();
    this.first = remembered?.first;
    this.lastDelta = remembered?.last ?? 0;
    this.ended = remembered?.ended;
    this.bots = new Bots(graph, remembered?.times);
    const options = {
      retries: 1000, // as long as the page is open
      fetch: (url: RequestInfo | URL, init?: RequestInit) => this.#fetch(url, init),
      waiting: (ms: number) => (this.connection.value = { ...this.connection.peek(), state: "waiting", until: Date.now() + ms }),
    };
    this.run = "id" in what ? attach("/v1/runs", what.id, options) : run("/v1/runs", what.request, options);
    this.run.catch(() => {}); // run.error has it
    this.run.watch(() => this.#changed());
    void this.#read();
  }

  get id(): string | undefined {
    return this.run.id;
  }

  get over(): boolean {
    return this.run.status !== "running";
  }

  /** Whether the value at a uri is complete, with all that is in it: other bots may write in what the bot around them has ended. */
  readonly done = (uri: string): boolean => this.over || (this.complete.has(uri) && !this.bots.writesBelow(uri));

  /** Whether something of its document is here. */
  get reached(): boolean {
    const value = this.run.document;
    return typeof value === "string" ? value !== "" : typeof value === "object" && value !== null && Object.keys(value).length > 0;
  }

  /** Whether it is not being followed just now. A first try is no news. */
  get disconnected(): boolean {
    const { state, failed } = this.connection.value;
    return !this.over && state !== "open" && !(state === "connecting" && failed <= 1 && this.count === 0);
  }

  states(): Record<string, BotState> {
    const { status } = this.run;
    return this.bots.states(status === "running" ? undefined : status === "completed" ? "done" : status === "failed" ? "failed" : "stopped");
  }

  /** Says why a bot's model is not asked at this moment, and when it will be; "" if the bot does not pause. */
  pauseOf(bot: string, now = Date.now()): string {
    const pause = this.pauses.get(bot);
    const left = pause && !this.over ? Math.ceil((pause.until - now) / 1000) : 0;
    return pause && left > 0 ? `${pauseReasons[pause.reason] ?? "the model failed"}, next try in ${left} s (${pause.attempt} of ${pause.of})` : "";
  }

  /** Ms since the run began. */
  elapsed(now = Date.now()): number {
    return Math.max(0, (this.ended ?? now) - this.began);
  }

  /** Tokens per second while text was coming, and whether that was counted by the models' servers or guessed from the text. */
  rate(): { value: number; guessed: boolean } | undefined {
    if (this.over && this.tokens.completion > 0 && this.first !== undefined) return rateOf(this.tokens.completion, this.lastDelta - this.#waited - this.first, false);
    return rateOf(this.characters / 4, this.lastDelta - this.#flows, true);
  }

  /** How much text came, from the beginning of the run to now, in at most so many steps of the same length. */
  pace(most: number): number[] {
    const per = Math.max(1, Math.ceil(this.#pace.length / most));
    const out: number[] = [];
    for (let from = 0; from < this.#pace.length; from += per) {
      let sum = 0;
      for (let i = from; i < from + per; i++) sum += this.#pace[i] ?? 0;
      out.push(sum / per);
    }
    return out;
  }

  /** Whether a call of a tool waits for somebody. */
  asks(call: { id?: string; result?: unknown }): boolean {
    return call.result === undefined && this.questions.some((q) => !q.subagent && q.call === call.id);
  }

  answered(id: string): void {
    this.questions = this.questions.filter((q) => q.id !== id);
    this.#changed();
  }

  // The bytes of the stream are counted on their way.
  async #fetch(url: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const stream = !/\/(cancel|approvals\/[^/]*)$/.test(String(url));
    if (!stream) return call(url, init);
    const { failed } = this.connection.peek();
    this.connection.value = { state: "connecting", failed: failed + 1 }; // until it is there
    const answer = await call(url, init);
    if (!answer.ok || !answer.body) return answer;
    this.connection.value = { state: "open", failed: 0 };
    if (this.#opened++ > 0) this.reconnects.value++;
    const count = new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, out) => {
        this.bytes += chunk.byteLength;
        out.enqueue(chunk);
      },
    });
    return new Response(answer.body.pipeThrough(count), { status: answer.status, headers: answer.headers });
  }

  async #read(): Promise<void> {
    try {
      for await (const event of this.run) this.#take(event);
    } catch {
      // run.error says why
    }
    this.settled = true;
    if (this.over && !this.resumed) this.ended ??= Date.now();
    this.#remember();
    this.#changed();
  }

  #take(event: RunEvent): void {
    const at = Date.now() - this.began;
    this.#came ??= at;
    this.count++;
    this.rows.push({ n: this.count - 1, at, event });
    if (this.rows.length > mostRows + 1000) {
      this.rows = this.rows.slice(-mostRows);
      this.dropped = this.count - this.rows.length;
    }
    this.bots.take(event, this.#catchingUp(at) ? undefined : at);
    if ("event" in event) return this.#named(event.event, event.data, at);
    if ("done" in event) {
      this.complete.add(event.uri);
      return;
    }
    this.position = undefined; // it waits no more
    this.#hold(at);
    if (event.delta === null) this.#reopen(event.uri);
    if (typeof event.delta === "string" && event.delta !== "") {
      if (!this.resumed && this.first === undefined) {
        this.first = at - this.#waited;
        this.#remember();
      }
      if (this.#catchingUp(at)) return;
      if (this.characters === 0) this.#flows = at;
      this.characters += event.delta.length;
      const slot = Math.floor(at / 500);
      if (slot < mostSlots) this.#pace[slot] = (this.#pace[slot] ?? 0) + event.delta.length;
      this.lastDelta = at;
    }
  }

  // What comes at once when a run is attached to was there before: when it came, nobody here knows.
  #catchingUp(at: number): boolean {
    return this.resumed && at - this.#came! < 100;
  }

  #named(name: string, data: any, at: number): void {
    switch (name) {
      case "started":
        this.started = data;
        this.position = undefined;
        this.#remember();
        break;
      case "restarted":
        this.#restart(data);
        break;
      case "bot":
        if (at - this.#remembered > 1000) this.#remember();
        break;
      case "queued":
      case "waiting":
        this.position = data?.position || undefined; // 0: it begins
        this.waitsFor = data?.for;
        this.expected = data?.expected;
        break;
      case "usage":
        this.tokens.prompt += data?.prompt_tokens ?? 0;
        this.tokens.completion += data?.completion_tokens ?? 0;
        this.cost += data?.cost ?? 0;
        if (data?.bot && data.model) this.models.set(data.bot, data.model);
        break;
      case "retrying":
        // Nobody knows how much is left of a pause that began before this page read the run.
        if (!this.#catchingUp(at)) this.pauses.set(data.bot, { ...data, until: Date.now() + data.seconds * 1000 });
        break;
      case "error":
        this.errors.push(data);
        break;
      case "approval_required":
        this.questions = [...this.questions.filter((q) => q.id !== data?.id), data];
        break;
      case "approval_resolved":
        this.questions = this.questions.filter((q) => q.id !== data?.id);
        if (data?.decision === "deny" && !data.subagent) this.denied.set(data.call, data.reason === "timeout" ? "no answer in time" : "denied");
        break;
      case "handoff":
        if (typeof data?.name === "string") this.anchors.push(data.name);
        break;
      case "follow_up":
        this.followUp = data?.run;
        break;
      case "canceled":
        this.reason = data?.reason;
        break;
    }
    this.#hold(at);
    if (name === "finished" || name === "canceled") {
      this.questions = [];
      if (!this.#catchingUp(at)) this.ended ??= Date.now();
    }
  }

  // What is not known any more is told again: the questions, and what the bots do that begin again.
  #restart({ attempt, bots, parts }: EventData["restarted"]): void {
    this.restarted = { times: attempt - 1, parts, at: Date.now() };
    this.questions = [];
    for (const uri of [...parts, ...bots.map((b) => b.root)]) this.#reopen(uri);
    const again = new Set(bots.map((b) => b.bot));
    for (const bot of again) this.pauses.delete(bot);
    this.errors = this.errors.filter((e) => !again.has(e.bot));
  }

  // A value that is written again is not complete any more, nor is what is in it.
  #reopen(uri: string): void {
    this.complete.delete(uri);
    if (uri !== "") uri += "/";
    for (const done of this.complete) if (done.startsWith(uri)) this.complete.delete(done);
  }

  // Takes the time in which it waits for a person or in a queue: no model has that time to answer.
  #hold(at: number): void {
    const waits = this.questions.length > 0 || this.position !== undefined;
    if (waits) this.#held ??= at;
    else if (this.#held !== undefined) {
      this.#waited += at - this.#held;
      this.#held = undefined;
    }
  }

  #remember(): void {
    if (!this.id) return;
    this.#remembered = Date.now() - this.began;
    const memory: Memory = { id: this.id, request: this.request, began: this.began, first: this.first, last: this.lastDelta || undefined, ended: this.ended, times: this.bots.times() };
    keep("session", "runs", [...memories().filter((m) => m.id !== this.id), memory].slice(-mostRemembered));
  }

  #changed(): void {
    this.revision.value++;
  }
}

function rateOf(tokens: number, ms: number, guessed: boolean): { value: number; guessed: boolean } | undefined {
  return tokens > 0 && ms >= 200 ? { value: tokens / (ms / 1000), guessed } : undefined;
}

function memories(): Memory[] {
  const all = kept<Memory[]>("session", "runs");
  return Array.isArray(all) ? all : [];
}
