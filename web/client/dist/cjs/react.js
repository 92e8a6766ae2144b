var __defProp = Object.defineProperty;
var __getOwnPropDesc = Object.getOwnPropertyDescriptor;
var __getOwnPropNames = Object.getOwnPropertyNames;
var __hasOwnProp = Object.prototype.hasOwnProperty;
var __export = (target, all) => {
  for (var name in all)
    __defProp(target, name, { get: all[name], enumerable: true });
};
var __copyProps = (to, from, except, desc) => {
  if (from && typeof from === "object" || typeof from === "function") {
    for (let key of __getOwnPropNames(from))
      if (!__hasOwnProp.call(to, key) && key !== except)
        __defProp(to, key, { get: () => from[key], enumerable: !(desc = __getOwnPropDesc(from, key)) || desc.enumerable });
  }
  return to;
};
var __toCommonJS = (mod) => __copyProps(__defProp({}, "__esModule", { value: true }), mod);

// src/react.ts
var react_exports = {};
__export(react_exports, {
  useRun: () => useRun
});
module.exports = __toCommonJS(react_exports);
var import_react = require("react");
var import_index = require("./index.js");
function useRun(url, request, options) {
  const what = request ? url + "\n" + JSON.stringify(request) + "\n" + (options?.key ?? "") : "";
  const [store] = (0, import_react.useState)(() => new Store());
  (0, import_react.useEffect)(() => {
    return store.begin(what, (id, again) => {
      if (!request) return void 0;
      if ("run" in request) return (0, import_index.attach)(url, request.run, options);
      if (id && request.on_disconnect !== "cancel") return (0, import_index.attach)(url, id, options);
      return (0, import_index.run)(url, request, again ? { ...options, key: void 0 } : options);
    });
  }, [store, what]);
  return (0, import_react.useSyncExternalStore)(store.subscribe, store.state, idle);
}
var Store = class {
  // The same in every state, so that a component that has only these is not rendered again.
  #cancel = async () => this.#live?.run.cancel();
  #restart = () => {
    const live = this.#live;
    if (!live || !this.#start) return;
    this.#leave(live);
    this.#follow(this.#start(void 0, true), void 0);
  };
  #nothing = { ...nothing, cancel: this.#cancel, restart: this.#restart };
  #state = this.#nothing;
  #what = "";
  #start;
  // undefined while the component is not there
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
    this.#start = start;
    if (before && what === this.#what) {
      clearTimeout(before.timer);
      if (before.left) this.#follow(start(before.run.id), this.#state.document);
    } else {
      if (before) this.#leave(before);
      this.#what = what;
      this.#follow(start(), void 0);
    }
    return () => {
      this.#start = void 0;
      const live = this.#live;
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
    this.#state = run2 ? { ...this.#nothing, document, status: run2.status, error: run2.error, run: run2 } : this.#nothing;
    for (const fn of this.#listeners) fn();
  }
};
var nothing = { document: void 0, status: "idle", error: void 0, run: void 0, cancel: async () => {
}, restart: () => {
} };
function idle() {
  return nothing;
}
