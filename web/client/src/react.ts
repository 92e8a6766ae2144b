import { useEffect, useState, useSyncExternalStore } from "react";
import { attach, run, type Run, type RunError, type RunOptions, type RunRequest, type RunStatus } from "./index.js";

/** What a component sees of a run. It is another object only when something has changed. */
export interface RunState<T> {
  /** The document so far; undefined before the first part of it. Parts that have not changed keep their identity. */
  document: T | undefined;
  status: RunStatus | "idle";
  error: RunError | undefined;
  /** The run itself, for its events, subscriptions and `reserved`. */
  run: Run<T> | undefined;
  cancel(): Promise<void>;
}

interface Live {
  run: Run<any>;
  timer?: ReturnType<typeof setTimeout>;
  left?: boolean; // it was not followed to its end
}

/**
 * Runs the request, and again whenever it is another one; null runs nothing. The component is rendered at most once per
 * animation frame. A component that goes stops following the run, and one that was only hidden goes on with it; the options are
 * those of the first render of each run.
 */
export function useRun<T = any>(url: string, request: RunRequest | null | undefined, options?: RunOptions): RunState<T> {
  const what = request ? url + "\n" + JSON.stringify(request) + "\n" + (options?.key ?? "") : "";
  const [store] = useState(() => new Store<T>());
  useEffect(() => {
    return store.begin(what, (id) => {
      if (!request) return undefined;
      return id && request.on_disconnect !== "cancel" ? attach<T>(url, id, options) : run<T>(url, request, options);
    });
  }, [store, what]);
  return useSyncExternalStore(store.subscribe, store.state, idle<T>);
}

class Store<T> {
  // The same in every state, so that a component that has only this is not rendered again.
  readonly #cancel = async () => this.#live?.run.cancel();
  readonly #nothing: RunState<T> = { ...nothing, cancel: this.#cancel };
  #state = this.#nothing;
  #what = "";
  #live: Live | undefined;
  readonly #listeners = new Set<() => void>();

  state = (): RunState<T> => this.#state;

  subscribe = (fn: () => void): (() => void) => {
    this.#listeners.add(fn);
    return () => this.#listeners.delete(fn);
  };

  // Strict mode ends and begins every effect once more; so an end is believed only when no beginning follows it.
  begin(what: string, start: (id?: string) => Run<T> | undefined): () => void {
    const before = this.#live;
    if (before && what === this.#what) {
      clearTimeout(before.timer);
      // It is shown again, and the run has gone on meanwhile.
      if (before.left) this.#follow(start(before.run.id), this.#state.document);
    } else {
      if (before) this.#leave(before);
      this.#what = what;
      this.#follow(start(), undefined);
    }
    const live = this.#live;
    return () => {
      if (live) live.timer = setTimeout(() => this.#leave(live));
    };
  }

  #follow(run: Run<T> | undefined, document: T | undefined): void {
    this.#live = run && { run };
    run?.watch(() => this.#set(run, run.document));
    this.#set(run, document);
  }

  // What becomes of a run that nobody looks at is not shown.
  #leave(live: Live): void {
    clearTimeout(live.timer);
    live.left = live.run.status === "running";
    live.run.close();
  }

  #set(run: Run<T> | undefined, document: T | undefined): void {
    if (run !== this.#live?.run || this.#live?.left) return;
    this.#state = run ? { document, status: run.status, error: run.error, run, cancel: this.#cancel } : this.#nothing;
    for (const fn of this.#listeners) fn();
  }
}

const nothing: RunState<any> = { document: undefined, status: "idle", error: undefined, run: undefined, cancel: async () => {} };

function idle<T>(): RunState<T> {
  return nothing;
}
