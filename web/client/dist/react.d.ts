import { type Growing, type JSONValue, type NamedEvent, type Run, type RunError, type RunOptions, type RunRequest, type RunStatus, type StartedRun } from "./index.js";
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
/**
 * Starts a run, and a new one when the request changes. `{run: id}` follows an existing run, and null starts nothing.
 * The component renders at most once per animation frame. It stops following the run when it is unmounted; a component that was
 * only hidden continues. The options are those of the first render of each run.
 */
export declare function useRun<T = JSONValue, E extends NamedEvent = never>(url: string, request: RunRequest | StartedRun | null | undefined, options?: RunOptions): RunState<T, E>;
