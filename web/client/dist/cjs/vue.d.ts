import { type MaybeRefOrGetter, type ShallowRef } from "vue";
import { type Growing, type JSONValue, type NamedEvent, type Run, type RunError, type RunOptions, type RunRequest, type RunStatus, type StartedRun } from "./index.js";
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
export declare function useRun<T = JSONValue, E extends NamedEvent = never>(url: MaybeRefOrGetter<string>, request: MaybeRefOrGetter<RunRequest | StartedRun | null | undefined>, options?: RunOptions): RunRefs<T, E>;
