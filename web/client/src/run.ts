import { Fold, isContainer, member } from "./fold.js";
import type { JSONValue } from "./fold.js";
import { frames } from "./sse.js";
import { RunError } from "./types.js";
import type { EventData, EventSourceLike, Growing, NamedEvent, PatternIn, RunEvent, RunOptions, RunRequest, RunStatus, ServerEvent, ValueAt } from "./types.js";
import { escape, parseURI, Pattern, split } from "./uri.js";
import type { States } from "./uri.js";

/** Called with a changed value, its uri, and whether it is complete. A value that is replaced is null in between. */
export type Subscriber<V = JSONValue> = (value: V | null, uri: string, done: boolean) => void;

interface Subscription {
  pattern: Pattern;
  fn: (value: any, uri: string, done: boolean) => void; // subscribe has its type
  // What it was told last; undefined before the first time.
  document?: unknown;
  reserved?: Readonly<Record<string, unknown>>;
}

type EndEvent = Extract<ServerEvent, { event: "finished" | "canceled" }>;

interface Reader {
  waiting: RunEvent[];
  most: number; // so many may wait
  wake?: () => void;
}

/** How many events wait for a reader before a snapshot stands for them. */
const mostWaiting = 10_000;
/** The longest pause between two tries, in ms. */
const longestPause = 30_000;

// The server's events that EventSource must be told to listen for; "error" is listened for anyway.
const named = "started restarted finished canceled bot usage queued waiting approval_required approval_resolved retrying handoff warning follow_up html".split(" ");

/**
 * One run of a workflow or agent, followed to its end. It is a promise of the final document, an async iterator of its
 * events, and a live view of the document.
 */
export class Run<T = JSONValue, E extends NamedEvent = never> implements PromiseLike<T>, AsyncIterable<RunEvent<E>> {
  readonly #base: string;
  readonly #query: string;
  readonly #request: RunRequest | undefined; // undefined of a run that is attached to
  readonly #options: RunOptions;
  readonly #key: string;

  #id: string | undefined;
  #status: RunStatus = "running";
  #error: RunError | undefined;
  #failure: EventData["error"] | undefined; // data of the error event that is why it fails, if it does
  readonly #fold = new Fold();

  #last = ""; // id of the last event
  #held: RunEvent[] = []; // parts of a snapshot, which counts as a whole
  #retry = 1000;
  #drop: () => void = () => {}; // breaks the connection or the pause at hand
  #canceling: Promise<void> | undefined;

  #begun: RunEvent | undefined;
  #ended: EndEvent | undefined;
  readonly #subscriptions = new Set<Subscription>();
  readonly #watchers = new Set<() => void>();
  readonly #readers = new Set<Reader>();
  #complete = new Set<string>(); // uris that everybody was told are done
  #fresh = new Set<string>(); // and those that are done since
  #frame: (() => void) | undefined; // calls the next frame off

  #smooth: RunEvent[] = []; // what has come and is not shown yet
  #behind = 0; // characters in it

  readonly #promise: Promise<T>;
  #resolve!: (document: T) => void;
  #reject!: (reason: unknown) => void;
  readonly #known: Promise<void>;
  #know!: () => void;

  /** @internal */
  constructor(url: string, request: RunRequest | undefined, id: string | undefined, options: RunOptions = {}) {
    const mark = url.indexOf("?");
    this.#base = (mark < 0 ? url : url.slice(0, mark)).replace(/\/$/, "");
    this.#query = mark < 0 ? "" : url.slice(mark + 1);
    this.#request = request && { done: true, ...request };
    this.#options = options;
    this.#key = options.key ?? crypto.getRandomValues(new Uint32Array(4)).join("-");
    this.#promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#known = new Promise((resolve) => (this.#know = resolve));
    this.#identify(id);
    const { signal } = options;
    if (signal?.aborted) {
      this.#promise.catch(() => {});
      this.close(signal.reason);
    } else {
      const stop = () => this.close(signal!.reason);
      signal?.addEventListener("abort", stop);
      // A signal may live longer than any run.
      this.#promise.catch(() => {}).then(() => signal?.removeEventListener("abort", stop));
      void this.#follow();
    }
  }

