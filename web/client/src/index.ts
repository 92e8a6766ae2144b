import { Run } from "./run.js";
import type { RunOptions, RunRequest } from "./types.js";

/** Starts a run and follows it. `url` is that of the runs: `/v1/runs`, or `https://host/v1/runs`. */
export function run<T = any>(url: string, request: RunRequest, options?: RunOptions): Run<T> {
  return new Run<T>(url, request, undefined, options);
}

/** Follows a run that was started before, by this page or any other; it begins with the document so far. */
export function attach<T = any>(url: string, id: string, options?: RunOptions): Run<T> {
  return new Run<T>(url, undefined, id, options);
}

export { Fold } from "./fold.js";
export type { JSONValue } from "./fold.js";
export type { Run, Subscriber } from "./run.js";
export { RunError } from "./types.js";
export type { DeltaEvent, DoneEvent, EventSourceLike, NamedEvent, RunEvent, RunOptions, RunRequest, RunStatus, Usage } from "./types.js";
export { formatURI, parseURI, Pattern } from "./uri.js";
