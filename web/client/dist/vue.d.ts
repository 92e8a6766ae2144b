import { type MaybeRefOrGetter, type ShallowRef } from "vue";
import { type Run, type RunError, type RunOptions, type RunRequest, type RunStatus } from "./index.js";
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
export declare function useRun<T = any>(url: MaybeRefOrGetter<string>, request: MaybeRefOrGetter<RunRequest | null | undefined>, options?: RunOptions): RunRefs<T>;
