import { type Growing, type JSONValue, type NamedEvent, type Run, type RunError, type RunOptions, type RunRequest, type RunStatus, type StartedRun } from "./index.js";
/** What a component sees of a run. It is another object only when something has changed. */
export interface RunState<T = JSONValue, E extends NamedEvent = never> {
    /** The document so far; undefined before the first part of it. Parts that have not changed keep their identity. */
    document: Growing<T> | undefined;
    status: RunStatus | "idle";
    error: RunError | undefined;
    /** The run itself, for its id, its events, subscriptions and `reserved`. */
    run: Run<T, E> | undefined;
    /** Cancels the run on the server. */
    cancel(): Promise<void>;
    /** Starts the request once more, as another run. Where the component follows a run by its id, it connects to that run again. */
    restart(): void;
}
/**
 * Runs the request, and again when the request changes. `{run: id}` follows a run that was started before, and null runs nothing.
 * The component is rendered at most once per animation frame. When it is unmounted it stops following the run, and one that was
 * only hidden goes on with it. The options are those of the first render of each run.
 */
export declare function useRun<T = JSONValue, E extends NamedEvent = never>(url: string, request: RunRequest | StartedRun | null | undefined, options?: RunOptions): RunState<T, E>;
