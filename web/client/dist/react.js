// src/react.ts
import { useEffect, useState, useSyncExternalStore } from "react";
import { run } from "./index.js";
function useRun(url, request, options) {
  const what = request ? url + "\n" + JSON.stringify(request) + "\n" + (options?.key ?? "") : "";
  const [store] = useState(() => new Store());
  useEffect(() => store.begin(what, () => request ? run(url, request, options) : void 0), [store, what]);
  return useSyncExternalStore(store.subscribe, store.state, idle);
}
var Store = class {
  // The same in every state, so that a component that has only this is not rendered again.
  #cancel = async () => this.#live?.run.cancel();
  #nothing = { ...nothing, cancel: this.#cancel };
  #state = this.#nothing;
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
    const live = this.#live;
    this.#live = void 0;
    clearTimeout(live?.timer);
    live?.run.close();
  }
  #set(run2, document) {
    if (run2 !== this.#live?.run) return;
    this.#state = run2 ? { document, status: run2.status, error: run2.error, run: run2, cancel: this.#cancel } : this.#nothing;
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
