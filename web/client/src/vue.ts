import { getCurrentInstance, getCurrentScope, onMounted, onScopeDispose, shallowRef, toValue, watch, type MaybeRefOrGetter, type ShallowRef } from "vue";
import { run, type Run, type RunError, type RunOptions, type RunRequest, type RunStatus } from "./index.js";

/** What a component sees of a run. */
export interface RunRefs<T> {
  /** The document so far; undefined before the first part of it. Parts that have not changed keep their identity. */
  document: Readonly<ShallowRef<T | undefined>>;
  status: Readonly<ShallowRef<RunStatus | "idle">>;
  error: Readonly<ShallowRef<RunError | undefined>>;
  /** The run itself, for its events, subscriptions and `reserved`. */
  run: Readonly<ShallowRef<Run<T> | undefined>>;
  cancel(): Promise<void>;
}

/**
 * Runs the request, and again whenever it is another one; null runs nothing. The refs change at most once per animation
 * frame. A scope that ends stops following the run.
 */
export function useRun<T = any>(
  url: MaybeRefOrGetter<string>,
  request: MaybeRefOrGetter<RunRequest | null | undefined>,
  options?: RunOptions,
): RunRefs<T> {
  const document = shallowRef<T>();
  const status = shallowRef<RunStatus | "idle">("idle");
  const error = shallowRef<RunError>();
  const current = shallowRef<Run<T>>();
  const begin = () => {
    const before = current.value;
    const what = toValue(request);
    const next = what ? run<T>(toValue(url), what, options) : undefined;
    const show = (to: T | undefined) => {
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
  // Compared as text: a getter may make a new object each time that it is asked.
  const what = () => {
    const asked = toValue(request);
    return asked ? toValue(url) + "\n" + JSON.stringify(asked) : "";
  };
  const follow = () => watch(what, begin, { immediate: true });
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
  return { document, status, error, run: current, cancel: async () => current.value?.cancel() };
}
