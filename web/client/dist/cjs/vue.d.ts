import { type MaybeRefOrGetter, type ShallowRef } from "vue";
import { type Growing, type JSONValue, type NamedEvent, type Run, type RunError, type RunOptions, type RunRequest, type RunStatus, type StartedRun } from "./index.js";
/** What a component sees of a run. */
export interface RunRefs<T = JSONValue, E extends NamedEvent = never> {
    /** The document so far; undefined before the first part of it. Parts that have not changed keep their identity. */
    document: Readonly<ShallowRef<Growing<T> | undefined>>;
    status: Readonly<ShallowRef<RunStatus | "idle">>;
    error: Readonly<ShallowRef<RunError | undefined>>;
    /** The run itself, for its id, its events, subscriptions and `reserved`. */
    run: Readonly<ShallowRef<Run<T, E> | undefined>>;
    /** Cancels the run on the server. */
    cancel(): Promise<void>;
    /** Starts the request once more, as another run. Where the component follows a run by its id, it connects to that run again. */
    restart(): void;
}
/**
 * Runs the request, and again when the request changes. `{run: id}` follows a run that was started before, and null runs nothing.
 * The refs change at most once per animation frame. A scope that ends stops following the run.
 */
export declare function useRun<T = JSONValue, E extends NamedEvent = never>(url: MaybeRefOrGetter<string>, request: MaybeRefOrGetter<RunRequest | StartedRun | null | undefined>, options?: RunOptions): RunRefs<T, E>;
