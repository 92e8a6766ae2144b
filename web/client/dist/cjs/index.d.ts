import type { JSONValue } from "./fold.js";
import { Run } from "./run.js";
import type { NamedEvent, RunOptions, RunRequest } from "./types.js";
/** Starts a run and follows it. `url` is `/v1/runs`, or `https://host/v1/runs`. */
export declare function run<T = JSONValue, E extends NamedEvent = never>(url: string, request: RunRequest, options?: RunOptions): Run<T, E>;
/** Follows a run that exists already. It begins with the document so far. */
export declare function attach<T = JSONValue, E extends NamedEvent = never>(url: string, id: string, options?: RunOptions): Run<T, E>;
export { Fold } from "./fold.js";
export type { JSONValue } from "./fold.js";
export type { Run, Subscriber } from "./run.js";
export { RunError } from "./types.js";
export type { AgentRequest, CommonRequest, DeltaEvent, DoneEvent, EventData, EventSourceLike, Growing, MediaPart, ModelOptions, NamedEvent, PatternIn, RunEvent, RunOptions, RunRequest, RunStatus, ServerEvent, StartedRun, Usage, ValueAt, WorkflowRequest, } from "./types.js";
export { formatURI, parseURI, Pattern } from "./uri.js";
