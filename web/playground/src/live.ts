// One run on the page: the client's run, and what the page wants to know of it beside the document.

import { signal } from "@preact/signals";
import { attach, run, type Run, type RunEvent, type RunRequest } from "../../client/src/index.js";
import { Bots, type BotState } from "./bots.js";
import type { Graph } from "./api.js";

/** An event as it is listed. */
export interface Row {
  n: number; // its place in the list, from 0
  at: number; // ms since the run began, as far as this page knows
  event: RunEvent;
}

/** A call of a tool that waits for somebody. */
export interface Question {
  call: string;
  tool: string;
  arguments: unknown;
  expires?: string;
}

/** What is known of a run in this tab, so that a reload loses little. */
export interface Memory {
  request?: RunRequest;
  began: number; // epoch, ms
  first?: number; // ms to the first token
}

/** How many events are kept to be looked at. */
const mostRows = 20_000;

const memoryKey = (id: string) => "lingserve.run." + id;

export class Live {
  readonly run: Run;
  /** Whether it was there before this page was. */
  readonly resumed: boolean;
  /** Is another number after each frame in which something has changed. */
  readonly revision = signal(0);
  readonly connection = signal<{ state: "connecting" | "open" | "waiting"; until?: number }>({ state: "connecting" });
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
  models = new Map<string, string>(); // by bot
  rows: Row[] = [];
  dropped = 0; // rows that are not kept any more
  count = 0;
  questions: Question[] = [];
  errors: any[] = []; // data of error events
  started: any; // data of the first event
  position: number | undefined; // in the queue
  steered: string[] = []; // messages that were given to it while it ran
  followUp: string | undefined;
  reason: string | undefined; // why it was canceled
  readonly complete = new Set<string>();
  readonly bots: Bots;

  #opened = 0;
  #seen = false; // some text has come

  constructor(what: { request: RunRequest } | { id: string }, graph?: Graph) {
    const remembered = "id" in what ? recall(what.id) : undefined;
    this.request = "request" in what ? what.request : remembered?.request;
    this.resumed = "id" in what;
    this.began = remembered?.began ?? Date.now();
    this.first = remembered?.first;
    this.bots = new Bots(graph);
    const options = {
      retries: 1000, // as long as the page is open
      fetch: (url: RequestInfo | URL, init?: RequestInit) => this.#fetch(url, init),
      waiting: (ms: number) => (this.connection.value = { state: "waiting", until: Date.now() + ms }),
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

  /** Whether the value at a uri is complete. */
  readonly done = (uri: string): boolean => this.over || this.complete.has(uri);

  states(): Record<string, BotState> {
    return this.bots.states(this.over, this.over && this.run.status !== "completed");
  }

  /** Ms since the run began. */
  elapsed(now = Date.now()): number {
    return Math.max(0, (this.ended ?? now) - this.began);
  }

  /** Tokens per second while text was coming, and whether that was counted by the models' servers or guessed from the text. */
  rate(): { value: number; guessed: boolean } | undefined {
    const seconds = (this.lastDelta - (this.first ?? 0)) / 1000;
    if (this.first === undefined || seconds < 0.2) return undefined;
    if (this.over && this.tokens.completion > 0) return { value: this.tokens.completion / seconds, guessed: false };
    return { value: this.characters / 4 / seconds, guessed: true };
  }

  answered(call: string): void {
    this.questions = this.questions.filter((q) => q.call !== call);
    this.#changed();
  }

  // The bytes of the stream are counted on their way.
  async #fetch(url: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const stream = !/\/(cancel|approvals\/[^/]*)$/.test(String(url));
    if (!stream) return fetch(url, init);
    this.connection.value = { state: "connecting" };
    const answer = await fetch(url, init);
    if (!answer.ok || !answer.body) return answer;
    this.connection.value = { state: "open" };
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
    this.ended ??= this.over && !this.resumed ? Date.now() : this.ended;
    this.#remember();
    this.#changed();
  }

  #take(event: RunEvent): void {
    const at = Date.now() - this.began;
    this.count++;
    this.rows.push({ n: this.count - 1, at, event });
    if (this.rows.length > mostRows + 1000) {
      this.rows = this.rows.slice(-mostRows);
      this.dropped = this.count - this.rows.length;
    }
    this.bots.take(event);
    if ("event" in event) return this.#named(event.event, event.data);
    if ("done" in event) {
      this.complete.add(event.uri);
      return;
    }
    if (event.delta === null) this.complete.delete(event.uri);
    if (typeof event.delta === "string" && event.delta !== "") {
      this.characters += event.delta.length;
      if (!this.#seen && !this.resumed) this.first = at;
      this.#seen = true;
      this.lastDelta = at;
    }
    // A snapshot has the text in its document; from then on it is counted.
    if (this.resumed && !this.#seen && event.id === undefined) this.#seen = true;
  }

  #named(name: string, data: any): void {
    switch (name) {
      case "started":
        this.started = data;
        this.position = undefined;
        this.#remember();
        break;
      case "queued":
        this.position = data?.position;
        break;
      case "usage":
        this.tokens.prompt += data?.prompt_tokens ?? 0;
        this.tokens.completion += data?.completion_tokens ?? 0;
        if (data?.bot && data.model) this.models.set(data.bot, data.model);
        break;
      case "error":
        this.errors.push(data);
        break;
      case "approval_required":
        this.questions = [...this.questions.filter((q) => q.call !== data?.call), data];
        break;
      case "approval_resolved":
        this.questions = this.questions.filter((q) => q.call !== data?.call);
        break;
      case "follow_up":
        this.followUp = data?.run;
        break;
      case "canceled":
        this.reason = data?.reason;
        break;
    }
    if (name === "finished" || name === "canceled") {
      this.questions = [];
      if (this.#seen || !this.resumed) this.ended ??= Date.now();
    }
  }

  #remember(): void {
    if (!this.id) return;
    try {
      sessionStorage.setItem(memoryKey(this.id), JSON.stringify({ request: this.request, began: this.began, first: this.first } satisfies Memory));
    } catch {} // full, or forbidden
  }

  #changed(): void {
    this.revision.value++;
  }
}

function recall(id: string): Memory | undefined {
  try {
    return JSON.parse(sessionStorage.getItem(memoryKey(id)) ?? "null") ?? undefined;
  } catch {
    return undefined;
  }
}
