// src/react.ts
import { useEffect, useState, useSyncExternalStore } from "react";
import { attach, run } from "./index.js";
function useRun(url, request, options) {
  const what = request ? url + "\n" + JSON.stringify(request) + "\n" + (options?.key ?? "") : "";
  const [store] = useState(() => new Store());
  useEffect(() => {
    return store.begin(what, (id) => {
      if (!request) return void 0;
      return id && request.on_disconnect !== "cancel" ? attach(url, id, options) : run(url, request, options);
    });
  }, [store, what]);
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
    const before = this.#live;
    if (before && what === this.#what) {
      clearTimeout(before.timer);
      if (before.left) this.#follow(start(before.run.id), this.#state.document);
    } else {
      if (before) this.#leave(before);
      this.#what = what;
      this.#follow(start(), void 0);
    }
    const live = this.#live;
    return () => {
      if (live) live.timer = setTimeout(() => this.#leave(live));
    };
  }
  #follow(run2, document) {
    this.#live = run2 && { run: run2 };
    run2?.watch(() => this.#set(run2, run2.document));
    this.#set(run2, document);
  }
  // What becomes of a run that nobody looks at is not shown.
  #leave(live) {
    clearTimeout(live.timer);
    live.left = live.run.status === "running";
    live.run.close();
  }
  #set(run2, document) {
    if (run2 !== this.#live?.run || this.#live?.left) return;
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
