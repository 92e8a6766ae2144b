// src/uri.ts
var maxDepth = 1024;
function bad(uri, why) {
  return new Error(`uri ${JSON.stringify(uri.slice(0, 80))}: ${why}`);
}
var segment = /^(?!\.\.?$)(?:\\e|\\\.\.?|(?:\\\$|[^\\]|\\[\\/])(?:[^\\]|\\[\\/])*)$/s;
function split(uri) {
  if (uri === "") return [];
  let raw = [];
  if (uri.includes("\\")) {
    let from = 0;
    for (let i = 0; i < uri.length; i++) {
      if (uri[i] === "\\") i++;
      else if (uri[i] === "/") {
        raw.push(uri.slice(from, i));
        from = i + 1;
      }
    }
    raw.push(uri.slice(from));
  } else {
    raw = uri.split("/");
  }
  if (raw.length > maxDepth) throw bad(uri, `more than ${maxDepth} segments`);
  return raw;
}
function plain(raw, uri) {
  if (raw !== "" && raw !== "." && raw !== ".." && !raw.includes("\\")) return raw;
  if (!segment.test(raw)) throw bad(uri, `${JSON.stringify(raw)} is not a segment`);
  return raw === "\\e" ? "" : raw.replace(/\\(.)/gs, "$1");
}
function escape(key) {
  return key === "" ? "\\e" : key.replace(/[\\/]/g, "\\$&").replace(/^(?=\$|\.\.?$)/, "\\");
}
function formatURI(segments) {
  return segments.map((s) => escape(String(s))).join("/");
}
function parseURI(uri) {
  return split(uri).map((raw) => plain(raw, uri));
}
var Pattern = class {
  constructor(text) {
    this.text = text;
    this.#parts = split(text).map((raw) => {
      if (!/^\\?\*\*?$/.test(raw)) plain(raw, text);
      return raw;
    });
    this.start = this.#open([0]);
  }
  text;
  #parts;
  /** The states before the first segment. */
  start;
  /** The states after one more segment, in its escaped form; none where nothing below it can match. */
  step(states, raw) {
    const next = [];
    for (const at2 of states) {
      const part = this.#parts[at2];
      if (part === "**") next.push(at2);
      else if (part === "*" || part === raw || part?.startsWith("\\*") && part.slice(1) === raw) next.push(at2 + 1);
    }
    return this.#open(next);
  }
  /** Whether a way that has come to these states matches as it is. */
  matched(states) {
    return states.includes(this.#parts.length);
  }
  matches(uri) {
    return this.matched(split(uri).reduce((states, raw) => this.step(states, raw), this.start));
  }
  // A "**" may also stand for nothing: then what follows it comes next. States rise and come once each, so that they are
  // never more than the pattern's parts.
  #open(states) {
    const all = [];
    for (let at2 of states) {
      for (; ; at2++) {
        if (!all.includes(at2)) all.push(at2);
        if (this.#parts[at2] !== "**") break;
      }
    }
    return all;
  }
};

