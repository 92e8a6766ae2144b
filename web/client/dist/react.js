// src/react.ts
import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { run } from "./index.js";
function useRun(url, request, options) {
  const what = request ? url + "\n" + JSON.stringify(request) + "\n" + (options?.key ?? "") : "";
  const latest = useRef({ request, options });
  latest.current = { request, options };
  const store = useMemo(() => new Store(), []);
  useEffect(() => {
    const { request: request2, options: options2 } = latest.current;
    return store.begin(what, () => request2 ? run(url, request2, options2) : void 0);
  }, [store, what]);
  return useSyncExternalStore(store.subscribe, store.state, idle);
}
var Store = class {
  #state = nothing;
  #what = "";
  #live;
  #listeners = /* @__PURE__ */ new Set();
  state = () => this.#state;
  subscribe = (fn) => {
    this.#listeners.add(fn);
    return () => this.#listeners.delete(fn);
  };
  // Strict mode ends and begins every effect once more; so an end is believed only when no beginning follows it.
  begin(what, start) {
    if (this.#live && what === this.#what) clearTimeout(this.#live.timer);
    else {
      this.#close();
      this.#what = what;
      const run2 = start();
      if (run2) {
        this.#live = { run: run2 };
        run2.watch(() => this.#set(run2, run2.document));
      }
      this.#set(run2, void 0);
    }
    const live = this.#live;
    return () => {
      if (live) live.timer = setTimeout(() => this.#live === live ? this.#close() : live.run.close());
    };
  }
  #close() {
    if (!this.#live) return;
    clearTimeout(this.#live.timer);
    this.#live.run.close();
    this.#live = void 0;
  }
  #set(run2, document) {
    if (run2 !== this.#live?.run) return;
    this.#state = run2 ? { document, status: run2.status, error: run2.error, run: run2, cancel: () => run2.cancel() } : nothing;
    for (const fn of this.#listeners) fn();
  }
};
var nothing = { document: void 0, status: "idle", error: void 0, run: void 0, cancel: async () => {
} };
function idle() {
  return nothing;
}
export {
  useRun
};
