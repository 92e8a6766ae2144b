import { type Run, type RunError, type RunOptions, type RunRequest, type RunStatus } from "./index.js";
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
/**
 * Runs the request, and again whenever it is another one; null runs nothing. The component is rendered at most once per
 * animation frame. A component that goes stops following the run, and one that was only hidden goes on with it; the options are
 * those of the first render of each run.
 */
export declare function useRun<T = any>(url: string, request: RunRequest | null | undefined, options?: RunOptions): RunState<T>;
