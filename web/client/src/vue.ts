import { getCurrentInstance, getCurrentScope, onMounted, onScopeDispose, shallowRef, toValue, watch, type MaybeRefOrGetter, type ShallowRef } from "vue";
import { attach, run, type Growing, type JSONValue, type NamedEvent, type Run, type RunError, type RunOptions, type RunRequest, type RunStatus, type StartedRun } from "./index.js";

/** The state of a run for a component. */
export interface RunRefs<T = JSONValue, E extends NamedEvent = never> {
  /** The document so far; undefined before its first part. Unchanged parts keep their identity. */
  document: Readonly<ShallowRef<Growing<T> | undefined>>;
  status: Readonly<ShallowRef<RunStatus | "idle">>;
  error: Readonly<ShallowRef<RunError | undefined>>;
  /** The run itself, for its id, its events, subscriptions and `reserved`. */
  run: Readonly<ShallowRef<Run<T, E> | undefined>>;
  /** Cancels the run on the server. */
  cancel(): Promise<void>;
  /** Starts a new run with the same request. If the component follows a run by its id, reconnects to that run. */
  restart(): void;
}

/**
 * Starts a run, and a new one when the request changes. `{run: id}` follows an existing run, and null starts nothing.
 * The refs change at most once per animation frame. A scope that ends stops following the run.
 */
export function useRun<T = JSONValue, E extends NamedEvent = never>(
  url: MaybeRefOrGetter<string>,
  request: MaybeRefOrGetter<RunRequest | StartedRun | null | undefined>,
  options?: RunOptions,
): RunRefs<T, E> {
  const document = shallowRef<Growing<T>>();
  const status = shallowRef<RunStatus | "idle">("idle");
  const error = shallowRef<RunError>();
  const current = shallowRef<Run<T, E>>();
  const start = (asked: RunRequest | StartedRun, options?: RunOptions): Run<T, E> =>
    "run" in asked ? attach<T, E>(toValue(url), asked.run, options) : run<T, E>(toValue(url), asked, options);
  const begin = (options?: RunOptions) => {
    const before = current.value;
    const asked = toValue(request);
    const next = asked ? start(asked, options) : undefined;
  const show = (to: Growing<T> | undefined) => {
      if (next !== current.value) return; // it is of a request before this one
      document.value = to;
      status.value = next?.status ?? "idle";
      error.value = next?.error;
    };
    current.value = next;
    before?.close();
    show(undefined);
    next?.watch(() => show(next.document));
  };
  // Another key makes it another run. A scope that has ended has no run any more.
  const restart = () => current.value && begin({ ...options, key: undefined });
  // Compared as text: a getter may make a new object each time that it is asked.
  const what = () => {
    const asked = toValue(request);
    return asked ? toValue(url) + "\n" + JSON.stringify(asked) : "";
  };
  const follow = () => watch(what, () => begin(options), { immediate: true });
  // A component that is only rendered to text, on a server, is never mounted and runs nothing. Nor does what is no component there.
  if (getCurrentInstance()) onMounted(follow);
  else if (typeof window !== "undefined") follow();
  if (getCurrentScope()) {
    onScopeDispose(() => {
      const last = current.value;
      current.value = undefined; // its end is not shown
      last?.close();
    });
  }
  return { document, status, error, run: current, cancel: async () => current.value?.cancel(), restart };
}