  /** The run's id, as soon as it is known. */
  get id(): string | undefined {
    return this.#id;
  }

  get status(): RunStatus {
    return this.#status;
  }

  /** The reason why it did not complete. */
  get error(): RunError | undefined {
    return this.#error;
  }

  /** The document so far. It is immutable; later documents share its unchanged parts. */
  get document(): Growing<T> {
    return this.#fold.document as Growing<T>;
  }

  /** Values beside the document, by uri: `$reasoning_context`, `$tools/0`, `$tool_results/0`. */
  get reserved(): Readonly<Record<string, JSONValue>> {
    return this.#fold.reserved as Record<string, JSONValue>;
  }

  then<A = T, B = never>(onDone?: ((document: T) => A | PromiseLike<A>) | null, onError?: ((reason: any) => B | PromiseLike<B>) | null): Promise<A | B> {
    return this.#promise.then(onDone, onError);
  }

  catch<B = never>(onError?: ((reason: any) => B | PromiseLike<B>) | null): Promise<T | B> {
    return this.#promise.catch(onError);
  }

  finally(onEnd?: (() => void) | null): Promise<T> {
    return this.#promise.finally(onEnd);
  }

  /**
   * All events, as they arrive. A reader that begins late or falls far behind gets a snapshot first: the document as one
   * delta at the root. It ends after `finished` or `canceled`, and throws if the client could not follow the run to there.
   * To leave the loop neither cancels the run nor stops following it.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<RunEvent<E>, void, undefined> {
    const reader: Reader = { waiting: this.#begun || this.#ended ? this.#snapshot() : [], most: mostWaiting };
    if (this.#ended) reader.waiting.push(this.#ended);
    this.#readers.add(reader);
    try {
      for (;;) {
        const batch = reader.waiting;
        reader.waiting = [];
        yield* batch as RunEvent<E>[];
        if (reader.waiting.length > 0) continue;
        if (this.#ended) return;
        if (this.#error) throw this.#error;
        await new Promise<void>((wake) => (reader.wake = wake));
      }
    } finally {
      this.#readers.delete(reader);
    }
  }

  /**
   * Calls fn for each value whose uri matches the pattern, once per animation frame in which it has changed, and once more
   * when it is complete, and also for existing values. In a frame, changed values come first, in document order, and then
   * values that only became complete. Returns a function that ends the subscription.
   */
  subscribe<P extends string>(pattern: P & PatternIn<T, P>, fn: Subscriber<Growing<ValueAt<T, P>>>): () => void {
    const subscription: Subscription = { pattern: new Pattern(pattern), fn };
    this.#subscriptions.add(subscription);
    if (this.#begun || this.#ended) this.#schedule();
    return () => this.#subscriptions.delete(subscription);
  }

  /** Calls fn once per animation frame in which the run has changed. */
  watch(fn: () => void): () => void {
    this.#watchers.add(fn);
    return () => this.#watchers.delete(fn);
  }

  /** Cancels the run on the server, which keeps the document so far. Resolves when the server has accepted that. */
  cancel(): Promise<void> {
    return (this.#canceling ??= this.#cancel().catch((error) => {
      this.#canceling = undefined; // it may be tried again
      throw error;
    }));
  }

  async #cancel(): Promise<void> {
    await this.#known;
    if (this.#status !== "running") return;
    await this.#post("cancel").catch((error) => {
      if (error.status !== 409) throw error; // it has ended meanwhile
    });
  }

  /**
   * Answers an `approval_required` event, by its `id`. The model reads `reason`. With `remember` the
   * tool does not ask again in this session. Rejects with `conflict` if the call was answered before or has expired.
   */
  async approve(id: string, decision: "approve" | "deny" = "approve", more?: { reason?: string; remember?: "session" }): Promise<void> {
    await this.#known;
    await this.#post("approvals/" + encodeURIComponent(id), { decision, ...more });
  }

  async #post(path: string, body?: object): Promise<void> {
    if (!this.#id) throw this.#error; // it never began
    const headers = await this.#headers();
    if (body) headers.set("Content-Type", "application/json");
    const answer = await this.#fetch(`${this.#at()}/${path}`, { method: "POST", headers, body: body && JSON.stringify(body) });
    if (!answer.ok) throw await problem(answer);
  }

  /** Stops following the run. The run continues, unless its request has `on_disconnect: "cancel"`. */
  close(reason?: unknown): void {
    this.#stop(new RunError("closed", "the run is no longer followed", { cause: reason }), reason);
  }

  // The transports.

  async #follow(): Promise<void> {
    for (let tries = 0; this.#status === "running"; ) {
      const before = this.#last;
      let cause: unknown, after: number | undefined;
      try {
        await (this.#options.transport === "eventsource" ? this.#listen() : this.#connect());
      } catch (error) {
        // Who comes back to a run that goes on has only to wait while the server has too much to do.
        if (error instanceof RunError && !(this.#last && (after = error.retryAfter))) return this.#stop(error);
        cause = error;
      }
      if (this.#status !== "running") return;
      if (this.#canceling && !this.#id) return this.#stop(new RunError("canceled", "the run was canceled before it began"));
      tries = this.#last === before ? tries + 1 : 1;
      if (tries > (this.#options.retries ?? 10)) {
        return this.#stop(new RunError("unreachable", this.#last ? "the connection broke; the run may continue" : "the server cannot be reached", { cause, retryable: true }));
      }
      // Never at once, and not all at the same time: who was cut off by a restart was not the only one.
      const pause = Math.max(Math.min(longestPause, this.#retry * 2 ** (tries - 1)) * (0.5 + Math.random() / 2), 1000 * (after ?? 0));
      call(() => this.#options.waiting?.(pause));
      await new Promise<void>((go) => {
        const timer = setTimeout(go, pause);
        this.#drop = () => (clearTimeout(timer), go());
      });
    }
  }

  // One connection, until it breaks. It throws a RunError where another would not help.
  async #connect(): Promise<void> {
    const abort = new AbortController();
    this.#drop = () => abort.abort();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let keepalive: string | null | undefined; // seconds
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => abort.abort(), this.#options.idle ?? 2500 * (Number(keepalive) || 10));
    };
    try {
      alive();
      const headers = await this.#headers();
      headers.set("Accept", "text/event-stream");
      if (this.#last) headers.set("Last-Event-ID", this.#last);
      if (this.#request) {
        headers.set("Content-Type", "application/json");
        headers.set("Idempotency-Key", this.#key);
      }
      const answer = await this.#fetch(this.#url(), {
        method: this.#request ? "POST" : "GET",
        headers,
        body: this.#request && JSON.stringify(this.#request),
        cache: "no-store",
        signal: abort.signal,
      });
      this.#identify(answer.headers.get("X-Run-Id"));
      keepalive = answer.headers.get("X-Keepalive");
      alive();
      if (answer.status === 204) throw new RunError("gone", "the server no longer stores the run");
      const type = answer.headers.get("Content-Type") ?? "";
      if (!answer.ok) {
        // What the server says of the request is final; what a proxy says of the server is not.
        if (type.startsWith("application/problem+json") || (answer.status < 500 && answer.status !== 429)) throw await problem(answer);
        throw new Error(`status ${answer.status}`);
      }
      if (!type.startsWith("text/event-stream") || !answer.body) throw unreadable("it is not an event stream");
      this.#held = [];
      for await (const batch of frames(answer.body, alive, (ms) => (this.#retry = ms))) {
        for (const { id, event, data } of batch) this.#receive(id, event, data);
        if (this.#status !== "running") return;
      }
    } finally {
      clearTimeout(timer);
    }
  }

  // The same by an EventSource, which connects again by itself until an answer is not what it should be; or, since a ticket is good
  // once, until the connection breaks.
  async #listen(): Promise<void> {
    const { EventSource = globalThis.EventSource as RunOptions["EventSource"], credentials, events = [], ticket } = this.#options;
    if (!EventSource) throw new RunError("protocol", "the option EventSource is missing");
    let dropped = false;
    this.#drop = () => (dropped = true);
    const one = await ticket?.();
    if (dropped) return;
    const source: EventSourceLike = new EventSource(this.#url(one), { withCredentials: credentials === "include" });
    return new Promise<void>((over, fail) => {
      this.#drop = () => (source.close(), over());
      const take = (name: string) => (e: { data?: unknown; lastEventId: string }) => {
        if (typeof e.data !== "string" || this.#status !== "running") return;
        try {
          // An event without an id carries that of the one before.
          this.#receive(e.lastEventId && e.lastEventId !== this.#last ? e.lastEventId : undefined, name, e.data);
        } catch (error) {
          fail(error);
        }
      };
      source.addEventListener("open", () => (this.#held = []));
      source.addEventListener("message", take(""));
      for (const name of new Set([...named, ...events])) source.addEventListener(name, take(name));
      const failed = take("error"); // the connection's errors have the name of the run's, and no data
      source.addEventListener("error", (e) => {
        failed(e);
        // Why is not said. Where there was an answer before, this one is of something between.
        if (e.data === undefined && (one || source.readyState === 2)) fail(this.#last || source.readyState < 2 ? undefined : new RunError("unreachable", "the server refused the request"));
      });
    }).finally(() => source.close());
  }

  // Where the run is.
  #at(): string {
    return `${this.#base}/${encodeURIComponent(this.#id!)}`;
  }

  #url(ticket?: string): string {
    const query = new URLSearchParams(this.#query);
    if (ticket) query.set("ticket", ticket);
    const listens = this.#options.transport === "eventsource";
    if (listens && this.#last) query.set("last_event_id", this.#last);
    if (!this.#request) {
      if (!this.#last) query.set("snapshot", "1");
      return `${this.#at()}/events${mark(query)}`;
    }
    if (listens) {
      query.set("key", this.#key);
      for (const [name, value] of Object.entries(this.#request)) {
        if (typeof value === "boolean") query.set(name, value ? "1" : "0");
        else if (name === "model") query.set(name, String(value));
        else if (value !== undefined) query.set(name, typeof value === "string" ? value : JSON.stringify(value));
      }
    }
    return this.#base + mark(query);
  }

  async #headers(): Promise<Headers> {
    const { headers } = this.#options;
    return new Headers(typeof headers === "function" ? await headers() : headers);
  }

  #fetch(url: string, init: RequestInit): Promise<Response> {
    const { fetch = globalThis.fetch, credentials } = this.#options;
    return fetch(url, credentials ? { ...init, credentials } : init);
  }

  #identify(id: string | null | undefined): void {
    if (!id || this.#id) return;
    this.#id = id;
    this.#know();
  }

  // What comes of them.

  #receive(id: string | undefined, name: string, text: string): void {
    let event: RunEvent;
    try {
      const data = JSON.parse(text);
      event = name && name !== "message" ? { id, event: name, data } : { id, ...data };
    } catch (cause) {
      throw unreadable(cause);
    }
    // A snapshot is several events, of which only the last has an id. Cut off in its middle, it comes again as a whole.
    this.#held.push(event);
    if (id === undefined) return;
    const events = this.#held;
    this.#held = [];
    if (runOf(id) === runOf(this.#last) && number(id) <= number(this.#last)) return; // it was here already
    this.#last = id;
    this.#identify(runOf(id));
    for (const e of events) this.#take(e);
  }

  #take(event: RunEvent): void {
    if (this.#status !== "running") return;
    this.#begun ??= event;
    if ("event" in event) {
      // The first fatal one, or else the last that was not handled.
      if (event.event === "error" && !event.data.handled && !this.#failure?.fatal) this.#failure = event.data;
      if (event.event === "finished" || event.event === "canceled") this.#ended = event;
    }
    if (this.#options.smooth) {
      this.#smooth.push(event);
      this.#behind += length(event);
    } else {
      this.#apply(event);
    }
    for (const reader of this.#readers) {
      reader.waiting.push(event);
      if (reader.waiting.length > reader.most) {
        // Named events are kept, and mostly few; all else is in the snapshot.
        this.#show(Infinity);
        reader.waiting = [...reader.waiting.filter((e) => "event" in e), ...this.#snapshot()];
        reader.most = Math.max(mostWaiting, 2 * reader.waiting.length);
      }
      reader.wake?.();
    }
    if (this.#ended) this.#end(this.#ended);
    else this.#schedule();
  }

  #apply(event: RunEvent): void {
    if ("delta" in event) {
      if (event.delta === null && this.#complete.has(event.uri)) this.#reopen(event.uri);
      try {
        this.#fold.apply(event.uri, event.delta);
      } catch (cause) {
        throw unreadable(cause);
      }
    } else if ("done" in event) {
      if (!this.#complete.has(event.uri)) this.#fresh.add(event.uri);
    } else if (event.event === "restarted") {
      for (const uri of [...event.data.bots.map((b) => b.root), ...event.data.parts]) this.#reopen(uri);
    }
  }

  // A value that is written anew is not complete any more, nor is what is in it.
  #reopen(uri: string): void {
    for (const all of [this.#complete, this.#fresh]) for (const done of all) if ((done + "/").startsWith(uri && uri + "/")) all.delete(done);
  }

  #snapshot(): RunEvent[] {
    const events: RunEvent[] = this.#begun && "event" in this.#begun ? [this.#begun] : [];
    const put = (uri: string, delta: unknown) => {
      // These two add to what a reader has; so it is told to forget that first.
      if (typeof delta === "string" || (isContainer(delta) && Object.keys(delta).length === 0)) events.push({ uri, delta: null });
      events.push({ uri, delta: delta as JSONValue });
    };
    put("", this.#fold.document);
    for (const [uri, value] of Object.entries(this.#fold.reserved)) put(uri, value);
    for (const done of [this.#complete, this.#fresh]) for (const uri of done) events.push({ uri, done: true });
    return events;
  }

  #end(event: EndEvent): void {
    this.#show(Infinity);
    const canceled = event.event === "canceled";
    const status = canceled ? "canceled" : event.data.status;
    if (status !== "completed") {
      const data = canceled ? undefined : this.#failure;
      // "canceled", and "canceled by request", say no more than that.
      const reason = (event.data as EventData["canceled"])?.reason?.replace(/^canceled.*/, "");
      this.#error = new RunError(data?.code ?? status, data?.message ?? "the run " + (status === "failed" ? "has " : "was ") + status + (reason ? ": " + reason : ""), {
        run: this.#id, document: this.document, retryable: data?.retryable, retryAfter: data?.retry_after,
      });
    }
    this.#settle(status, this.#error);
  }

  // The run is not followed any more, though it has not ended.
  #stop(error: RunError, reason: unknown = error): void {
    if (this.#status !== "running") return;
    try {
      this.#show(Infinity);
    } catch {} // what does not fit the document is perhaps why it is stopped
    this.#error = Object.assign(error, { run: this.#id, document: this.document });
    this.#settle("lost", reason);
  }

  #settle(status: RunStatus, reason: unknown): void {
    this.#status = status;
    this.#drop();
    this.#know();
    this.#tell();
    if (status === "completed") this.#resolve(this.document as T);
    else this.#reject(reason);
    for (const reader of this.#readers) reader.wake?.();
  }

  // What is shown of it.

  #schedule(): void {
    if (this.#frame || (this.#subscriptions.size + this.#watchers.size === 0 && this.#smooth.length === 0)) return;
    const raf = globalThis.requestAnimationFrame as typeof requestAnimationFrame | undefined;
    const began = Date.now();
    const next = () => {
      this.#frame?.();
      try {
        this.#show(Date.now() - began);
      } catch (error) {
        return this.#stop(error as RunError);
      }
      this.#tell();
      if (this.#smooth.length > 0) this.#schedule();
    };
    // A page that is hidden has no frames.
    const timer = setTimeout(next, raf ? 250 : 16);
    const frame = raf?.(next);
    this.#frame = () => {
      clearTimeout(timer);
      if (frame !== undefined) cancelAnimationFrame(frame);
      this.#frame = undefined;
    };
  }

  // Applies as much of what was held back as the time since the last frame is good for, more where more is waiting.
  #show(elapsed: number): void {
    const within = typeof this.#options.smooth === "number" ? this.#options.smooth : 300;
    let budget = Math.max(1, Math.ceil((this.#behind * elapsed) / within) || 0);
    let shown = 0;
    try {
      for (const event of this.#smooth) {
        const n = length(event);
        if (n > budget) {
          const { uri, delta } = event as { uri: string; delta: string };
          // Half a surrogate pair is no character.
          const cut = budget > 0 && (delta.charCodeAt(budget - 1) & 0xfc00) === 0xd800 ? budget + 1 : budget;
          if (cut >= n) budget = n;
          else {
            if (cut > 0) this.#apply({ uri, delta: delta.slice(0, cut) });
            this.#behind -= cut;
            this.#smooth[shown] = { ...event, uri, delta: delta.slice(cut) };
            break;
          }
        }
        shown++;
        budget -= n;
        this.#behind -= n;
        this.#apply(event);
      }
    } finally {
      this.#smooth.splice(0, shown);
    }
  }

  #tell(): void {
    this.#frame?.();
    const { document, reserved } = this.#fold;
    const fresh = this.#fresh;
    this.#fresh = new Set();
    for (const s of this.#subscriptions) this.#update(s, document, reserved, fresh);
    for (const uri of fresh) this.#complete.add(uri);
    for (const fn of this.#watchers) call(fn);
  }

  #update(s: Subscription, document: unknown, reserved: Readonly<Record<string, unknown>>, fresh: Set<string>): void {
    const over = this.#status !== "running";
    const late = s.document === undefined;
    const told = new Set<string>();
    const walk = (before: unknown, now: unknown, states: States, uri: string): void => {
      if (before === now || states.length === 0) return;
      if (s.pattern.matched(states) && (late || !over || !this.#complete.has(uri))) {
        if (fresh.has(uri)) told.add(uri);
        call(() => s.fn(now, uri, over || fresh.has(uri) || this.#complete.has(uri)));
      }
      if (!isContainer(now)) return;
      const array = Array.isArray(now);
      const was = isContainer(before) && Array.isArray(before) === array ? before : {};
      for (const key of Object.keys(now)) {
        const value = member(now, key);
        const old = member(was, key);
        if (value === old) continue;
        const raw = array ? key : escape(key);
        walk(old, value, s.pattern.step(states, raw), uri === "" ? raw : uri + "/" + raw);
      }
    };
    // At the end, everything that was not said to be complete is told once more.
    walk(over ? undefined : s.document, document, s.pattern.start, "");
    for (const [uri, value] of Object.entries(reserved)) {
      const before = over || !s.reserved ? undefined : member(s.reserved, uri);
      walk(before, value, split(uri).reduce((states, raw) => s.pattern.step(states, raw), s.pattern.start), uri);
    }
    s.document = document;
    s.reserved = reserved;
    for (const uri of fresh) {
      if (told.has(uri) || !s.pattern.matches(uri)) continue;
      const value = at(document, reserved, uri);
      if (value !== undefined) call(() => s.fn(value, uri, true));
    }
  }
}

// Values of the reserved uris stand by themselves.
function at(document: unknown, reserved: Readonly<Record<string, unknown>>, uri: string): unknown {
  const raw = split(uri);
  const beside = raw.findIndex((r) => r[0] === "$") + 1;
  let value = beside > 0 ? member(reserved, raw.slice(0, beside).join("/")) : document;
  for (const key of parseURI(raw.slice(beside).join("/"))) value = isContainer(value) ? member(value, key) : undefined;
  return value;
}

// The message is for people; what exactly is wrong is for who looks into the cause.
function unreadable(cause: unknown): RunError {
  return new RunError("protocol", "the server's answer is not valid", { cause });
}

function length(event: RunEvent): number {
  return "delta" in event && typeof event.delta === "string" ? event.delta.length : 0;
}

function mark(query: URLSearchParams): string {
  const text = String(query);
  return text && "?" + text;
}

function number(id: string): number {
  return Number(id.slice(id.lastIndexOf(":") + 1));
}

function runOf(id: string): string {
  return id.slice(0, id.lastIndexOf(":"));
}

// What a subscriber throws is reported as any listener's error is, and is nobody else's.
function call(fn: () => void): void {
  try {
    fn();
  } catch (error) {
    setTimeout(() => {
      throw error;
    });
  }
}

async function problem(answer: Response): Promise<RunError> {
  const body: any = await answer.json().catch(() => undefined);
  const after = Number(answer.headers.get("Retry-After")) || undefined;
  return new RunError(body?.code ?? "protocol", body?.detail ?? `the server answered with status ${answer.status}`, {
    status: answer.status, errors: body?.errors, retryAfter: after, retryable: after !== undefined,
  });
}