// src/fold.ts
var maxFill = 65536;
var maxElements = 16 << 20;
function isContainer(value) {
  return typeof value === "object" && value !== null;
}
function member(of, key) {
  return Object.hasOwn(of, key) ? of[key] : void 0;
}
function put(into, key, value) {
  if (key === "__proto__") Object.defineProperty(into, key, { value, writable: true, enumerable: true, configurable: true });
  else into[key] = value;
}
function fits(value, left) {
  if (!isContainer(value)) return true;
  for (const key in value) if (left === 0 || !fits(member(value, key), left - 1)) return false;
  return true;
}
function index(array, key, uri) {
  const i = Number(key);
  if (String(i) === key && i >= 0 && Number.isInteger(i) && i <= array.length + maxFill && i < maxElements) return i;
  throw new Error(`uri ${JSON.stringify(uri.slice(0, 80))}: not an index of the array`);
}
function fill(array, key, uri) {
  for (const i = index(array, key, uri); array.length < i; ) array.push(null);
}
var Fold = class {
  // The two roots: the document, and what stands beside it, by uris up to and with the segment that begins with "$".
  #roots = { document: {}, reserved: {} };
  #own = /* @__PURE__ */ new Set();
  // what may be changed in place
  // Where the last deltas went, for the next ones mostly go there, too: the parents by their uris, all of them own, and the very
  // place of the last one.
  #parents = /* @__PURE__ */ new Map();
  #uri;
  #parent = [];
  #key = "";
  #pieces = 0;
  /** The document so far. It does not change any more; later deltas make another one. */
  get document() {
    this.#release();
    return this.#roots.document;
  }
  /** What stands beside the document, by uri: thoughts, tool calls and their results. It does not change any more. */
  get reserved() {
    this.#release();
    return this.#roots.reserved;
  }
  /**
   * Applies one delta: a string is appended, `{}` sees to it that there is an object, anything else is set. Throws where the
   * uri is none or does not fit the array that it leads into; the document is then as it was.
   */
  apply(uri, delta) {
    const empty = isContainer(delta) && Object.keys(delta).length === 0;
    if (uri !== this.#uri) this.#go(uri, isContainer(delta) && !empty ? delta : void 0);
    else if (isContainer(delta) && !empty) this.#check(uri, split(uri).length, delta);
    const before = member(this.#parent, this.#key);
    if (typeof delta === "string") {
      put(this.#parent, this.#key, typeof before === "string" ? this.#join(before, delta) : delta);
    } else if (!(empty && !Array.isArray(delta) && isContainer(before) && !Array.isArray(before))) {
      put(this.#parent, this.#key, delta);
    } else {
      return;
    }
    if (isContainer(before)) this.#parents.clear();
  }
  // Finds the parent of what is at uri, and makes it where it is missing.
  #go(uri, value) {
    const cut = uri.lastIndexOf("/");
    const simple = uri !== "" && cut !== 0 && !uri.includes("\\") && !uri.includes("$");
    const above = cut < 0 ? "" : uri.slice(0, cut);
    let parent = simple && value === void 0 ? this.#parents.get(above) : void 0;
    let key = uri.slice(cut + 1);
    if (parent) {
      plain(key, uri);
      if (Array.isArray(parent)) fill(parent, key, uri);
    } else {
      const raw = split(uri);
      let rest = raw.map((r) => plain(r, uri));
      if (value !== void 0) this.#check(uri, raw.length, value);
      const beside = raw.findIndex((r) => r[0] === "$");
      parent = this.#roots;
      key = "document";
      if (beside >= 0) {
        parent = this.#owned(parent, "reserved");
        key = raw.slice(0, beside + 1).join("/");
        rest = rest.slice(beside + 1);
      }
      for (const next of rest) {
        const into = member(parent, key);
        if (Array.isArray(into)) index(into, next, uri);
        parent = this.#owned(parent, key);
        if (Array.isArray(parent)) fill(parent, next, uri);
        key = next;
      }
      if (simple && raw.length < maxDepth) {
        if (this.#parents.size >= 1e3) this.#parents.clear();
        this.#parents.set(above, parent);
      }
    }
    if (member(parent, key) === void 0) put(parent, key, null);
    this.#uri = uri;
    this.#parent = parent;
    this.#key = key;
  }
  #check(uri, depth, value) {
    if (!fits(value, maxDepth - depth)) throw new Error(`uri ${JSON.stringify(uri.slice(0, 80))}: nests deeper than ${maxDepth}`);
  }
  // The container at a key that may be changed: a copy of what was given out, an object where there is none.
  #owned(of, key) {
    const was = member(of, key);
    if (this.#own.has(was)) return was;
    const copy = Array.isArray(was) ? was.slice() : isContainer(was) ? { ...was } : {};
    this.#own.add(copy);
    put(of, key, copy);
    return copy;
  }
  // Engines keep a text that was put together from pieces as a tree of them until somebody looks into it. Nobody may, so it is
  // done here now and then: rarely enough to cost little, and often enough that pieces take no more memory than the text.
  #join(text, more) {
    const joined = text + more;
    if (++this.#pieces > 1e3 && this.#pieces * 64 > joined.length) {
      this.#pieces = 0;
      joined.charCodeAt(0);
    }
    return joined;
  }
  #release() {
    this.#own.clear();
    this.#parents.clear();
    this.#uri = void 0;
  }
};

// src/sse.ts
async function* frames(body, alive, retry) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let afterCR = false;
  let id;
  let event = "";
  let data;
  try {
    for (; ; ) {
      const { value, done } = await reader.read();
      if (done) return;
      alive();
      let text = decoder.decode(value, { stream: true });
      if (text === "") continue;
      if (afterCR && text[0] === "\n") text = text.slice(1);
      afterCR = text.endsWith("\r");
      if (text.includes("\r")) text = text.replace(/\r\n?/g, "\n");
      if (!text.includes("\n")) {
        rest += text;
        continue;
      }
      const lines = (rest + text).split("\n");
      rest = lines.pop();
      const all = [];
      for (const line of lines) {
        if (line === "") {
          if (data !== void 0) all.push(id === void 0 ? { event, data } : { id, event, data });
          id = data = void 0;
          event = "";
          continue;
        }
        const colon = line.indexOf(":");
        const name = colon < 0 ? line : line.slice(0, colon);
        const field = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
        if (name === "data") data = data === void 0 ? field : data + "\n" + field;
        else if (name === "event") event = field;
        else if (name === "id" && !field.includes("\0")) id = field;
        else if (name === "retry" && /^\d+$/.test(field)) retry(Number(field));
      }
      if (all.length > 0) yield all;
    }
  } finally {
    reader.cancel().catch(() => {
    });
  }
}

