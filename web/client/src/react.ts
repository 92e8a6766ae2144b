import { useEffect, useState, useSyncExternalStore } from "react";
import { attach, run, type Growing, type JSONValue, type NamedEvent, type Run, type RunError, type RunOptions, type RunRequest, type RunStatus, type StartedRun } from "./index.js";

/** The state of a run for a component. It is a new object only after a change. */
export interface RunState<T = JSONValue, E extends NamedEvent = never> {
  /** The document so far; undefined before its first part. Unchanged parts keep their identity. */
  document: Growing<T> | undefined;
  status: RunStatus | "idle";
  error: RunError | undefined;
  /** The run itself, for its id, its events, subscriptions and `reserved`. */
  run: Run<T, E> | undefined;
  /** Cancels the run on the server. */
  cancel(): Promise<void>;
  /** Starts a new run with the same request. If the component follows a run by its id, reconnects to that run. */
  restart(): void;
}

interface Live<T, E extends NamedEvent> {
  run: Run<T, E>;
  timer?: ReturnType<typeof setTimeout>;
  left?: boolean; // it was not followed to its end
}

/** Starts a run: the run with this id again, or the request under another key than before. */
type Start<T, E extends NamedEvent> = (id?: string, again?: boolean) => Run<T, E> | undefined;

/**
 * Starts a run, and a new one when the request changes. `{run: id}` follows an existing run, and null starts nothing.
 * The component renders at most once per animation frame. It stops following the run when it is unmounted; a component that was
 * only hidden continues. The options are those of the first render of each run.
 */
export function useRun<T = JSONValue, E extends NamedEvent = never>(
  url: string, request: RunRequest | StartedRun | null | undefined, options?: RunOptions,
): RunState<T, E> {
  const what = request ? url + "\n" + JSON.stringify(request) + "\n" + (options?.key ?? "") : "";
  const [store] = useState(() => new Store<T, E>());
  useEffect(() => {
    return store.begin(what, (id, again) => {
      if (!request) return undefined;
      if ("run" in request) return attach<T, E>(url, request.run, options);
      if (id && request.on_disconnect !== "cancel") return attach<T, E>(url, id, options);
      return run<T, E>(url, request, again ? { ...options, key: undefined } : options);
    });
  }, [store, what]);
  return useSyncExternalStore(store.subscribe, store.state, idle<T, E>);
}

class Store<T, E extends NamedEvent> {
  // The same in every state, so that a component that has only these is not rendered again.
  readonly #cancel = async () => this.#live?.run.cancel();
  readonly #restart = () => {
    const live = this.#live;
    if (!live || !this.#start) return;
    this.#leave(live);
    this.#follow(this.#start(undefined, true), undefined);
  };
  readonly #nothing: RunState<T, E> = { ...nothing, cancel: this.#cancel, restart: this.#restart };
  #state = this.#nothing;
  #what = "";
  #start: Start<T, E> | undefined; // undefined while the component is not there
  #live: Live<T, E> | undefined;
  readonly #listeners = new Set<() => void>();

  state = (): RunState<T, E> => this.#state;

  subscribe = (fn: () => void): (() => void) => {
    this.#listeners.add(fn);
    return () => this.#listeners.delete(fn);
  };

  // Strict mode ends and begins every effect once more; so an end is believed only when no beginning follows it.
  begin(what: string, start: Start<T, E>): () => void {
    const before = this.#live;
    this.#start = start;
    if (before && what === this.#what) {
      clearTimeout(before.timer);
      // It is shown again, and the run has gone on meanwhile.
      if (before.left) this.#follow(start(before.run.id), this.#state.document);
    } else {
      if (before) this.#leave(before);
      this.#what = what;
      this.#follow(start(), undefined);
    }
    return () => {
      this.#start = undefined;
      const live = this.#live;
      if (live) live.timer = setTimeout(() => this.#leave(live));
    };
  }

  #follow(run: Run<T, E> | undefined, document: Growing<T> | undefined): void {
    this.#live = run && { run };
    run?.watch(() => this.#set(run, run.document));
    this.#set(run, document);
  }

  // What becomes of a run that nobody looks at is not shown.
  #leave(live: Live<T, E>): void {
    clearTimeout(live.timer);
    live.left = live.run.status === "running";
    live.run.close();
  }

  #set(run: Run<T, E> | undefined, document: Growing<T> | undefined): void {
    if (run !== this.#live?.run || this.#live?.left) return;
    this.#state = run ? { ...this.#nothing, document, status: run.status, error: run.error, run } : this.#nothing;
    for (const fn of this.#listeners) fn();
  }
}

const nothing: RunState<any> = { document: undefined, status: "idle", error: undefined, run: undefined, cancel: async () => {}, restart: () => {} };

function idle<T, E extends NamedEvent>(): RunState<T, E> {
  return nothing as unknown as RunState<T, E>;
}
