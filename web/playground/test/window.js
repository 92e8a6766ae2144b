// As much of a browser's window as the page's state needs: an address with a hash, storage, and a server that the test answers for.

/** Sets the globals. `location.hash` can be set, and tells of it, as in a browser; `answers` are the server's, by path. */
export function browserWindow(answers) {
  const listeners = {};
  const storage = () => {
    const all = new Map();
    return { getItem: (k) => all.get(k) ?? null, setItem: (k, v) => void all.set(k, v), removeItem: (k) => void all.delete(k) };
  };
  let hash = "";
  const location = {
    origin: "http://page",
    get hash() {
      return hash;
    },
    set hash(to) {
      hash = to === "#" ? "" : to;
      for (const fn of listeners.hashchange ?? []) fn({});
    },
  };
  Object.assign(globalThis, {
    location, document: { documentElement: { dataset: {} }, visibilityState: "visible" },
    history: { replaceState: (_state, _title, to) => void (hash = to) },
    localStorage: storage(), sessionStorage: storage(),
    addEventListener: (name, fn) => (listeners[name] ??= []).push(fn),
    fetch: async (url, init) => {
      const { pathname } = new URL(url, location.origin);
      const answer = answers[pathname];
      return answer ? answer(init) : Response.json({ code: "not_found", detail: "it is not there" }, { status: 404 });
    },
  });
  return { location };
}

/** A run as the server streams it: the test sends its events. */
export class ServerRun {
  #out;
  #n = 0;

  constructor(id) {
    this.id = id;
    const body = new ReadableStream({ start: (out) => (this.#out = out) });
    this.response = new Response(body.pipeThrough(new TextEncoderStream()), { headers: { "Content-Type": "text/event-stream", "X-Run-Id": id } });
  }

  /** Sends a named event. */
  event(name, data) {
    this.#send(`event: ${name}\ndata: ${JSON.stringify(data)}`);
  }

  /** Sends a piece of the document. */
  delta(delta, uri = "") {
    this.#send(`data: ${JSON.stringify({ uri, delta })}`);
  }

  end(status = "completed") {
    this.event("finished", { status });
    try {
      this.#out.close();
    } catch {} // see below
  }

  #send(lines) {
    try {
      this.#out.enqueue(`id: ${this.id}:${this.#n++}\n${lines}\n\n`);
    } catch {} // the page does not follow it any more
  }
}