// src/types.ts
var RunError = class extends Error {
  name = "RunError";
  /** One of docs/protocol.md's codes, or `unreachable`, `protocol`, `closed`, `interrupted`, `canceled`. */
  code;
  constructor(code, message, more) {
    super(message, more?.cause === void 0 ? void 0 : { cause: more.cause });
    this.code = code;
    Object.assign(this, more);
  }
};

// src/run.ts
var mostWaiting = 1e4;
var longestPause = 3e4;
var named = "started restarted finished canceled bot usage queued waiting approval_required approval_resolved retrying handoff warning follow_up html".split(" ");
var Run = class {
  #base;
  #query;
  #request;
  // undefined of a run that is attached to
  #options;
  #key;
  #id;
  #status = "running";
  #error;
  #failure;
  // data of the error event that is why it fails, if it does
  #fold = new Fold();
  #last = "";
  // id of the last event
  #held = [];
  // parts of a snapshot, which counts as a whole
  #retry = 1e3;
  #drop = () => {
  };
  // breaks the connection or the pause at hand
  #canceling;
  #begun;
  #ended;
  #subscriptions = /* @__PURE__ */ new Set();
  #watchers = /* @__PURE__ */ new Set();
  #readers = /* @__PURE__ */ new Set();
  #complete = /* @__PURE__ */ new Set();
  // uris that everybody was told are done
  #fresh = /* @__PURE__ */ new Set();
  // and those that are done since
  #frame;
  // calls the next frame off
  #smooth = [];
  // what has come and is not shown yet
  #behind = 0;
  // characters in it
  #promise;
  #resolve;
  #reject;
  #known;
  #know;
  /** @internal */
  constructor(url, request, id, options = {}) {
    const mark2 = url.indexOf("?");
    this.#base = (mark2 < 0 ? url : url.slice(0, mark2)).replace(/\/$/, "");
    this.#query = mark2 < 0 ? "" : url.slice(mark2 + 1);
    this.#request = request && { done: true, ...request };
    this.#options = options;
    this.#key = options.key ?? crypto.getRandomValues(new Uint32Array(4)).join("-");
    this.#promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#known = new Promise((resolve) => this.#know = resolve);
    this.#identify(id);
    const { signal } = options;
    if (signal?.aborted) {
      this.#promise.catch(() => {
      });
      this.close(signal.reason);
    } else {
      const stop = () => this.close(signal.reason);
      signal?.addEventListener("abort", stop);
      this.#promise.catch(() => {
      }).then(() => signal?.removeEventListener("abort", stop));
      void this.#follow();
    }
  }
  /** The run's id, as soon as it is known. */
  get id() {
    return this.#id;
  }
  get status() {
    return this.#status;
  }
  /** The reason why it did not complete. */
  get error() {
    return this.#error;
  }
  /** The document so far. It is immutable; later documents share its unchanged parts. */
  get document() {
    return this.#fold.document;
  }
  /** Values beside the document, by uri: `$reasoning_context`, `$tools/0`, `$tool_results/0`. */
  get reserved() {
    return this.#fold.reserved;
  }
  then(onDone, onError) {
    return this.#promise.then(onDone, onError);
  }
  catch(onError) {
    return this.#promise.catch(onError);
  }
  finally(onEnd) {
    return this.#promise.finally(onEnd);
  }
  /**
   * All events, as they arrive. A reader that begins late or falls far behind gets a snapshot first: the document as one
   * delta at the root. It ends after `finished` or `canceled`, and throws if the client could not follow the run to there.
   * To leave the loop neither cancels the run nor stops following it.
   */
  async *[Symbol.asyncIterator]() {
    const reader = { waiting: this.#begun || this.#ended ? this.#snapshot() : [], most: mostWaiting };
    if (this.#ended) reader.waiting.push(this.#ended);
    this.#readers.add(reader);
    try {
      for (; ; ) {
        const batch = reader.waiting;
        reader.waiting = [];
        yield* batch;
        if (reader.waiting.length > 0) continue;
        if (this.#ended) return;
        if (this.#error) throw this.#error;
        await new Promise((wake) => reader.wake = wake);
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
  subscribe(pattern, fn) {
    const subscription = { pattern: new Pattern(pattern), fn };
    this.#subscriptions.add(subscription);
    if (this.#begun || this.#ended) this.#schedule();
    return () => this.#subscriptions.delete(subscription);
  }
  /** Calls fn once per animation frame in which the run has changed. */
  watch(fn) {
    this.#watchers.add(fn);
    return () => this.#watchers.delete(fn);
  }
  /** Cancels the run on the server, which keeps the document so far. Resolves when the server has accepted that. */
  cancel() {
    return this.#canceling ??= this.#cancel().catch((error) => {
      this.#canceling = void 0;
      throw error;
    });
  }
  async #cancel() {
    await this.#known;
    if (this.#status !== "running") return;
    await this.#post("cancel").catch((error) => {
      if (error.status !== 409) throw error;
    });
  }
  /**
   * Answers an `approval_required` event, by its `id`. The model reads `reason`. With `remember` the
   * tool does not ask again in this session. Rejects with `conflict` if the call was answered before or has expired.
   */
  async approve(id, decision = "approve", more) {
    await this.#known;
    await this.#post("approvals/" + encodeURIComponent(id), { decision, ...more });
  }
  async #post(path, body) {
    if (!this.#id) throw this.#error;
    const headers = await this.#headers();
    if (body) headers.set("Content-Type", "application/json");
    const answer = await this.#fetch(`${this.#at()}/${path}`, { method: "POST", headers, body: body && JSON.stringify(body) });
    if (!answer.ok) throw await problem(answer);
  }
  /** Stops following the run. The run continues, unless its request has `on_disconnect: "cancel"`. */
  close(reason) {
    this.#stop(new RunError("closed", "the run is no longer followed", { cause: reason }), reason);
  }
  // The transports.
  async #follow() {
    for (let tries = 0; this.#status === "running"; ) {
      const before = this.#last;
      let cause, after;
      try {
        await (this.#options.transport === "eventsource" ? this.#listen() : this.#connect());
      } catch (error) {
        if (error instanceof RunError && !(this.#last && (after = error.retryAfter))) return this.#stop(error);
        cause = error;
      }
      if (this.#status !== "running") return;
      if (this.#canceling && !this.#id) return this.#stop(new RunError("canceled", "the run was canceled before it began"));
      tries = this.#last === before ? tries + 1 : 1;
      if (tries > (this.#options.retries ?? 10)) {
        return this.#stop(new RunError("unreachable", this.#last ? "the connection broke; the run may continue" : "the server cannot be reached", { cause, retryable: true }));
      }
      const pause = Math.max(Math.min(longestPause, this.#retry * 2 ** (tries - 1)) * (0.5 + Math.random() / 2), 1e3 * (after ?? 0));
      call(() => this.#options.waiting?.(pause));
      await new Promise((go) => {
        const timer = setTimeout(go, pause);
        this.#drop = () => (clearTimeout(timer), go());
      });
    }
  }
  // One connection, until it breaks. It throws a RunError where another would not help.
  async #connect() {
    const abort = new AbortController();
    this.#drop = () => abort.abort();
    let timer;
    let keepalive;
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
        signal: abort.signal
      });
      this.#identify(answer.headers.get("X-Run-Id"));
      keepalive = answer.headers.get("X-Keepalive");
      alive();
      if (answer.status === 204) throw new RunError("gone", "the server no longer stores the run");
      const type = answer.headers.get("Content-Type") ?? "";
      if (!answer.ok) {
        if (type.startsWith("application/problem+json") || answer.status < 500 && answer.status !== 429) throw await problem(answer);
        throw new Error(`status ${answer.status}`);
      }
      if (!type.startsWith("text/event-stream") || !answer.body) throw unreadable("it is not an event stream");
      this.#held = [];
      for await (const batch of frames(answer.body, alive, (ms) => this.#retry = ms)) {
        for (const { id, event, data } of batch) this.#receive(id, event, data);
        if (this.#status !== "running") return;
      }
    } finally {
      clearTimeout(timer);
    }
  }
  // The same by an EventSource, which connects again by itself until an answer is not what it should be; or, since a ticket is good
  // once, until the connection breaks.
  async #listen() {
    const { EventSource = globalThis.EventSource, credentials, events = [], ticket } = this.#options;
    if (!EventSource) throw new RunError("protocol", "the option EventSource is missing");
    let dropped = false;
    this.#drop = () => dropped = true;
    const one = await ticket?.();
    if (dropped) return;
    const source = new EventSource(this.#url(one), { withCredentials: credentials === "include" });
    return new Promise((over, fail) => {
      this.#drop = () => (source.close(), over());
      const take = (name) => (e) => {
        if (typeof e.data !== "string" || this.#status !== "running") return;
        try {
          this.#receive(e.lastEventId && e.lastEventId !== this.#last ? e.lastEventId : void 0, name, e.data);
        } catch (error) {
          fail(error);
        }
      };
      source.addEventListener("open", () => this.#held = []);
      source.addEventListener("message", take(""));
      for (const name of /* @__PURE__ */ new Set([...named, ...events])) source.addEventListener(name, take(name));
      const failed = take("error");
      source.addEventListener("error", (e) => {
        failed(e);
        if (e.data === void 0 && (one || source.readyState === 2)) fail(this.#last || source.readyState < 2 ? void 0 : new RunError("unreachable", "the server refused the request"));
      });
    }).finally(() => source.close());
  }
  // Where the run is.
  #at() {
    return `${this.#base}/${encodeURIComponent(this.#id)}`;
  }
  #url(ticket) {
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
        else if (value !== void 0) query.set(name, typeof value === "string" ? value : JSON.stringify(value));
      }
    }
    return this.#base + mark(query);
  }
  async #headers() {
    const { headers } = this.#options;
    return new Headers(typeof headers === "function" ? await headers() : headers);
  }
  #fetch(url, init) {
    const { fetch = globalThis.fetch, credentials } = this.#options;
    return fetch(url, credentials ? { ...init, credentials } : init);
  }
  #identify(id) {
    if (!id || this.#id) return;
    this.#id = id;
    this.#know();
  }
  // What comes of them.
  #receive(id, name, text) {
    let event;
    try {
      const data = JSON.parse(text);
      event = name && name !== "message" ? { id, event: name, data } : { id, ...data };
    } catch (cause) {
      throw unreadable(cause);
    }
    this.#held.push(event);
    if (id === void 0) return;
    const events = this.#held;
    this.#held = [];
    if (runOf(id) === runOf(this.#last) && number(id) <= number(this.#last)) return;
    this.#last = id;
    this.#identify(runOf(id));
    for (const e of events) this.#take(e);
  }
  #take(event) {
    if (this.#status !== "running") return;
    this.#begun ??= event;
    if ("event" in event) {
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
        this.#show(Infinity);
        reader.waiting = [...reader.waiting.filter((e) => "event" in e), ...this.#snapshot()];
        reader.most = Math.max(mostWaiting, 2 * reader.waiting.length);
      }
      reader.wake?.();
    }
    if (this.#ended) this.#end(this.#ended);
    else this.#schedule();
  }
  #apply(event) {
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
  #reopen(uri) {
    for (const all of [this.#complete, this.#fresh]) for (const done of all) if ((done + "/").startsWith(uri && uri + "/")) all.delete(done);
  }
  #snapshot() {
    const events = this.#begun && "event" in this.#begun ? [this.#begun] : [];
    const put2 = (uri, delta) => {
      if (typeof delta === "string" || isContainer(delta) && Object.keys(delta).length === 0) events.push({ uri, delta: null });
      events.push({ uri, delta });
    };
    put2("", this.#fold.document);
    for (const [uri, value] of Object.entries(this.#fold.reserved)) put2(uri, value);
    for (const done of [this.#complete, this.#fresh]) for (const uri of done) events.push({ uri, done: true });
    return events;
  }
  #end(event) {
    this.#show(Infinity);
    const canceled = event.event === "canceled";
    const status = canceled ? "canceled" : event.data.status;
    if (status !== "completed") {
      const data = canceled ? void 0 : this.#failure;
      const reason = event.data?.reason?.replace(/^canceled.*/, "");
      this.#error = new RunError(data?.code ?? status, data?.message ?? "the run " + (status === "failed" ? "has " : "was ") + status + (reason ? ": " + reason : ""), {
        run: this.#id,
        document: this.document,
        retryable: data?.retryable,
        retryAfter: data?.retry_after
      });
    }
    this.#settle(status, this.#error);
  }
  // The run is not followed any more, though it has not ended.
  #stop(error, reason = error) {
    if (this.#status !== "running") return;
    try {
      this.#show(Infinity);
    } catch {
    }
    this.#error = Object.assign(error, { run: this.#id, document: this.document });
    this.#settle("lost", reason);
  }
  #settle(status, reason) {
    this.#status = status;
    this.#drop();
    this.#know();
    this.#tell();
    if (status === "completed") this.#resolve(this.document);
    else this.#reject(reason);
    for (const reader of this.#readers) reader.wake?.();
  }
  // What is shown of it.
  #schedule() {
    if (this.#frame || this.#subscriptions.size + this.#watchers.size === 0 && this.#smooth.length === 0) return;
    const raf = globalThis.requestAnimationFrame;
    const began = Date.now();
    const next = () => {
      this.#frame?.();
      try {
        this.#show(Date.now() - began);
      } catch (error) {
        return this.#stop(error);
      }
      this.#tell();
      if (this.#smooth.length > 0) this.#schedule();
    };
    const timer = setTimeout(next, raf ? 250 : 16);
    const frame = raf?.(next);
    this.#frame = () => {
      clearTimeout(timer);
      if (frame !== void 0) cancelAnimationFrame(frame);
      this.#frame = void 0;
    };
  }
  // Applies as much of what was held back as the time since the last frame is good for, more where more is waiting.
  #show(elapsed) {
    const within = typeof this.#options.smooth === "number" ? this.#options.smooth : 300;
    let budget = Math.max(1, Math.ceil(this.#behind * elapsed / within) || 0);
    let shown = 0;
    try {
      for (const event of this.#smooth) {
        const n = length(event);
        if (n > budget) {
          const { uri, delta } = event;
          const cut = budget > 0 && (delta.charCodeAt(budget - 1) & 64512) === 55296 ? budget + 1 : budget;
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
  #tell() {
    this.#frame?.();
    const { document, reserved } = this.#fold;
    const fresh = this.#fresh;
    this.#fresh = /* @__PURE__ */ new Set();
    for (const s of this.#subscriptions) this.#update(s, document, reserved, fresh);
    for (const uri of fresh) this.#complete.add(uri);
    for (const fn of this.#watchers) call(fn);
  }
  #update(s, document, reserved, fresh) {
    const over = this.#status !== "running";
    const late = s.document === void 0;
    const told = /* @__PURE__ */ new Set();
    const walk = (before, now, states, uri) => {
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
    walk(over ? void 0 : s.document, document, s.pattern.start, "");
    for (const [uri, value] of Object.entries(reserved)) {
      const before = over || !s.reserved ? void 0 : member(s.reserved, uri);
      walk(before, value, split(uri).reduce((states, raw) => s.pattern.step(states, raw), s.pattern.start), uri);
    }
    s.document = document;
    s.reserved = reserved;
    for (const uri of fresh) {
      if (told.has(uri) || !s.pattern.matches(uri)) continue;
      const value = at(document, reserved, uri);
      if (value !== void 0) call(() => s.fn(value, uri, true));
    }
  }
};
function at(document, reserved, uri) {
  const raw = split(uri);
  const beside = raw.findIndex((r) => r[0] === "$") + 1;
  let value = beside > 0 ? member(reserved, raw.slice(0, beside).join("/")) : document;
  for (const key of parseURI(raw.slice(beside).join("/"))) value = isContainer(value) ? member(value, key) : void 0;
  return value;
}
function unreadable(cause) {
  return new RunError("protocol", "the server's answer is not valid", { cause });
}
function length(event) {
  return "delta" in event && typeof event.delta === "string" ? event.delta.length : 0;
}
function mark(query) {
  const text = String(query);
  return text && "?" + text;
}
function number(id) {
  return Number(id.slice(id.lastIndexOf(":") + 1));
}
function runOf(id) {
  return id.slice(0, id.lastIndexOf(":"));
}
function call(fn) {
  try {
    fn();
  } catch (error) {
    setTimeout(() => {
      throw error;
    });
  }
}
async function problem(answer) {
  const body = await answer.json().catch(() => void 0);
  const after = Number(answer.headers.get("Retry-After")) || void 0;
  return new RunError(body?.code ?? "protocol", body?.detail ?? `the server answered with status ${answer.status}`, {
    status: answer.status,
    errors: body?.errors,
    retryAfter: after,
    retryable: after !== void 0
  });
}

// src/index.ts
function run(url, request, options) {
  return new Run(url, request, void 0, options);
}
function attach(url, id, options) {
  return new Run(url, void 0, id, options);
}
export {
  Fold,
  Pattern,
  RunError,
  attach,
  formatURI,
  parseURI,
  run
};
